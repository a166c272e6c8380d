"""What a factor changes: system throughput with it ÷ without it, all else equal, by concurrency.

Rows and failures in, findings out; nothing here depends on the order of the rows. A row with a failed check
feeds no ratio, and a ratio that cannot be formed is a point with its reason, so that a page can say why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from collector.analysis.pairing import (
    STAGE,
    Arm,
    Factor,
    Key,
    Reason,
    failures_of,
    in_stage,
    key,
    nearest_difference,
    sortable,
)
from collector.analysis.quantity import Quantity, mean_of, ratio_of
from collector.core.rows import Failure, Row

THROUGHPUT = "system_throughput_tok_s"


@dataclass(frozen=True, kw_only=True, slots=True)
class RatioPoint:
    """One stage of a pair. `on` and `off` are throughputs, means over the repeats whose checks held."""

    concurrency: int
    requests: int | None = None  # as warmup_requests: not known of a published figure
    warmup_requests: int | None = None
    value: Quantity | None  # the ratio
    on: Quantity | None
    off: Quantity | None
    row_ids_on: tuple[str, ...]
    row_ids_off: tuple[str, ...]
    row_ids_left_out: tuple[str, ...] = ()
    reason: Reason | None

    @property
    def ratio(self) -> float | None:
        return self.value.value if self.value else None

    @property
    def low(self) -> float | None:
        """Smallest ratio of any repeat on to any repeat off; None while either arm has fewer than two."""
        return self.value.low if self.value else None

    @property
    def high(self) -> float | None:
        return self.value.high if self.value else None

    @property
    def on_tok_s(self) -> float | None:
        return self.on.value if self.on else None

    @property
    def off_tok_s(self) -> float | None:
        return self.off.value if self.off else None

    @property
    def n_on(self) -> int:
        return len(self.row_ids_on)

    @property
    def n_off(self) -> int:
        return len(self.row_ids_off)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One way of doing something against the base: a line of a chart. `setting` holds what was equal."""

    factor: Factor
    setting: tuple[tuple[str, Any], ...]
    way: tuple[tuple[str, Any], ...]
    points: tuple[RatioPoint, ...]

    def __getitem__(self, column: str) -> Any:
        known = dict(self.way)
        return known[column] if column in known else dict(self.setting)[column]

    def get(self, column: str) -> Any:
        """Return a column that both sides share or the way tells; None where neither has it."""
        return dict(self.setting).get(column, dict(self.way).get(column))

    @property
    def speculation(self) -> str:
        return str(self["speculation"])

    @property
    def num_speculative_tokens(self) -> int | None:
        found: int | None = self["num_speculative_tokens"]
        return found

    @property
    def measured(self) -> tuple[RatioPoint, ...]:
        return tuple(point for point in self.points if point.ratio is not None)

    def at(self, concurrency: int) -> RatioPoint | None:
        """Return the point of a concurrency that has a ratio."""
        return next((point for point in self.measured if point.concurrency == concurrency), None)


@dataclass(frozen=True, slots=True)
class _Arms:
    off: dict[Key, list[Row]]
    on: dict[tuple[Key, Key], list[Row]]
    failures: list[Failure]
    ids_with_rows: frozenset[str]


def compared(factor: Factor, rows: Iterable[Row], failures: Iterable[Failure] = ()) -> list[Pair]:
    """Return every way of this factor among these rows, ordered by what it is."""
    arms = _arms(factor, rows, failures)
    ways = set(arms.on)
    for setting in {setting for setting, _ in arms.on} | set(arms.off):
        never_started = failures_of(factor, setting, (), arms.failures, arms.ids_with_rows)
        for failure in never_started:
            if factor.side(failure) == "on":
                told = [getattr(failure, name) for name in factor.told]
                ways.add((setting, (*told, *(None for _ in factor.way[len(told) :]))))
    found = [_pair(factor, setting, way, arms) for setting, way in ways]
    return sorted(found, key=_order)


def _arms(factor: Factor, rows: Iterable[Row], failures: Iterable[Failure]) -> _Arms:
    kept = sorted(rows, key=lambda row: (row.campaign, row.row_id))
    off: dict[Key, list[Row]] = defaultdict(list)
    on: dict[tuple[Key, Key], list[Row]] = defaultdict(list)
    for row in kept:
        setting = key(row, factor.setting)
        if factor.side(row) == "off":
            off[setting].append(row)
        elif factor.side(row) == "on":
            on[setting, key(row, factor.way)].append(row)
    ids = frozenset(row.configuration_id for row in kept)
    return _Arms(off=dict(off), on=dict(on), failures=list(failures), ids_with_rows=ids)


def _pair(factor: Factor, setting: Key, way: Key, arms: _Arms) -> Pair:
    on, off = arms.on.get((setting, way), []), arms.off.get(setting, [])
    told = way[: len(factor.told)]
    tried = [one for one in arms.failures if tuple(getattr(one, name) for name in factor.told) == told]
    failed_on = failures_of(factor, setting, on, tried, arms.ids_with_rows)
    without = [one for one in arms.failures if factor.side(one) == "off"]
    failed_off = failures_of(factor, setting, off, without, arms.ids_with_rows)
    points = [
        _point(
            stage,
            Arm("on", in_stage(on, stage), failed_on),
            Arm("off", in_stage(off, stage), failed_off),
            () if in_stage(off, stage) else nearest_difference(factor, setting, stage, arms.off),
        )
        for stage in sorted({key(row, STAGE) for row in (*on, *off)})
    ]
    return Pair(
        factor=factor,
        setting=tuple(zip(factor.setting, setting, strict=True)),
        way=tuple(zip(factor.way, way, strict=True)),
        points=tuple(points),
    )


def _point(stage: Key, on: Arm, off: Arm, difference: tuple[str, ...]) -> RatioPoint:
    reason_on, reason_off = on.reason(), off.reason(difference)
    used = {row.row_id for row in (*on.usable, *off.usable)}
    fits = reason_on is None and reason_off is None
    return RatioPoint(
        **dict(zip(STAGE, stage, strict=True)),
        value=ratio_of(on.usable, off.usable, THROUGHPUT) if fits else None,
        on=mean_of(on.usable, THROUGHPUT) if reason_on is None else None,
        off=mean_of(off.usable, THROUGHPUT) if reason_off is None else None,
        row_ids_on=tuple(row.row_id for row in on.usable),
        row_ids_off=tuple(row.row_id for row in off.usable),
        row_ids_left_out=tuple(sorted(row.row_id for row in (*on.rows, *off.rows) if row.row_id not in used)),
        reason=reason_on or reason_off,
    )


def _order(pair: Pair) -> tuple[tuple[bool, Any], ...]:
    return sortable(value for _, value in (*pair.setting, *pair.way))
