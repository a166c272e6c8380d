"""Figures published elsewhere against the rows of one campaign: what each of them is here, and how far off.

A published figure is no row: it may leave open where it was measured, or be a ratio whose parts were never
printed. What it leaves open is pooled or found to be ambiguous, never guessed. Only rows whose checks held count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from statistics import median
from typing import Literal

from collector.analysis.figures import COLUMNS, COMPUTED, EVEN, EXTREMES, RELATIONS, SUMS, Figure, Labels, Relation
from collector.analysis.pairing import SPECULATION, mean
from collector.analysis.sampling import Drafts, drafts_of, standard_error
from collector.core.rows import Position, Row, comparable
from collector.core.speculative import synthetic_of
from collector.core.window import WHOLE_STAGE

#: The stage whose link traffic was printed: it fits this one alone.
TRAFFIC_CONCURRENCY = 32
#: A figure of this set pools the sets below it.
GENERAL = "general"
#: Settings that were published: a row under another setting is not compared. A row may lack one (no plan told).
SETUP = ("gpu_count", "tensor_parallel", "max_model_len", "max_num_seqs", "output_tokens", "requests")
ReasonKind = Literal["not_in_rows", "missing", "checks", "ambiguous", "no_value", "settings_differ"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A figure and what the rows give. `error` is relative, for percentages the difference in points.

    It is None where nothing was computed and where a relative error to 0 has no meaning. `sampling_error` is the
    standard error of `computed` by the number of drafts, in the figure's unit; None for what is no count of drafts.
    """

    figure_id: str
    metric: str
    labels: Labels
    unit: str
    published: float
    computed: float | None
    error: float | None
    sampling_error: float | None
    row_ids: tuple[str, ...]
    reason: ReasonKind | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The errors of one metric without their signs; a figure that was printed twice counts once."""

    metric: str
    unit: str
    n: int
    open: int  # figures of this metric that the rows do not give
    median: float | None
    worst: float | None
    right_side: int | None  # how many say gain or loss as published; None where neither is meant


@dataclass(frozen=True, slots=True)
class Found:
    value: float | None
    rows: tuple[Row, ...] = ()
    reason: ReasonKind | None = None


def compare(figures: Sequence[Figure], rows: Iterable[Row], positions: Iterable[Position] = ()) -> list[Comparison]:
    """Return every figure beside what the rows of one campaign and provenance give for it."""
    cells, drafts = _Cells(figures, sorted(rows, key=lambda row: row.row_id)), drafts_of(positions)
    return [_comparison(figure, cells.found(figure.metric, figure.labels), drafts) for figure in figures]


def _comparison(figure: Figure, found: Found, drafts: Mapping[str, Drafts]) -> Comparison:
    return Comparison(
        figure_id=figure.figure_id,
        metric=figure.metric,
        labels=figure.labels,
        unit=figure.unit,
        published=figure.value,
        computed=found.value,
        error=None if found.value is None else _error(figure, found.value),
        sampling_error=_sampling_error(figure.metric, found.rows, drafts),
        row_ids=tuple(row.row_id for row in found.rows),
        reason=found.reason,
    )


def _error(figure: Figure, computed: float) -> float | None:
    if figure.unit == "%":
        return computed - figure.value
    if figure.value == 0:
        return 0.0 if computed == 0 else None
    return computed / figure.value - 1


def _sampling_error(metric: str, rows: Sequence[Row], drafts: Mapping[str, Drafts]) -> float | None:
    error = standard_error(rows, drafts) if metric in SUMS else None
    if error is None or metric != "acceptance_rate":
        return error
    return error * sum(row.drafts or 0 for row in rows) / sum(row.draft_tokens or 0 for row in rows)


def as_published(figures: Sequence[Figure], rows: Iterable[Row]) -> list[Row]:
    """Return the rows of published models under the published setup: over whole stages, drafts accepted as they are."""
    setup = [figure for figure in figures if figure.metric in SETUP]
    models = {figure.labels.model for figure in figures}
    return [
        row
        for row in rows
        if row.model in models
        and row.window_method == WHOLE_STAGE
        and synthetic_of(row.speculative_config) is None
        and all(
            getattr(row, one.metric) in (None, one.value)
            for one in setup
            if one.labels.concurrency in (None, row.concurrency) and one.labels.prompt_set in (None, row.prompt_set)
        )
    ]


class _Cells:
    """The rows that may stand beside a published figure."""

    def __init__(self, figures: Sequence[Figure], rows: Sequence[Row]) -> None:
        if len({(row.campaign, row.provenance) for row in rows}) > 1:
            raise ValueError("rows of several campaigns or provenances are never compared as one")
        self.general = {name for one in figures if (name := one.labels.prompt_set or "").startswith(f"{GENERAL}/")}
        self.rows = as_published(figures, rows)

    def found(self, metric: str, labels: Labels) -> Found:
        if metric in RELATIONS:
            return self._related(RELATIONS[metric], labels)
        if metric in COLUMNS:
            return self._mean(metric, labels)
        if metric in SUMS:
            return self._ratio_of_sums(*SUMS[metric], replace(labels, series=None))  # acceptance knows no series
        if metric in EXTREMES:
            return self._extreme(EXTREMES[metric], labels)
        return Found(None, reason="not_in_rows")

    def _fitting(self, labels: Labels) -> list[Row]:
        return [row for row in self.rows if _fits(row, labels)]

    def _mean(self, metric: str, labels: Labels) -> Found:
        column, scale = COLUMNS[metric]
        if metric == "nvlink_traffic":
            labels = replace(labels, concurrency=TRAFFIC_CONCURRENCY)
        rows, reason = _usable(self._fitting(labels), column)
        if len({(row.configuration_id, row.concurrency, row.prompt_set) for row in rows}) > 1:
            return Found(None, reason="ambiguous")
        value = mean([getattr(row, column) for row in rows])
        return Found(None if value is None else value * scale, tuple(rows), reason)

    def _related(self, relation: Relation, labels: Labels) -> Found:
        first = self._mean(relation.quantity, relation.first(labels))
        second = self._mean(relation.quantity, relation.second(labels))
        if first.value is None or not second.value:
            return Found(None, reason=first.reason or second.reason or "no_value")
        rows = first.rows + second.rows
        shared = [name for name in SPECULATION.setting if name not in relation.varies]
        if len({tuple(getattr(row, name) for name in shared) for row in rows}) > 1:
            return Found(None, reason="settings_differ")
        return Found(relation.form(first.value, second.value), rows)

    def _ratio_of_sums(self, numerator: str, denominator: str, labels: Labels) -> Found:
        """Pool what the figure leaves open; a pool of prompt sets must hold each of them."""
        rows, reason = _usable(self._fitting(labels), denominator)
        if labels.prompt_set == GENERAL and {row.prompt_set for row in rows} != self.general:
            return Found(None, reason=reason or "missing")
        below = fsum(getattr(row, denominator) for row in rows)
        if not below:
            return Found(None, reason=reason or "no_value")
        return Found(fsum(getattr(row, numerator) for row in rows) / below, tuple(rows))

    def _extreme(self, choose: Callable[..., Row], labels: Labels) -> Found:
        rows, reason = _usable(self._fitting(labels), "ttft_mean_s")
        if not rows:
            return Found(None, reason=reason)
        chosen = choose(rows, key=lambda row: row.ttft_mean_s)
        return Found(chosen.ttft_mean_s, (chosen,))


def _fits(row: Row, labels: Labels) -> bool:
    names = ("model", "kv_cache_dtype", "speculation", "num_speculative_tokens", "nvlink", "concurrency", "series")
    if any(getattr(labels, name) not in (None, getattr(row, name)) for name in names):
        return False
    if labels.prompt_set == GENERAL:
        return row.prompt_set.startswith(f"{GENERAL}/")
    return labels.prompt_set in (None, row.prompt_set)


def _usable(fitting: Sequence[Row], column: str) -> tuple[list[Row], ReasonKind | None]:
    held = [row for row in fitting if comparable(row)]
    rows = [row for row in held if getattr(row, column) is not None]
    if rows:
        return rows, None
    return [], "no_value" if held else ("checks" if fitting else "missing")


def summary(compared: Iterable[Comparison]) -> list[Summary]:
    """Return the errors of each metric that rows can give, in the order of the figures."""
    by_metric: dict[str, dict[tuple[Labels, float], Comparison]] = {}
    for one in compared:
        if one.metric in COMPUTED:
            by_metric.setdefault(one.metric, {}).setdefault((one.labels, one.published), one)
    return [_summary(metric, list(found.values())) for metric, found in by_metric.items()]


def _summary(metric: str, found: Sequence[Comparison]) -> Summary:
    values = [(one.computed, one.published) for one in found if one.computed is not None]
    errors = [abs(one.error) for one in found if one.error is not None]
    even = EVEN.get(metric)
    sides = None if even is None else sum((mine > even) == (printed > even) for mine, printed in values)
    return Summary(
        metric=metric,
        unit=found[0].unit,
        n=len(values),
        open=len(found) - len(values),
        median=median(errors) if errors else None,
        worst=max(errors, default=None),
        right_side=sides,
    )
