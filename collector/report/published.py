"""What the page of published figures is rendered from: figures, comparisons and the emulation behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor, log10
from typing import Any

from collector.analysis.figures import COMPUTED, Figure, Recomputation, recomputed
from collector.analysis.left_open import EMULATED, left_open
from collector.analysis.noise import noise_of
from collector.analysis.published import (
    TRAFFIC_CONCURRENCY,
    Comparison,
    Summary,
    as_published,
    compare,
    summary,
)
from collector.analysis.speculation import pairs
from collector.analysis.study import PUBLISHED, PublishedFailure, Study
from collector.core.rows import Failure, Position, Row
from collector.core.units import fixed
from collector.report.break_evens import break_even_lines
from collector.report.parameters import parameter_lines
from collector.report.published_files import Published

#: What a failed start and a published one have in common.
FAILURE_LABELS = ("model", "kv_cache_dtype", "speculation", "num_speculative_tokens", "nvlink", "series")
#: Errors of a calibration whose name ends so are differences in points, the others fractions.
POINTS = "_points"


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureLine:
    """A figure as the page shows it, with the precision it was printed with."""

    figure: Figure
    published: str
    computed: str | None
    sampling: str | None  # standard error of `computed`
    error: str | None
    comparison: Comparison | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryLine:
    summary: Summary
    median: str | None
    worst: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """One campaign and provenance beside the published figures."""

    campaign: str
    provenance: str
    summary: tuple[SummaryLine, ...]
    sections: tuple[tuple[str, tuple[FigureLine, ...]], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureLine:
    failure: PublishedFailure
    scripted: bool
    seen: tuple[tuple[str, str, str], ...]  # campaign, provenance, category


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationLine:
    model: str | None  # left out of the fit; None: all were in it
    metric: str
    figures: int
    median: str
    worst: str


Records = tuple[str, Sequence[Row], Sequence[Failure], Sequence[Position]]


def published_page(published: Published | None, campaigns: Iterable[Records], language: str) -> dict[str, Any]:
    """Return what the page is rendered from; a campaign is its name, rows, failures and positions."""
    if published is None:
        return {"published": None}
    known = list(campaigns)
    compared = [
        one for name, rows, _, positions in known for one in _compared(published.figures, name, rows, positions)
    ]
    found = [pair for _, rows, _, _ in known for pair in pairs(as_published(published.figures, rows))]
    off_by = _emulation_error(compared)
    noises = {name: noise_of(Study(name=name, rows=tuple(rows))) for name, rows, _, _ in known}
    noises[PUBLISHED] = noise_of(Study(name=PUBLISHED, figures=published.figures))
    checked = recomputed(published.figures)
    hardware = published.profile.get("hardware", {})
    return {
        "published": published,
        "compared": compared,
        "break_even": break_even_lines(left_open(published.figures, found, off_by, noises)),
        "emulation_error": None if off_by is None else _error_text(off_by, points=False),
        "plain": _sections([_line(one, None) for one in published.figures if one.metric in COMPUTED]),
        "others": _sections([_line(one, None) for one in published.figures if one.metric not in COMPUTED]),
        "traffic_at": TRAFFIC_CONCURRENCY,
        "checked": checked,
        "disagreeing": [_disagreeing(one) for one in checked if not one.agrees],
        "failures": [_failure(one, published.profile, known) for one in published.failures],
        "parameters": parameter_lines(hardware, language),
        "calibration": _calibration(published.calibration),
        "assumptions": _assumptions(published.profile),
        "lengths": [(name, one["dimensions"]["prompt_tokens"]) for name, one in _models(published.profile)],
    }


def _compared(
    figures: Sequence[Figure], name: str, rows: Sequence[Row], positions: Sequence[Position]
) -> list[Compared]:
    """Return a comparison for each provenance of which the rows give at least one figure.

    Of cells that the campaign does not have there is no line: the summary counts them.
    """
    found = []
    for provenance in sorted({row.provenance for row in rows}):
        comparisons = compare(figures, [row for row in rows if row.provenance == provenance], positions)
        if any(one.computed is not None for one in comparisons):
            beside = [pair for pair in zip(figures, comparisons, strict=True) if pair[0].metric in COMPUTED]
            lines = [_line(*pair) for pair in beside if pair[1].reason != "missing"]
            found.append(
                Compared(
                    campaign=name,
                    provenance=provenance,
                    summary=tuple(map(_summary_line, summary(comparisons))),
                    sections=_sections(lines),
                )
            )
    return found


def _emulation_error(compared: Iterable[Compared]) -> float | None:
    """Return the largest error of any emulated speculation ratio against a published one."""
    lines = [line.summary for one in compared if one.provenance == EMULATED for line in one.summary]
    worst = [one.worst for one in lines if one.metric == "speculation_ratio" and one.worst is not None]
    return max(worst, default=None)


def _line(figure: Figure, comparison: Comparison | None) -> FigureLine:
    digits = _digits(figure)
    computed = comparison.computed if comparison else None
    error = comparison.error if comparison else None
    sampling = comparison.sampling_error if comparison else None
    return FigureLine(
        figure=figure,
        published=fixed(figure.value, digits),
        computed=None if computed is None else fixed(computed, digits),
        sampling=None if sampling is None else fixed(sampling, max(digits, -floor(log10(sampling)))),
        error=None if error is None else _error_text(error, figure.unit == "%", sign="+"),
        comparison=comparison,
    )


def _digits(figure: Figure) -> int:
    return max(0, -floor(log10(figure.resolution)))


def _error_text(error: float, points: bool, sign: str = "") -> str:
    text = fixed(error if points else 100 * error, 1)
    return f"{sign if error > 0 and float(text) else ''}{text}{' pt' if points else ' %'}"


def _sections(lines: Sequence[FigureLine]) -> tuple[tuple[str, tuple[FigureLine, ...]], ...]:
    return tuple((name, tuple(members)) for name, members in groupby(lines, lambda one: one.figure.section))


def _summary_line(one: Summary) -> SummaryLine:
    median, worst = (None if each is None else _error_text(each, one.unit == "%") for each in (one.median, one.worst))
    return SummaryLine(summary=one, median=median, worst=worst)


def _disagreeing(one: Recomputation) -> dict[str, Any]:
    digits = _digits(one.figure) + 2
    texts = {name: fixed(getattr(one, name), digits) for name in ("value", "low", "high")}
    return {"line": _line(one.figure, None)} | texts


def _failure(failure: PublishedFailure, profile: Mapping[str, Any], campaigns: Sequence[Records]) -> FailureLine:
    wanted = {name: getattr(failure.labels, name) for name in FAILURE_LABELS}
    seen = {
        (name, one.provenance, one.category)
        for name, _, failures, _ in campaigns
        for one in failures
        if all(value in (None, getattr(one, column)) for column, value in wanted.items())
    }
    scripted = any(
        all(wanted.get(name) == value for name, value in outcome["match"].items())
        for outcome in profile.get("outcomes", ())
    )
    return FailureLine(failure=failure, scripted=scripted, seen=tuple(sorted(seen)))


def _calibration(document: Mapping[str, Any] | None) -> list[CalibrationLine] | None:
    """Return the errors of the fit, and those of each model under what the others give."""
    if document is None:
        return None
    groups = [(None, name, one["summary"]) for name, one in document.items() if "summary" in one]
    for model, errors in document.get("leave_one_model_out", {}).items():
        groups += [(model, name, one) for name, one in errors.items()]
    return [
        CalibrationLine(
            model=model,
            metric=name.removesuffix(POINTS),
            figures=one["figures"],
            median=_error_text(one["median"], name.endswith(POINTS)),
            worst=_error_text(one["worst"], name.endswith(POINTS)),
        )
        for model, name, one in groups
    ]


def _models(profile: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    models = profile.get("models", {}).items()
    return sorted(((name, one) for name, one in models if one.get("dimensions")), key=lambda named: named[0])


def _assumptions(profile: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a profile says of where its numbers are from, in its own words."""
    hardware = profile.get("hardware", {})
    found = [("gpu", hardware.get("gpu", {}).get("source")), ("memory", hardware.get("memory_source"))]
    for name, model in _models(profile):
        dimensions = model["dimensions"]
        found.append((name, dimensions["target"].get("source")))
        found += [(f"{name} · {method}", one.get("source")) for method, one in dimensions["drafters"].items()]
        found.append(("attention backends", dimensions.get("backends_source")))
    for run in profile.get("lone_runs", ()):
        facts = " · ".join(f"{key} {value}" for key, value in run["match"].items())
        found.append((facts, f"{run['note']}; used while a request runs alone"))
    return list(dict.fromkeys((name, text) for name, text in found if text))
