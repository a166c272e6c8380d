"""The plot of a drawing: its edges, its two scales, and how places are written into paths.

Places are px in the drawing's own box; paths have one decimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from collector.report.chart import MARKERS, Axis, Point, Style
from collector.report.labels import Box, fitted
from collector.report.scales import Scale

Place = tuple[float, float]

STEP = 6.0  # px between the places at which a line is thought to be in a text's way
MARK = 5.0  # half the size of a mark
WORD_ROOM = 140.0  # for the word of provenance beside the heading of the x axis
CAP = 3.0  # half the width of a whisker's end


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """A size in which every chart is drawn; charts.css shows the one that suits the screen."""

    name: str
    width: float
    height: float


WIDE = Size(name="wide", width=720.0, height=360.0)
NARROW = Size(name="narrow", width=360.0, height=300.0)
SIZES = (WIDE, NARROW)


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """A drawing's size and the edges of its plot."""

    name: str
    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float

    @property
    def box(self) -> Box:
        return Box(self.left, self.top, self.right, self.bottom)


@dataclass(frozen=True, slots=True)
class Plot:
    """The frame with both scales; places of points in it."""

    frame: Frame
    x: Scale
    y: Scale

    def at(self, point: Point) -> Place:
        return self.x.place(point.x), self.y.place(point.y or 0.0)

    def path(self, run: Sequence[Point]) -> str:
        return "M" + "L".join(pair(*self.at(one)) for one in run) if len(run) > 1 else ""

    def mark(self, style: Style, point: Point) -> str:
        return f"M{pair(*self.at(point))}{MARKERS[style.marker]}"

    def whisker(self, point: Point) -> str:
        if point.low is None or point.high is None:
            return ""
        x, low, high = self.x.place(point.x), self.y.place(point.low), self.y.place(point.high)
        return f"M{pair(x - CAP, low)}h{2 * CAP:g}m-{CAP:g} 0V{rounded(high)}m-{CAP:g} 0h{2 * CAP:g}"

    def room(self, point: Point) -> Box:
        """Return what a mark takes up."""
        x, y = self.at(point)
        return Box(x - MARK, y - MARK, x + MARK, y + MARK)

    def along(self, run: Sequence[Point]) -> list[Place]:
        """Return places on a line, close enough together that no text slips between them."""
        found = [self.at(one) for one in run]
        for (x0, y0), (x1, y1) in pairwise(tuple(found)):
            count = int(max(abs(x1 - x0), abs(y1 - y0)) / STEP)
            found.extend((x0 + (x1 - x0) * n / count, y0 + (y1 - y0) * n / count) for n in range(1, count))
        return found


def x_heading(axis: Axis, size: Size) -> str:
    """Return the heading below the plot, cut to leave room for the word of provenance."""
    return f"{fitted(axis.heading, size.width - WORD_ROOM)} →"


def rounded(value: float) -> str:
    """Write a place to a tenth of a px, as short as it goes."""
    return "0" if abs(value) < 0.05 else f"{value:.1f}".removesuffix(".0")


def pair(x: float, y: float) -> str:
    return f"{rounded(x)} {rounded(y)}"
