"""A configuration under one load, concurrency by concurrency: what latency and energy are read from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collector.analysis.compared import THROUGHPUT
from collector.analysis.pairing import SAME_LOAD, STAGE, key, sortable
from collector.analysis.quantity import Quantity, mean_of
from collector.core.rows import Row

#: What one curve has in common.
_OF_A_CURVE = ("campaign", "provenance", "configuration_id", *SAME_LOAD)
#: What curves on one pair of axes have in common.
OF_A_LOAD = ("provenance", *SAME_LOAD)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The measurements of one concurrency, repeats together."""

    concurrency: int
    rows: tuple[Row, ...]

    @property
    def throughput(self) -> Quantity | None:
        return mean_of(self.rows, THROUGHPUT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A configuration under one load. Stages by rising concurrency; there is at least one."""

    stages: tuple[Stage, ...]

    @property
    def record(self) -> Row:
        """Return a row that stands for the configuration."""
        return self.stages[0].rows[0]

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for stage in self.stages for row in stage.rows)

    @property
    def highest(self) -> Quantity | None:
        """Return the highest throughput at any concurrency."""
        known = [found for stage in self.stages if (found := stage.throughput)]
        return max(known, key=lambda one: one.value, default=None)


def curves(rows: Iterable[Row]) -> list[Curve]:
    """Return every configuration under every load, ordered by what it is."""
    grouped: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (*key(row, STAGE), row.measured_at, row.row_id)):
        grouped[key(row, _OF_A_CURVE)].append(row)
    return sorted((Curve(stages=_stages(members)) for members in grouped.values()), key=_order)


def main_load(found: Sequence[Curve]) -> list[Curve]:
    """Return the curves of the load that most configurations were measured under, and at most concurrencies."""
    loads: dict[tuple[object, ...], list[Curve]] = defaultdict(list)
    for curve in found:
        loads[key(curve.record, OF_A_LOAD)].append(curve)
    return max(loads.values(), key=lambda own: (len(own), len(_concurrencies(own))), default=[])


def of_each_model(found: Iterable[Curve], most: int) -> list[Curve]:
    """Return the curves worth drawing, at most `most`.

    The one of highest throughput of each model, then its fastest at the lowest concurrency, models of higher
    throughput first.
    """
    models: dict[str, list[Curve]] = defaultdict(list)
    for curve in found:
        if curve.highest:
            models[curve.record.model].append(curve)
    ranked = [(max(own, key=_height), max(own, key=_start)) for own in models.values()]
    ranked.sort(key=lambda ends: -_height(ends[0]))
    drawn = [best for best, _ in ranked] + [fastest for best, fastest in ranked if fastest is not best]
    return drawn[:most]


def _concurrencies(found: Iterable[Curve]) -> set[int]:
    return {stage.concurrency for curve in found for stage in curve.stages}


def _height(curve: Curve) -> float:
    return curve.highest.value if curve.highest else 0.0


def _start(curve: Curve) -> float:
    first = curve.stages[0].throughput
    return first.value if first else 0.0


def _stages(rows: Iterable[Row]) -> tuple[Stage, ...]:
    grouped: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        grouped[key(row, STAGE)].append(row)
    return tuple(Stage(concurrency=own[0].concurrency, rows=tuple(own)) for own in grouped.values())


def _order(curve: Curve) -> tuple[tuple[bool, object], ...]:
    columns = ("model", "series", "kv_cache_dtype", "nvlink", "speculation", "num_speculative_tokens")
    return sortable((*key(curve.record, columns), *key(curve.record, _OF_A_CURVE)))
