"""`collector recommend CAMPAIGN`: what to set for each model, how sure that is, and the files to paste."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collector.core.configuration import Configuration
from collector.core.errors import UserError, close_words
from collector.measure.campaign import find_campaign, read_plans

if TYPE_CHECKING:  # analysis and pages are loaded when the command runs
    from collector.analysis.noise import Noise
    from collector.analysis.recommend import Advice, Judged
    from collector.analysis.settings import Load, Setting
    from collector.analysis.study import Study

LINE = 110
#: Row ids that a person is shown of each verdict; --json has them all.
SHOWN_ROWS = 6


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "recommend",
        help="what to set, how sure that is, and the files to paste",
        description="Print, for each model, the verdicts and the settings that follow from a campaign's rows, and "
        "what would overturn them. Exit code 2 where there is no such campaign or model.",
    )
    parser.add_argument("campaign", type=Path, help="folder or name of a campaign, such as data/NAME, or published")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of campaigns (default: %(default)s)")
    parser.add_argument("--model", metavar="M", help="this model only")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--write", type=Path, metavar="DIR", help="write a command, a compose and a config file each")
    parser.add_argument(
        "--ttft-p95",
        type=float,
        metavar="SECONDS",
        help="the setting with most throughput whose 95th percentile of time to first token stays within this",
    )
    parser.set_defaults(run=run)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a study says: verdicts and settings of the models asked for."""

    study: Study
    noise: Noise
    advice: tuple[Advice, ...]
    loads: tuple[Load, ...]


def run(args: argparse.Namespace) -> int:
    """Print advice and settings. Raises UserError where there is nothing to advise on."""
    from collector.report.setting_files import setting_files

    if args.ttft_p95 is not None and not args.ttft_p95 > 0:
        raise UserError(f"--ttft-p95 {args.ttft_p95:g}: expected seconds above 0")
    found = _found(args)
    if args.write:
        _write(args.write, setting_files(found.loads))
    if args.json:
        print(json.dumps(as_json(found), indent=2, ensure_ascii=False))
    else:
        print("\n".join(lines(found)))
    return 0


def _found(args: argparse.Namespace) -> Found:
    from collector.analysis.recommend import advice
    from collector.analysis.settings import loads

    study, configurations = _read(args.campaign, args.data)
    noise, every = advice(study)
    settings = loads(study, noise, configurations, args.ttft_p95)
    models = sorted({one.model for one in every} | {one.model for one in settings})
    if not models:
        raise UserError(f"{args.campaign}: no comparable row yet, so there is nothing to advise; sweep its plan first")
    if args.model is not None and args.model not in models:
        close = close_words(args.model, models) or f"; there are {', '.join(models)}"
        raise UserError(f"--model {args.model}: no such model in {args.campaign}{close}")
    wanted = models if args.model is None else [args.model]
    return Found(
        study=study,
        noise=noise,
        advice=tuple(one for one in every if one.model in wanted),
        loads=tuple(one for one in settings if one.model in wanted),
    )


def _read(path: Path, data: Path) -> tuple[Study, Mapping[str, Configuration]]:
    """Read a campaign with the configurations of its plans, or the published figures."""
    from collector.report.build import read_campaign, read_published
    from collector.report.pages import published_study

    for folder in (path, data / path):
        if (published := read_published(folder)) is not None:
            return published_study(published), {}
    folder = find_campaign(path, data)
    plans = read_plans(folder) if (folder / "plan.yaml").is_file() else ()
    return read_campaign(folder), {one.configuration_id: one for plan in plans for one in plan.configurations}


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}; choose another --write") from error


def lines(found: Found) -> Iterator[str]:
    """Yield what a person reads."""
    models = sorted({one.model for one in (*found.advice, *found.loads)})
    for model in models:
        yield from ("", f"== {model}") if model != models[0] else (f"== {model}",)
        for one in found.advice:
            if one.model == model:
                yield from _advised(found, one)
        for load in found.loads:
            if load.model == model:
                yield from _set(load)
        if found.study.is_published:
            yield "settings withheld: the flags behind published figures were not published; sweep plans/dual-3090.yaml"


def _advised(found: Found, advice: Advice) -> Iterator[str]:
    for one, label in zip(advice.judged, _labels(advice.judged), strict=True):
        told = as_verdict(found, one)
        yield f"{label}: {told['state']} ({told['effects']})"
        yield from _wrapped(f"confidence: {told['confidence']}")
        for doubt in told["overturned_by"]:
            yield from _wrapped(f"overturned by: {doubt}")
        rest = len(one.ids) - SHOWN_ROWS
        yield f"   rests on {', '.join(one.ids[:SHOWN_ROWS])}{f' and {rest} more' if rest > 0 else ''}"
    for refusal in advice.refusals:
        k = f" k={refusal.num_speculative_tokens}" if refusal.num_speculative_tokens is not None else ""
        way = f"speculation {refusal.speculation}{k}, KV {refusal.kv_cache_dtype}"
        yield f"did not run: {way}: {refusal.category} ({', '.join(refusal.failure_ids)})"


def _set(load: Load) -> Iterator[str]:
    from collector.report.advice_words import absent
    from collector.report.setting_files import command_of, hardware, path_of
    from collector.report.words import Words, plain

    yield f"settings for prompts {load['prompt_set']}, {load['output_tokens']} output tokens:"
    if load.missing:
        yield from _wrapped(plain(absent(load.missing, Words("en"))))
    for one in load.settings:
        row = one.row
        at = ", ".join(map(str, one.concurrencies))
        speed = ", ".join(f"{each.throughput.value:.1f}" for each in one.choices)
        yield f"   {_title(one)} at concurrency {at}: {speed} tok/s ({hardware(row)}, vLLM {row.engine_version})"
        if one.target:
            yield f"   TTFT p95 within {one.target.target_s:g} s up to {one.target.concurrency}{_beyond(one)}"
        yield f"   files {path_of(one)}.*; rows {' '.join(one.ids[:SHOWN_ROWS])}{' ...' if len(one.ids) > SHOWN_ROWS else ''}"
        yield textwrap.indent(command_of(one).rstrip("\n"), "      ")


def _title(setting: Setting) -> str:
    row = setting.row
    k = f" k={row.num_speculative_tokens}" if row.num_speculative_tokens is not None else ""
    way = f"speculation {row.speculation}{k}, KV {row.kv_cache_dtype}"
    return f"PREDICTION, not measured: a schedule of {way}, chosen" if setting.suggested else way


def _beyond(setting: Setting) -> str:
    target = setting.target
    if target is None or target.last:
        return ", the highest measured"
    return f"; undecided at {target.undecided}" if target.undecided else ""


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, LINE, initial_indent="   ", subsequent_indent="     ")


def _labels(judged: Sequence[Judged]) -> list[str]:
    from collector.report.sections.parts.pair_labels import labels, plain_label
    from collector.report.words import Words

    names = {"speculation": "speculation", "kv_cache_dtype": "KV cache", "nvlink": "NVLink"}
    shown = labels([one.pair for one in judged])
    return [
        f"{names[one.pair.factor.name]}, {plain_label(label, Words('en'), model=False)}"
        for one, label in zip(judged, shown, strict=True)
    ]


def as_verdict(found: Found, judged: Judged) -> dict[str, Any]:
    """Return a verdict with its effects, confidence and doubts, in words and as data."""
    from collector.analysis.doubts import confidence, doubts
    from collector.report.advice_words import effect, overturn, state, sureness
    from collector.report.words import Words, plain

    words, factor = Words("en"), judged.pair.factor
    sure = confidence(judged, found.noise)
    ends = dict.fromkeys(plain(effect(one, factor, words)) for one in (judged.least, judged.most))
    return {
        "factor": factor.name,
        "verdict": judged.verdict,
        "state": plain(state(judged, words)),
        "edge": judged.edge,
        "effects": " to ".join(ends),
        "prompt_set": judged.pair["prompt_set"],
        "gains_at": judged.evidence.gains,
        "losses_at": judged.evidence.losses,
        "within_noise_at": judged.evidence.within_noise,
        "left_out_at": judged.evidence.mixed,
        "confidence": plain(sureness(sure, words)),
        "basis": sure.basis,
        "repeats": sure.repeats,
        "weakest_at": sure.weakest.concurrency if sure.weakest else None,
        "weakest_multiple_of_noise": sure.multiple,
        "overturned_by": [plain(overturn(one, factor, words)) for one in doubts(found.study, judged, found.noise)],
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
        "loads": [_load_as_json(one) for one in found.loads],
    }


def _load_as_json(load: Load) -> dict[str, Any]:
    return {
        "model": load.model,
        **dict(load.known),
        "concurrencies": load.concurrencies,
        "withheld": load.missing,
        "settings": [_setting_as_json(one) for one in load.settings],
    }


def _setting_as_json(one: Setting) -> dict[str, Any]:
    from collector.report.setting_files import hardware, path_of

    row = one.row
    return {
        "concurrencies": one.concurrencies,
        "throughput_tok_s": [each.throughput.value for each in one.choices],
        "prediction": one.suggested is not None,
        "max_num_seqs_lowered": one.limited,
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
