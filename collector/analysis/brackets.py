"""Between which compared concurrencies a pair's ratio crosses 1, and what is known in between.

This is the one bracket that every page, chart and recommendation tells of a pair: its ends differ from 1 by more than
the noise of the study. What lies between them is on neither side, or was not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from collector.analysis.break_even import crossings
from collector.analysis.compared import Pair
from collector.analysis.noise import Noise
from collector.analysis.speculation import Point, points_of


@dataclass(frozen=True, slots=True)
class Bracket:
    """A crossing. `falls`: from gain to loss.

    `undecided`: concurrencies in between that were compared and are on neither side; `within`: by noise, all of them.
    `means`: neighbours of those compared between which the means cross, where they do so once.
    `tried`: a concurrency in between was measured, but its rows may not be compared.
    """

    low: int
    high: int
    falls: bool
    undecided: tuple[int, ...] = ()
    within: bool = True
    means: tuple[int, int] | None = None
    tried: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing in between was compared, though there is something in between."""
        return not self.undecided and not self.one_step

    @property
    def one_step(self) -> bool:
        return self.high - self.low == 1

    @property
    def means_one_step(self) -> bool:
        return self.means is not None and self.means[1] - self.means[0] == 1


def brackets(pair: Pair, noise: Noise) -> tuple[Bracket, ...]:
    """Return the crossings of a pair by concurrency."""
    known = points_of(pair, noise)
    left_out = [point.concurrency for point in pair.points if point.row_ids_left_out]
    found = []
    for one in crossings(known):
        low, high = one.bracket
        inside = [point for point in known if low < point.concurrency < high]
        found.append(
            Bracket(
                low,
                high,
                falls=one.falls,
                undecided=tuple(point.concurrency for point in inside),
                within=all(point.within for point in inside),
                means=_means([point for point in known if low <= point.concurrency <= high]) if inside else None,
                tried=any(low < at < high for at in left_out),
            )
        )
    return tuple(found)


def _means(points: Sequence[Point]) -> tuple[int, int] | None:
    """Return the neighbours whose means are on different sides of 1; None where there is no one such place."""
    found = [
        (one.concurrency, other.concurrency)
        for one, other in pairwise(points)
        if (one.ratio - 1) * (other.ratio - 1) <= 0
    ]
    return found[0] if len(found) == 1 else None
