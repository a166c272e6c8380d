"""Where does speculation stop, or begin, to pay? The concurrencies at which a pair's ratio crosses 1.

What was measured gives a bracket: a concurrency that gains and the nearest one that loses, both by more than the noise
(or, without any noise given, by their means). Between neighbours the ratio is taken as linear over the logarithm of the
concurrency; where it is 1 there is an estimate, not a measurement. Its interval is where 1 lies within the range of the
ratio over repeats, drawn in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2

from collector.analysis.noise import Noise
from collector.analysis.speculation import Outcome, Pair, Point, points_of, verdict

#: What is left of a ratio's denominator when its relative error reaches 1: then its range has no upper end.
_LEAST = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Concurrencies between which the crossing may lie. None: as far as was measured, and perhaps beyond."""

    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossing:
    """One passage of the ratio through 1, in the order of the concurrency."""

    bracket: tuple[int, int]  # the last concurrency on one side, the first on the other
    ratios: tuple[float, float]  # at the two ends of the bracket
    estimate: float  # interpolated; the first place, where the ratio wavers about 1 within the bracket
    by_repeats: Interval | None  # what the range over repeats allows; None where not every point was repeated
    by_all: Interval | None  # the same, widened by the error of the ratios; None where none was given
    repeats: int  # fewest of any ratio that this rests on
    row_ids: tuple[str, ...]

    @property
    def falls(self) -> bool:
        """Whether a gain turns into a loss here, and not the other way round."""
        return self.ratios[0] > 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakEven:
    """One pair's sides of 1 and where it changes them: never, once, or (outcome mixed) more often."""

    pair: Pair
    outcome: Outcome
    points: tuple[Point, ...]
    crossings: tuple[Crossing, ...]


def break_even(pair: Pair, ratio_error: float | None = None, noise: Noise | None = None) -> BreakEven | None:
    """Return where a pair breaks even; None when it has no ratio.

    `ratio_error`: how far, relatively, these ratios may be off for another reason than repeats, such as the error
    of an emulation.
    """
    found = verdict(pair, noise)
    if found is None:
        return None
    points = points_of(pair, noise)
    crossed = crossings(points, ratio_error)
    return BreakEven(pair=pair, outcome=found.outcome, points=tuple(points), crossings=tuple(crossed))


def crossings(points: Iterable[Point], ratio_error: float | None = None) -> list[Crossing]:
    """Return every crossing of these ratios, one point a concurrency, in the order of the concurrency."""
    known = sorted(points, key=lambda point: point.concurrency)
    return [_crossing(known, first, last, ratio_error) for first, last in _brackets(known)]


def _brackets(points: Sequence[Point]) -> Iterator[tuple[int, int]]:
    """Yield the places of neighbours on different sides; what counts as even between them is on neither."""
    sided = [place for place, point in enumerate(points) if point.side]
    return ((one, other) for one, other in pairwise(sided) if points[one].side != points[other].side)


@dataclass(frozen=True, slots=True)
class _Knot:
    """What the ratio and the ends of its range have above 1, at the logarithm of a concurrency."""

    at: float
    value: float
    low: float
    high: float


def _crossing(points: Sequence[Point], first: int, last: int, ratio_error: float | None) -> Crossing:
    repeated = all(point.low is not None and point.high is not None for point in points)
    at = _estimate(_knots(points[first : last + 1]))
    by_repeats = _interval(_knots(points), at) if repeated else None
    by_all = None if ratio_error is None else _interval(_knots(points, ratio_error), at)
    ends = points[first].concurrency, points[last].concurrency
    used = _spanning(points, ends, by_all or by_repeats)
    return Crossing(
        bracket=ends,
        ratios=(points[first].ratio, points[last].ratio),
        estimate=2**at,
        by_repeats=by_repeats,
        by_all=by_all,
        repeats=min(point.repeats for point in used),
        row_ids=tuple(name for point in used for name in point.row_ids),
    )


def _knots(points: Sequence[Point], error: float = 0.0) -> list[_Knot]:
    """Return the ratios with their ranges. A ratio r with the relative error e stands for r / (1 + e)."""
    return [
        _Knot(
            at=log2(point.concurrency),
            value=point.ratio - 1,
            low=(point.ratio if point.low is None else point.low) / (1 + error) - 1,
            high=(point.ratio if point.high is None else point.high) / max(1 - error, _LEAST) - 1,
        )
        for point in points
    ]


def _estimate(knots: Sequence[_Knot]) -> float:
    """Return the first zero of a line through knots whose ends are on different sides of it."""
    here, there = next(pair for pair in pairwise(knots) if pair[0].value * pair[1].value <= 0)
    return _zero(here.at, here.value, there.at, there.value)


def _zero(at: float, value: float, other_at: float, other: float) -> float:
    return at + (other_at - at) * value / (value - other)


def _interval(knots: Sequence[_Knot], at: float) -> Interval:
    """Return the stretch around `at` over which 1 lies within the range of the ratio."""
    before = [knot for knot in knots if knot.at <= at]
    after = [knot for knot in knots if knot.at > at]
    middle = _between(before[-1], after[0], at) if after else before[-1]
    low, high = _edge(middle, reversed(before)), _edge(middle, after)
    return Interval(low=None if low is None else 2**low, high=None if high is None else 2**high)


def _between(one: _Knot, other: _Knot, at: float) -> _Knot:
    """Return the range at `at`, where the ratio is 1; rounding must not put 1 outside of it."""
    share = (at - one.at) / (other.at - one.at)
    low, high = (end + share * (far - end) for end, far in ((one.low, other.low), (one.high, other.high)))
    return _Knot(at=at, value=0.0, low=min(low, 0.0), high=max(high, 0.0))


def _edge(here: _Knot, onward: Iterable[_Knot]) -> float | None:
    """Return where 1 leaves the range on the way from `here`; None when it is still inside at the end."""
    for there in onward:
        if there.low > 0:
            return _zero(here.at, here.low, there.at, there.low)
        if there.high < 0:
            return _zero(here.at, here.high, there.at, there.high)
        here = there
    return None


def _spanning(points: Sequence[Point], bracket: tuple[int, int], interval: Interval | None) -> Sequence[Point]:
    """Return the points that bracket and interval are drawn through."""
    low, high = map(float, bracket)
    if interval is not None:
        low = min(low, points[0].concurrency if interval.low is None else interval.low)
        high = max(high, points[-1].concurrency if interval.high is None else interval.high)
    first = max((place for place, point in enumerate(points) if point.concurrency <= low), default=0)
    last = min((place for place, point in enumerate(points) if point.concurrency >= high), default=len(points))
    return points[first : last + 1]
