"""From values to places along one axis: where it ends, where its ticks stand, how they read."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2, log10

from collector.core.units import fixed
from collector.report.chart import Axis, Chart

MOST_TICKS = 6  # steps between the ends of an axis with round numbers
MOST_POWERS = 10  # ticks of a log2 axis, one a doubling
ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
#: From here on digits are grouped, and beyond these ends a number is written with a power of ten.
GROUPED_FROM = 1e4
PLAIN_BELOW = 1e9
PLAIN_FROM = 1e-4
HEADROOM = 0.02  # of the range: so far a value stays from the end of the axis, unless the axis was asked to end there
LEAST_RANGE = 1e-9  # of the values' size: less than this apart, values are one value


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """What an axis spans, in its own unit. `tight`: it ends at a value, so marks need room around them."""

    low: float
    high: float
    log: bool
    tight: bool
    ticks: tuple[float, ...]

    def tick_texts(self) -> tuple[str, ...]:
        """Write the ticks alike: a linear axis has as many decimals everywhere as its step needs."""
        needed = [decimals(tick) for tick in self.ticks]
        return tuple(
            number(tick, one if self.log else max(needed)) for tick, one in zip(self.ticks, needed, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Scale:
    """A reach laid between two places. `start` may lie beyond `end`: up is less in an SVG."""

    reach: Reach
    start: float
    end: float

    def place(self, value: float) -> float:
        reach = self.reach
        if reach.high == reach.low:
            return (self.start + self.end) / 2
        if reach.log:
            share = log2(value / reach.low) / log2(reach.high / reach.low)
        else:
            share = (value - reach.low) / (reach.high - reach.low)
        return self.start + (self.end - self.start) * min(max(share, 0.0), 1.0)


def x_reach(chart: Chart) -> Reach:
    ends = (end for gap in chart.gaps for end in (gap.low, gap.high))
    return reach_of(chart.x, [*(point.x for point in chart.points), *ends])


def y_reach(chart: Chart) -> Reach:
    even = None if chart.even is None else chart.even.value
    return reach_of(chart.y, chart.values, even, both_sides=chart.kind == "line")


def reach_of(axis: Axis, values: Iterable[float], even: float | None = None, *, both_sides: bool = True) -> Reach:
    """Return the ends and ticks of an axis that shows `values` and `even`, with some room on both sides of it."""
    shown = [*values, *axis.includes, *(() if even is None else (even,))]
    log = axis.scale == "log2" and min(shown) > 0
    if axis.ticks and not (log and min(axis.ticks) <= 0):
        return _given(axis.ticks, shown, log)
    between = even if both_sides else None
    return _powers(shown, between) if log else _round(axis, shown, between)


def _given(ticks: Sequence[float], shown: Sequence[float], log: bool) -> Reach:
    low, high = min(shown), max(shown)
    inside = tuple(sorted({tick for tick in ticks if low <= tick <= high}))
    return Reach(low=low, high=high, log=log, tight=True, ticks=inside or tuple(sorted({low, high})))


def _powers(shown: Sequence[float], even: float | None) -> Reach:
    low, high = floor(log2(min(shown))), ceil(log2(max(shown)))
    if even is not None:
        low, high = low - (log2(even) <= low), high + (log2(even) >= high)
    every = ceil((high - low + 1) / MOST_POWERS)
    return Reach(
        low=2.0**low,
        high=2.0**high,
        log=True,
        tight=True,
        ticks=tuple(2.0**power for power in range(low, high + 1, every)),
    )


def _ends(axis: Axis, shown: Sequence[float]) -> tuple[float, float]:
    """Return what an axis with round numbers must reach: a little more than the values, but never past zero."""
    low, high = min(shown), max(shown)
    if axis.from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= LEAST_RANGE * max(abs(low), abs(high)):
        room = max(abs(low), abs(high)) / 2 or 1.0
        return (low if axis.from_zero and low == 0 else low - room), high + room
    room = HEADROOM * (high - low)
    asked = (0.0, *axis.includes)
    return (low if low in asked else low - room), (high if high in asked else high + room)


def _round(axis: Axis, shown: Sequence[float], even: float | None) -> Reach:
    low, high = _ends(axis, shown)
    step = _step(high - low)
    if not axis.digits:
        step = max(step, 1.0)
    first, last = floor(low / step + LEAST_RANGE), ceil(high / step - LEAST_RANGE)
    if even is not None:
        first, last = first - (even / step <= first), last + (even / step >= last)
    ticks = tuple(_exact(step * count, step) for count in range(first, last + 1))
    return Reach(low=min(ticks[0], low), high=max(ticks[-1], high), log=False, tight=False, ticks=ticks)


def _step(span: float) -> float:
    """Return the smallest round step that cuts `span` into at most MOST_TICKS pieces."""
    power = 10.0 ** floor(log10(span / MOST_TICKS))
    return float(next(one * power for one in ROUND if span / (one * power) <= MOST_TICKS * (1 + LEAST_RANGE)))


def _exact(value: float, step: float) -> float:
    return round(value, max(0, 2 - floor(log10(step))))


def decimals(value: float) -> int:
    """Return how many decimals write the value in full, at most six significant ones."""
    _, _, rest = f"{value:.6g}".partition(".")
    return len(rest) if "e" not in rest else 0


def with_unit(text: str, unit: str) -> str:
    """Put a unit behind a number: % and × and Korean ones without a space."""
    close = unit in ("%", "×") or (unit and unicodedata.east_asian_width(unit[0]) in "WF")
    return f"{text}{unit}" if close else f"{text} {unit}".rstrip()


def number(value: float, digits: int) -> str:
    """Write a number for a chart: a true minus sign, digits grouped from five on."""
    size = abs(value)
    if size >= PLAIN_BELOW or 0 < size < PLAIN_FROM:
        text = f"{value:.3g}"
    elif size >= GROUPED_FROM:
        text = f"{value:,.{digits}f}"
    else:
        text = fixed(value, digits)
    return text.replace("-", "\u2212")
