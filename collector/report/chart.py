"""What a chart shows, apart from how it is drawn: geometry.py draws it as SVG, plotly_spec.py for Plotly.

All texts are in the page's language already; numbers are unrounded, in the unit of their axis.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from math import isfinite
from typing import Literal

Kind = Literal["line", "bar"]

#: Marker shapes, each drawn from its middle. Names are Plotly's.
MARKERS = {
    "circle": "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "square": "m-4-4h8v8h-8z",
    "triangle-up": "m0-5.2l5.2 9.2h-10.4z",
    "diamond": "m0-5.8l5.8 5.8l-5.8 5.8l-5.8-5.8z",
    "triangle-down": "m0 5.2l5.2-9.2h-10.4z",
}
#: Lengths of strokes and spaces, px; empty is an unbroken line.
DASHES = ("", "7 4", "2 4", "9 4 2 4", "4 3", "12 5")
COLOURS = 6  # --line-0 to --line-5 of charts.css


@dataclass(frozen=True, kw_only=True, slots=True)
class Style:
    """How a line looks: colour (0 to COLOURS - 1), one of DASHES, one of MARKERS."""

    colour: int
    dash: str
    marker: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One mark. Of a bar, `y` is the length, `x` only its rank, `label` its name."""

    x: float
    y: float | None  # None: nothing is drawn and the line is broken here
    low: float | None = None  # whisker over repeats
    high: float | None = None
    comparable: bool = True  # False: a hollow mark that no line goes through
    ids: tuple[str, ...] = ()  # the rows that prove it
    label: str = ""  # beside the mark
    note: str = ""  # under the name of a bar

    def __post_init__(self) -> None:
        numbers = [one for one in (self.x, self.y, self.low, self.high) if one is not None]
        if not all(isfinite(one) for one in numbers):
            raise ValueError(f"a point of a chart must be finite, found {numbers}")
        if (self.low is None) != (self.high is None):
            raise ValueError(f"a whisker has two ends, found low {self.low} and high {self.high}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """Points that belong together; its code ties it to legend and table."""

    code: str
    name: str
    points: tuple[Point, ...]
    style: Style


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """An axis. A log2 axis with a value at or below zero is drawn linear."""

    title: str
    unit: str = ""
    scale: Literal["log2", "linear"] = "linear"
    from_zero: bool = False
    digits: int = 2  # of a value read off the chart
    ticks: tuple[float, ...] = ()  # where given, the axis ends at the outermost point, not at a round number
    includes: tuple[float, ...] = ()  # values the axis must reach, so that charts of one page share a scale

    @property
    def heading(self) -> str:
        """Return title and unit; after Korean the bracket follows without a space."""
        space = "" if self.title and unicodedata.east_asian_width(self.title[-1]) in "WF" else " "
        if not self.unit or self.title.endswith(")"):
            return ", ".join(filter(None, (self.title, self.unit)))
        return f"{self.title}{space}({self.unit})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Even:
    """The value at which nothing is won or lost; the side that is worse is shaded."""

    value: float
    above: str
    below: str
    worse: Literal["above", "below"] = "below"


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """A range of x without a measurement, in which some lines cross the even value."""

    low: float
    high: float
    text: str
    codes: tuple[str, ...] = ()  # the lines that cross in it; needed where ranges of different lines overlap


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart. `title` states the finding and may hold markup of ours, `alt` has one sentence a line."""

    id: str
    kind: Kind = "line"
    title: str
    subtitle: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    provenance: str
    alt: str
    columns: tuple[str, str]  # names of x and y in the files of its data
    even: Even | None = None
    gaps: tuple[Gap, ...] = ()
    in_order: bool = False  # True: points are joined as given, not by rising x

    def __post_init__(self) -> None:
        if not any(point.y is not None for point in self.points):
            raise ValueError(f"chart {self.id} has nothing to draw; say so in a sentence instead")

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(point for line in self.lines for point in line.points)

    @property
    def values(self) -> tuple[float, ...]:
        """Return every value that the y axis must reach."""
        ends = (one for point in self.points for one in (point.y, point.low, point.high))
        return tuple(one for one in ends if one is not None)

    @property
    def whiskers(self) -> Literal["all", "some", "none"]:
        """How many of the drawn points have a range over repeats."""
        known = {point.low is not None for point in self.points if point.y is not None}
        return "none" if True not in known else "some" if False in known else "all"

    @property
    def hollow(self) -> bool:
        return any(point.y is not None and not point.comparable for point in self.points)


def style(index: int) -> Style:
    """Return the look of the n-th line: the first 180 differ, neighbours in all three."""
    markers = tuple(MARKERS)
    return Style(
        colour=index % COLOURS,
        dash=DASHES[(index + index // COLOURS) % len(DASHES)],
        marker=markers[index % len(markers)],
    )


def code(index: int) -> str:
    """Return A, B, ... Z, AA, AB, ..."""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def runs(line: Line, *, in_order: bool = False) -> tuple[tuple[Point, ...], ...]:
    """Split a line where it must not be drawn: across a point that is missing or cannot be compared.

    By rising x, a failed measurement does not break the line where another one of the same x held.
    """
    points = line.points if in_order else sorted(line.points, key=lambda point: point.x)
    held = {point.x for point in points if point.comparable and point.y is not None}
    found: list[list[Point]] = [[]]
    for point in points:
        if point.comparable and point.y is not None:
            found[-1].append(point)
        elif in_order or point.x not in held:
            found.append([])
    return tuple(tuple(run) for run in found if run)
