"""Between which compared concurrencies a pair's ratio crosses 1, and whether anything is known in between."""

from __future__ import annotations

from dataclasses import dataclass

from collector.analysis.break_even import crossings, points_of
from collector.analysis.compared import Pair


@dataclass(frozen=True, slots=True)
class Bracket:
    """A crossing. `falls`: from gain to loss.

    `empty`: no concurrency in between was compared; `tried`: one was measured, but its rows may not be compared.
    """

    low: int
    high: int
    falls: bool
    empty: bool
    tried: bool = False


def brackets(pair: Pair) -> tuple[Bracket, ...]:
    """Return the crossings of a pair by concurrency."""
    known = points_of(pair)
    left_out = [point.concurrency for point in pair.points if point.row_ids_left_out]
    return tuple(
        Bracket(
            low,
            high,
            falls=one.falls,
            empty=not any(low < point.concurrency < high for point in known),
            tried=any(low < at < high for at in left_out),
        )
        for one in crossings(known)
        for low, high in (one.bracket,)
    )
