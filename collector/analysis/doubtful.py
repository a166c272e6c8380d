"""What rows with a failed check would show: for hollow marks of a chart, never for a finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collector.analysis.compared import RatioPoint
from collector.analysis.pairing import Factor, Side, mean
from collector.core.rows import Row


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubtful:
    """A value that no sentence may use, and the rows that it is of."""

    value: float
    ids: tuple[str, ...]


def doubtful_throughput(point: RatioPoint, factor: Factor, side: Side, rows: Mapping[str, Row]) -> Doubtful | None:
    """Return the mean throughput of a side that a failed check left empty."""
    if point.reason is None or point.reason.kind != "checks":
        return None
    ids = (*point.row_ids_on, *point.row_ids_off, *point.row_ids_left_out)
    own = [row for name in ids if (row := rows.get(name)) and factor.side(row) == side]
    known = [row for row in own if row.system_throughput_tok_s]
    value = mean([row.system_throughput_tok_s or 0.0 for row in known])
    return None if value is None else Doubtful(value=value, ids=tuple(row.row_id for row in known))


def doubtful_ratio(point: RatioPoint, factor: Factor, rows: Mapping[str, Row]) -> Doubtful | None:
    on = doubtful_throughput(point, factor, "on", rows)
    off = doubtful_throughput(point, factor, "off", rows)
    return Doubtful(value=on.value / off.value, ids=(*on.ids, *off.ids)) if on and off else None
