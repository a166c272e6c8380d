"""The same taking apart for figures published elsewhere, as far as they were printed."""

from __future__ import annotations

from collector.analysis.compared import Pair, RatioPoint
from collector.analysis.figures import Figure
from collector.analysis.formula import printed_formula
from collector.analysis.noise import noise_of
from collector.analysis.pairing import OFF, SPECULATION
from collector.analysis.quantity import Quantity, printed
from collector.analysis.step_time import Arm, Case, Part, cases
from collector.analysis.study import Study

#: What a step gives if each verifies a full draft and the printed acceptance rate holds at this concurrency.
EXPECTED_TOKENS = "1+acceptance_rate*num_speculative_tokens"

_METRICS = ("request_decode_rate", "system_throughput")
#: The mean number of requests decoding, up to the first token of each.
REST = "system_throughput/request_decode_rate"


def printed_cases(study: Study) -> list[Case]:
    """Return the cases among published ratios."""
    return cases(study.pairs(SPECULATION), lambda pair, point: _part(study, pair, point), noise_of(study))


def _part(study: Study, pair: Pair, point: RatioPoint) -> Part:
    on, off = _figures(study, pair, point, _way(pair)), _figures(study, pair, point, _way(None))
    return Part(
        point=point,
        on=_arm(on),
        off=_arm(off),
        decode=printed_formula(on[:1], "request_decode_rate", off[:1]) if on and off else None,
        rest=printed_formula(on, REST, off) if len(on) == len(off) == len(_METRICS) else None,
        system=point.value,
        positions=_printed(study, pair, "verified_positions_per_request", None),
        positions_per_step=_printed(study, pair, "verified_positions_per_step", point.concurrency),
        implied=_implied(study, pair, on[0], off[0]) if on and off else None,
    )


def _arm(figures: list[Figure]) -> Arm:
    return Arm(
        decode=printed(figures[0]) if figures else None,
        decoding=printed_formula(figures, REST) if len(figures) == len(_METRICS) else None,
    )


def _figures(study: Study, pair: Pair, point: RatioPoint, way: dict[str, object]) -> list[Figure]:
    """Return the decode rate of one side and, after it, its throughput; nothing without the decode rate."""
    shared = {name: pair.get(name) for name in ("model", "kv_cache_dtype", "nvlink", "series")}
    rate, throughput = (
        study.figures_of(metric, concurrency=point.concurrency, **shared, **way)[:1] for metric in _METRICS
    )
    return rate + throughput if rate else []


def _implied(study: Study, pair: Pair, on: Figure, off: Figure) -> tuple[Arm, Arm] | None:
    """Return what a step would give and take on both sides: without speculation it gives one token."""
    accepted = study.figures_of(
        "acceptance_rate", model=pair["model"], prompt_set=on.labels.prompt_set, concurrency=None, **_way(pair)
    )[:1]
    if not accepted:
        return None
    step = printed_formula([*accepted, on], f"({EXPECTED_TOKENS})/request_decode_rate")
    return (
        Arm(tokens=printed_formula(accepted, EXPECTED_TOKENS), step=step),
        Arm(step=printed_formula([off], "1/request_decode_rate")),
    )


def _printed(study: Study, pair: Pair, metric: str, concurrency: int | None) -> Quantity | None:
    found = study.figures_of(metric, model=pair["model"], concurrency=concurrency, **_way(pair))
    return printed(found[0]) if found else None


def _way(pair: Pair | None) -> dict[str, object]:
    if pair is None:
        return {"speculation": OFF, "num_speculative_tokens": None}
    return {"speculation": pair.speculation, "num_speculative_tokens": pair.num_speculative_tokens}
