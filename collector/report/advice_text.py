"""Advice in words and as data, for the command line; the site has it on a page (settings_page.py)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from collector.analysis.doubts import confidence, doubts
from collector.analysis.noise import Noise
from collector.analysis.recommend import Advice, Judged
from collector.analysis.settings import Load, Setting, withheld
from collector.analysis.study import Study
from collector.core.speculative import schedule_of
from collector.report.advice_words import absent, effect, state
from collector.report.doubt_words import overturn, sureness
from collector.report.proposal_words import ranges_text
from collector.report.sections.parts.pair_labels import labels, plain_label
from collector.report.setting_files import command_of, hardware, path_of
from collector.report.setting_words import notes, when
from collector.report.words import Words, plain

LINE = 110
#: Row ids that a person is shown of each verdict; JSON has them all.
SHOWN_ROWS = 6
ENGLISH = Words("en")


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a study says: verdicts and settings of the models asked for."""

    study: Study
    noise: Noise
    advice: tuple[Advice, ...]
    loads: tuple[Load, ...]


def lines(found: Found) -> Iterator[str]:
    """Yield what a person reads."""
    models = sorted({one.model for one in found.advice} | {one.model for one in found.loads})
    for model in models:
        yield from ("", f"== {model}") if model != models[0] else (f"== {model}",)
        for one in found.advice:
            if one.model == model:
                yield from _advised(found, one)
        for load in found.loads:
            if load.model == model:
                yield from _set(found, load)
        if found.study.is_published:
            yield "settings withheld: the flags behind published figures were not published; sweep plans/dual-3090.yaml"


def _advised(found: Found, advice: Advice) -> Iterator[str]:
    for one, label in zip(advice.judged, _labels(advice.judged), strict=True):
        told = as_verdict(found, one)
        yield f"{label}: {told['state']} ({told['effects']})"
        multiple = told["weakest_multiple_of_noise"]
        times = f" Its weakest effect is {multiple:.1f} times what counts as noise." if multiple else ""
        yield from _wrapped(f"confidence: {told['confidence']}{times}")
        for doubt in told["overturned_by"]:
            yield from _wrapped(f"overturned by: {doubt}")
        yield f"   {_rests_on(one.ids)}"
    for refusal in advice.refusals:
        k = f" k={refusal.num_speculative_tokens}" if refusal.num_speculative_tokens is not None else ""
        way = f"speculation {refusal.speculation}{k}, KV {refusal.kv_cache_dtype}"
        yield f"did not run: {way}: {refusal.category} ({', '.join(refusal.failure_ids)})"


def _set(found: Found, load: Load) -> Iterator[str]:
    link = f", NVLink {load['nvlink']}" if load["nvlink"] else ""
    yield f"settings for prompts {load['prompt_set']}, {load['output_tokens']} output tokens{link}:"
    if load.missing:
        yield from _wrapped(plain(absent(load.missing, ENGLISH)))
    for way in sorted({one.pair.speculation for one in withheld(load, found.advice)}):
        yield from _wrapped(f"speculation {way} is withheld here: see above; without a verdict on it, the fastest is")
    for one in load.settings:
        yield f"   {_title(load, one)} ({hardware(one.row)}, vLLM {one.row.engine_version})"
        for note in notes(one, ENGLISH):
            yield from _wrapped(plain(note))
        if one.target:
            yield f"   TTFT p95 within {one.target.target_s:g} s up to {one.target.concurrency}{_beyond(one)}"
        yield f"   files {path_of(one)}.*; {_rests_on(one.ids)}"
        yield textwrap.indent(command_of(one).rstrip("\n"), "      ")


def _rests_on(ids: Sequence[str]) -> str:
    rest = len(ids) - SHOWN_ROWS
    return f"rests on {', '.join(ids[:SHOWN_ROWS])}{f' and {rest} more' if rest > 0 else ''}"


def _title(load: Load, setting: Setting) -> str:
    row = setting.row
    k = f" k={row.num_speculative_tokens}" if row.num_speculative_tokens is not None else ""
    way = f"speculation {row.speculation}{k}, KV {row.kv_cache_dtype}"
    told = plain(when(load, setting, ENGLISH))
    if setting.suggested:
        return f"{told} (PREDICTION, not measured): a schedule of {way}"
    ranges = schedule_of(setting.serving.option("speculative-config"))
    way += f" (k by batch size: {plain(ranges_text(ranges, ENGLISH))})" if ranges else ""
    return f"{told}: {way}: {', '.join(f'{one.throughput.value:.1f}' for one in setting.choices)} tok/s"


def _beyond(setting: Setting) -> str:
    target = setting.target
    if target is None or target.last:
        return ", the highest measured"
    return f"; undecided at {target.undecided}" if target.undecided else ""


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, LINE, initial_indent="   ", subsequent_indent="     ")


def _labels(judged: Sequence[Judged]) -> list[str]:
    names = {"speculation": "speculation", "kv_cache_dtype": "KV cache", "nvlink": "NVLink"}
    shown = labels([one.pair for one in judged])
    return [
        f"{names[one.pair.factor.name]}, {plain_label(label, ENGLISH, model=False)}"
        for one, label in zip(judged, shown, strict=True)
    ]


def as_verdict(found: Found, judged: Judged) -> dict[str, Any]:
    """Return a verdict with its effects, confidence and doubts, in words and as data."""
    factor = judged.pair.factor
    sure = confidence(judged, found.noise)
    ends = dict.fromkeys(plain(effect(one, factor, ENGLISH)) for one in (judged.least, judged.most))
    return {
        "factor": factor.name,
        "verdict": judged.verdict,
        "state": plain(state(judged, ENGLISH)),
        "edge": judged.edge,
        "effects": " to ".join(ends),
        "prompt_set": judged.pair["prompt_set"],
        "gains_at": judged.evidence.gains,
        "losses_at": judged.evidence.losses,
        "within_noise_at": judged.evidence.within_noise,
        "left_out_at": judged.evidence.mixed,
        "confidence": plain(sureness(sure, ENGLISH)),
        "basis": sure.basis,
        "repeats": sure.repeats,
        "weakest_at": sure.weakest.concurrency if sure.weakest else None,
        "weakest_multiple_of_noise": sure.multiple,
        "overturned_by": [plain(overturn(one, factor, ENGLISH)) for one in doubts(found.study, judged, found.noise)],
        "rows": judged.ids,
    }


def as_json(found: Found) -> dict[str, Any]:
    return {
        "campaign": found.study.name,
        "provenance": found.study.provenances,
        "models": [
            {
                "model": one.model,
                "verdicts": [
                    as_verdict(found, each) | {"comparison": label}
                    for each, label in zip(one.judged, _labels(one.judged), strict=True)
                ],
                "did_not_run": [
                    {
                        "kv_cache_dtype": each.kv_cache_dtype,
                        "speculation": each.speculation,
                        "num_speculative_tokens": each.num_speculative_tokens,
                        "category": each.category,
                        "failures": each.failure_ids,
                    }
                    for each in one.refusals
                ],
            }
            for one in found.advice
        ],
        "loads": [_load_as_json(found, one) for one in found.loads],
    }


def _load_as_json(found: Found, load: Load) -> dict[str, Any]:
    return {
        "model": load.model,
        **dict(load.known),
        "concurrencies": load.concurrencies,
        "withheld": load.missing,
        "withheld_speculation": sorted({one.pair.speculation for one in withheld(load, found.advice)}),
        "settings": [_setting_as_json(load, one) for one in load.settings],
    }


def _setting_as_json(load: Load, one: Setting) -> dict[str, Any]:
    row = one.row
    return {
        "concurrencies": one.concurrencies,
        "throughput_tok_s": [each.throughput.value for each in one.choices],
        "prediction": one.suggested is not None,
        "for": plain(when(load, one, ENGLISH)),
        "for_a_load_that_varies": one.varying is not None or one.concurrencies == load.compared,
        "worst_of_best": one.varying.worst.value if one.varying and one.varying.worst else None,
        "worst_at": one.varying.worst_at if one.varying else None,
        "max_num_seqs_lowered": one.limit is not None,
        "max_num_seqs_lowered_because": one.limit,
        "notes": [plain(note) for note in notes(one, ENGLISH)],
        "ttft_p95_within_s": one.target.target_s if one.target else None,
        "undecided_at": one.target.undecided if one.target else None,
        "configuration_id": row.configuration_id,
        "hardware": hardware(row),
        "engine_version": row.engine_version,
        "arguments": ["vllm", "serve", *one.serving.arguments],
        "environment": dict(one.serving.environment),
        "image": one.serving.image,
        "files": path_of(one),
        "rows": one.ids,
    }
