"""What a claim holds for: hardware, engine, weights and prompt, as short texts beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collector.analysis.compared import Pair
from collector.analysis.study import Study
from collector.core.rows import Row
from collector.report.naming import weights
from collector.report.words import Words, plain

#: With more values than this a condition counts them.
NAMED_VALUES = 3


def conditions(
    study: Study, words: Words, like: Pair | Sequence[Pair] | None = None, model: str | None = None
) -> tuple[str, ...]:
    """Return the conditions of a study: of the prompts of a pair or several, of one model where it is named."""
    if study.is_published:
        return _printed(study, words)
    pairs = (like,) if isinstance(like, Pair) else like or ()
    sets = {pair["prompt_set"] for pair in pairs}
    rows = [row for row in study.rows if not sets or row.prompt_set in sets]
    rows = [row for row in rows if model in (None, row.model)]
    names = _distinct(map(weights, rows))
    many = plain(words.t("가중치 {n}종", "{n} sets of weights", n=len(names)))
    return tuple(
        text
        for text in (
            ", ".join(_distinct(_hardware(row) for row in rows)),
            ", ".join(f"vLLM {one}" for one in _distinct(row.engine_version for row in rows)),
            ", ".join(names) if len(names) <= NAMED_VALUES else many,
            _prompts(_distinct(row.prompt_set for row in rows), words),
            _output(_distinct(str(row.output_tokens) for row in rows), words),
        )
        if text
    )


def spread_note(study: Study, pairs: Iterable[Pair], words: Words) -> str:
    """Say how often the sides of these pairs were measured."""
    if study.is_published:
        return plain(words.t("반복 측정의 퍼짐은 발표되지 않음", "no spread published"))
    known = [point.value for pair in pairs for point in pair.measured if point.value]
    repeated = [one for one in known if one.low is not None]
    if not repeated:
        return plain(words.t("한 번씩 측정, 퍼짐은 알 수 없음", "measured once each, spread not known"))
    least = min(one.n for one in known)
    if len(repeated) == len(known):
        return plain(words.t("{n}번 이상 측정", "measured {n} times or more", n=least))
    return plain(words.t("일부만 반복 측정", "only some repeated"))


def _distinct(values: Iterable[str]) -> list[str]:
    return sorted(set(values) - {""})


def _hardware(row: Row) -> str:
    if row.gpu_model is None:
        return row.cpu_model or ""
    return row.gpu_model if row.gpu_count is None else f"{row.gpu_count} × {row.gpu_model}"


def _prompts(names: list[str], words: Words) -> str:
    if len(names) > NAMED_VALUES:
        return plain(words.t("프롬프트 {n}종", "{n} prompt sets", n=len(names)))
    return plain(words.t("프롬프트 {names}", "prompts: {names}", names=", ".join(names))) if names else ""


def _output(tokens: list[str], words: Words) -> str:
    return plain(words.t("출력 {n}토큰", "{n} output tokens", n=", ".join(tokens))) if tokens else ""


def _printed(study: Study, words: Words) -> tuple[str, ...]:
    """Return the conditions that were printed. The engine's version and the weights are in no figure."""
    hardware = [f"{one.value:g} × {one.note}" for one in study.figures_of("gpu_count")]
    sets = _distinct(one.labels.prompt_set or "" for one in study.figures if one.metric == "speculation_ratio")
    output = _distinct(f"{one.value:g}" for one in study.figures_of("output_tokens"))
    return tuple(text for text in (*hardware, _prompts(sets, words), _output(output, words)) if text)
