"""What the wait for an answer is made of, and what a link between the cards changes: prefill and decoding apart.

A percentile of a histogram is known to its bucket only, so each stands with its bounds. Bytes on the link follow from
positions x layers x hidden (core/footprint). More than that went over it where prompts were computed again after a
preemption: the engine counts a prompt once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from collector.analysis.compared import Pair, RatioPoint
from collector.analysis.curves import Curve, Stage, curves
from collector.analysis.formula import formula_of
from collector.analysis.latency import Bucket, bucket_of
from collector.analysis.mixed import drafting, mixed_at
from collector.analysis.noise import Noise, noise_among, noise_of
from collector.analysis.pairing import NVLINK
from collector.analysis.quantity import By, Quantity, mean_of, most_of, ratio_of
from collector.analysis.repeats import errors_among
from collector.analysis.study import Study
from collector.core.footprint import nvlink_bytes
from collector.core.hardware import drafter_dimensions, model_dimensions
from collector.core.rows import Row
from collector.core.speculative import is_plain
from collector.core.step import StepLoad

#: What a request waits for, in the order in which it does.
TIMES = ("queue", "prefill", "ttft", "tpot")
SHARES = ("p50", "p95")

#: What a link gains beside throughput, by its name in LinkParts: the column whose time it shortens.
TIMED = {"prefill": "prefill_mean_s", "decode": "step_time_mean_s"}

#: Request steps after the first token, each of which verifies the position it stands at.
STEPS = "(generation_tokens-requests_done)/tokens_per_step"
POSITIONS = f"(prompt_tokens_computed+{STEPS})"
DRAFTED_POSITIONS = f"(prompt_tokens_computed+{STEPS}+draft_tokens)"
TRAFFIC_EACH = "nvlink_bytes/generation_tokens"
PREDICTED: By = "predicted"


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits:
    """One stage, by what is waited for: the mean, and of each percentile its value inside the bucket that holds it."""

    stage: Stage
    means: Mapping[str, Quantity | None]
    percentiles: Mapping[str, Mapping[str, tuple[Quantity | None, Bucket | None]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkParts:
    """An NVLink pair at one concurrency: speed with the link ÷ without it, and what went over it. None: not known."""

    pair: Pair
    point: RatioPoint
    system: Quantity
    prefill: Quantity | None  # of the mean time from schedule to first token, without the link ÷ with it
    decode: Quantity | None  # of the time of a request's step, likewise
    per_token: Quantity | None  # bytes
    prefill_share: Quantity | None  # of the positions computed
    predicted: Quantity | None  # bytes per token, by the dimensions of model and drafter
    preemptions: Quantity | None  # of the side with the link, the most of its repeats
    mixed: bool  # the arms accept so differently that their gain is not the link's alone

    @property
    def preempted(self) -> bool:
        return self.preemptions is not None and self.preemptions.value > 0


def waits(study: Study) -> list[tuple[Curve, tuple[Waits, ...]]]:
    """Return every configuration and load with what its requests waited for."""
    return [(curve, tuple(_waits(stage) for stage in curve.stages)) for curve in curves(study.basis)]


def _waits(stage: Stage) -> Waits:
    return Waits(
        stage=stage,
        means={name: mean_of(stage.rows, f"{name}_mean_s") for name in TIMES},
        percentiles={name: {share: _percentile(stage, f"{name}_{share}_s") for share in SHARES} for name in TIMES},
    )


def _percentile(stage: Stage, column: str) -> tuple[Quantity | None, Bucket | None]:
    return mean_of(stage.rows, column), bucket_of(stage.rows, column)


def link_parts(study: Study) -> list[LinkParts]:
    """Return every NVLink pair of rows at every concurrency that has a ratio."""
    noise = noise_of(study)
    pairs = [(pair, mixed_at(pair, drafting(study, pair, noise))) for pair in study.pairs(NVLINK)]
    return [
        _link(pair, point, point.value, noise.rows, study.profile, mixed=point.concurrency in mixed)
        for pair, mixed in pairs
        for point in pair.measured
        if point.value and point.row_ids_on
    ]


def _link(
    pair: Pair,
    point: RatioPoint,
    system: Quantity,
    rows: Mapping[str, Row],
    profile: Mapping[str, Any] | None,
    *,
    mixed: bool,
) -> LinkParts:
    on, off = ([rows[one] for one in ids] for ids in (point.row_ids_on, point.row_ids_off))
    positions = POSITIONS if on[0].draft_tokens is None else DRAFTED_POSITIONS
    return LinkParts(
        pair=pair,
        point=point,
        system=system,
        prefill=_faster(on, off, TIMED["prefill"]),
        decode=_faster(on, off, TIMED["decode"]),
        per_token=formula_of(on, TRAFFIC_EACH),
        prefill_share=formula_of(on, f"prompt_tokens_computed/{positions}"),
        predicted=predicted_bytes(on[0], profile),
        preemptions=most_of(on, "preemptions"),
        mixed=mixed,
    )


def ends_of(found: Iterable[Quantity | None]) -> tuple[Quantity, Quantity] | None:
    """Return the least and the most of these; None where there is none."""
    known = sorted((one for one in found if one), key=lambda one: one.value)
    return (known[0], known[-1]) if known else None


def _faster(on: Iterable[Row], off: Iterable[Row], column: str) -> Quantity | None:
    """Return how fast the side with the link is, from the rows that took any time: without the link ÷ with it."""
    with_it, without = ([row for row in side if getattr(row, column)] for side in (on, off))
    return ratio_of(without, with_it, column)


def link_noises(study: Study, found: Iterable[LinkParts]) -> dict[str, Noise]:
    """Return what judges each gain of these, by its name in LinkParts."""
    rows, known = {row.row_id: row for row in study.basis}, list(found)
    noises = {"system": noise_of(study)}
    for name, column in TIMED.items():
        ratios = [ratio for one in known if (ratio := getattr(one, name)) is not None]
        noises[name] = noise_among(ratios, rows, errors_among(rows.values(), column), column, f"link-{name}")
    return noises


def predicted_bytes(row: Row, profile: Mapping[str, Any] | None) -> Quantity | None:
    """Return the bytes per output token that a row's positions give; None where the profile knows no dimensions."""
    dimensions = (profile or {}).get("models", {}).get(row.model, {}).get("dimensions")
    counted = (row.prompt_tokens_computed, row.generation_tokens, row.tokens_per_step)
    if not dimensions or row.tensor_parallel == 1 or not is_plain(row.speculative_config) or None in counted:
        return None
    if not row.generation_tokens or not row.tokens_per_step:
        return None
    steps = round((row.generation_tokens - row.requests_done) / row.tokens_per_step)
    decoded = steps + (row.draft_tokens or 0)
    k = row.num_speculative_tokens or 0
    drafting = steps + row.requests_done if k else 0  # a prompt's last step drafts for the next one, too
    load = StepLoad(
        prefill_positions=row.prompt_tokens_computed or 0,
        decode_positions=decoded,
        requests=steps,
        decoding=steps,
        kv_read_tokens=0,
        kv_read_tokens_sliding=0,
        drafted_per_request=k,
        drafting=drafting,
        sampled=decoded + row.requests_done,
    )
    try:
        drafter = drafter_dimensions(dimensions, row.speculation)
    except KeyError:  # a method that the profile says nothing of
        return None
    total = nvlink_bytes(model_dimensions(dimensions), drafter, load)
    return Quantity(value=total / row.generation_tokens, by=PREDICTED, of=TRAFFIC_EACH, ids=(row.row_id,))
