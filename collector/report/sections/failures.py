"""Configurations that did not run: the engine's own words, and what would help by the numbers in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from collector.analysis.figures import Figure, Labels
from collector.analysis.pairing import sortable
from collector.analysis.remedies import Beside, Remedy, Told, ran_beside, remedy
from collector.analysis.study import PublishedFailure, Study
from collector.core.failures import CATEGORIES
from collector.core.rows import Failure
from collector.core.units import fixed
from collector.report.tables import Label, label_columns, label_of
from collector.report.text import CAUSE_LIMIT, cut
from collector.report.words import Words

#: With more categories than this, only the most frequent are named.
NAMED_CATEGORIES = 3
MIB_IN_GIB = 1024
#: Less than this prints in MiB, so that its leading digits show.
MIB_BELOW_GIB = 0.1
MEMORY_DIGITS = 2
#: As fitting_of rounds --gpu-memory-utilization down.
SHARE_DIGITS = 2
COUNTED = ("configurations", "reboots")
#: Figures of the published study about what it left out, and where they stand.
LEFT_OUT = "not_run"
LEFT_OUT_METRICS = (
    "quantised_drafter", "weights_total", "weights_per_gpu", "kv_cache_capacity", "abnormal_reboots",
    "abnormal_reboots_before",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """Failures of one configuration that ended in the same words."""

    label: Label
    nvlink: str | None
    phase: str | None  # not published
    category: str
    known: bool  # whether the dictionary has the category
    words: str
    cut: bool
    remedy: Remedy
    beside: tuple[Beside, ...]
    retryable: bool
    died: bool  # it had been ready
    scripted: bool
    provenance: str | None
    ids: tuple[str, ...]
    logs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """What the advice for a kind of failure depends on."""

    name: str
    speculating: bool  # in any of them
    fp8: bool  # in all of them


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return the failures, most telling first, and how many configurations there were."""
    lines = _lines(study)
    measured = {row.configuration_id for row in study.rows}
    failed = {one.configuration_id for one in study.failures}
    left_out = {one.metric: _unnamed(one) for one in study.figures if one.section == LEFT_OUT}
    return {
        "lines": lines,
        "never": len(failed - measured),
        "configurations": len(failed | measured),
        "died": [one for one in lines if one.died],
        "kinds": _kinds([one.remedy for one in lines]),
        "categories": Counter(one.category for one in lines).most_common(),
        "left_out": dict.fromkeys(LEFT_OUT_METRICS) | left_out if left_out else None,
        "started": [_unnamed(one) for one in study.figures_of("configurations_started")],
        "refused": [_unnamed(one) for one in study.figures_of("configurations_failed")],
        "NAMED_CATEGORIES": NAMED_CATEGORIES,
        "gib": _printer(words, lambda value: _memory(value, words)),
        "share": _printer(words, lambda value: Markup("{}").format(fixed(value, SHARE_DIGITS))),
        "whole": _printer(words, lambda value: Markup("{}").format(fixed(value, 0))),
    }


def _unnamed(figure: Figure) -> Figure:
    """Leave out a unit that is a word of the sentence around it."""
    return replace(figure, unit="") if figure.unit in COUNTED else figure


def _kinds(found: Sequence[Remedy]) -> list[Kind]:
    by_kind: dict[str, list[Remedy]] = {}
    for one in found:
        by_kind.setdefault(one.kind, []).append(one)
    return [
        Kind(name=name, speculating=any(one.speculating for one in some), fp8=all(one.fp8 for one in some))
        for name, some in by_kind.items()
    ]


def _lines(study: Study) -> list[Line]:
    varying = [name for name in label_columns(study.records) if name != "nvlink"]
    if study.is_published:
        varying = ["series", "kv_cache_dtype"]
    grouped: dict[object, list[Failure | PublishedFailure]] = {}
    every: list[Failure | PublishedFailure] = [*study.failures, *study.published_failures]
    for one in every:
        told = (one.configuration_id, one.cause) if isinstance(one, Failure) else one.failure_id
        grouped.setdefault((told, one.category), []).append(one)
    lines = [_line(members, study, varying) for members in grouped.values()]
    return sorted(lines, key=lambda one: sortable((one.label.model, one.label.varying, one.nvlink, one.ids)))


def _line(members: list[Failure | PublishedFailure], study: Study, varying: list[str]) -> Line:
    first = members[0]
    rows = [one for one in members if isinstance(one, Failure)]
    known: Labels | Failure = first if isinstance(first, Failure) else first.labels
    words, was_cut = cut(first.cause if isinstance(first, Failure) else first.message, CAUSE_LIMIT)
    return Line(
        label=label_of(known, varying),  # type: ignore[arg-type]  # labels have what a label is made of
        nvlink=known.nvlink,
        phase=rows[0].phase if rows else None,
        category=first.category,
        known=first.category in CATEGORIES,
        words=words,
        cut=was_cut,
        remedy=remedy(first),
        beside=ran_beside(first, study),
        retryable=any(one.retryable for one in rows),
        died=any(one.row_id for one in rows),
        scripted=any(one.failure_id in study.scripted for one in rows),
        provenance=rows[0].provenance if rows else None,
        ids=tuple(one.failure_id for one in members),
        logs=tuple(one.log for one in rows if one.log in study.files and one.log),
    )


def _printer(words: Words, text: Callable[[float], Markup]) -> Callable[[Told], Markup]:
    """Return what prints a number of a failure, with where it is from."""

    def show(told: Told) -> Markup:
        number = Markup('<data class="e" value="{}" data-of="{}" data-failure="{}">{}</data>')
        return number.format(f"{told.value:.9g}", told.of, told.failure_id, text(told.value))

    return show


def _memory(gib: float, words: Words) -> Markup:
    small = gib < MIB_BELOW_GIB
    value = fixed(gib * MIB_IN_GIB if small else gib, MEMORY_DIGITS)
    return Markup("{}\u00a0{}").format(value, words.unit_of("MiB" if small else "GiB"))
