"""Did both sides of a pair get as much accepted? Where not, its ratio mixes what it varies with the drafting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collector.analysis.compared import Pair, RatioPoint
from collector.analysis.pairing import OFF
from collector.analysis.quantity import Quantity, pooled_of
from collector.core.rows import Row

#: Tokens per forward that differ by this many per cent between both sides move the throughput as much as the
#: smaller gains of a link or a dtype do.
MIXED_FROM_PERCENT = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafting:
    """The acceptance of both sides at one concurrency."""

    concurrency: int
    on: Quantity
    off: Quantity
    mixed: bool


def drafting(pair: Pair, rows: Mapping[str, Row]) -> tuple[Drafting, ...]:
    """Return the acceptance by concurrency, from the rows of every ratio; nothing without speculation."""
    if pair.get("speculation") == OFF:
        return ()
    found = (_of_point(pair, point, rows) for point in pair.measured)
    return tuple(one for one in found if one)


def _of_point(pair: Pair, point: RatioPoint, rows: Mapping[str, Row]) -> Drafting | None:
    sides = ([rows[one] for one in ids if one in rows] for ids in (point.row_ids_on, point.row_ids_off))
    on, off = (pooled_of(side, "accepted_tokens", "draft_tokens") for side in sides)
    return drafted(pair, point.concurrency, on, off)


def drafted(pair: Pair, at: int, on: Quantity | None, off: Quantity | None) -> Drafting | None:
    """Return both acceptances and whether they differ too much; None where one is missing."""
    if not on or not off:
        return None
    k = pair.get("num_speculative_tokens") or 1
    forwards = [1 + k * one.value for one in (on, off)]
    mixed = max(forwards) / min(forwards) >= 1 + MIXED_FROM_PERCENT / 100
    return Drafting(concurrency=at, on=on, off=off, mixed=mixed)


def mixed_at(found: tuple[Drafting, ...]) -> tuple[int, ...]:
    """Return the concurrencies whose ratio is mixed."""
    return tuple(one.concurrency for one in found if one.mixed)
