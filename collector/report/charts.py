"""Geometry of the ratio chart: findings to places in an SVG. Scaling and rounding, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log2

from collector.analysis.speculation import Pair, RatioPoint
from collector.core.units import fixed
from collector.report.text import cut

#: Marker shapes around (0, 0); with DASHES and the colours of the style sheet they tell lines apart.
MARKERS = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-4-4h8v8h-8z",
    "M0-5.2L5.2 4H-5.2z",
    "M0-5.8L5.8 0L0 5.8L-5.8 0z",
    "M0 5.2L5.2-4H-5.2z",
)
DASHES = ("none", "7 4", "2 4", "9 4 2 4", "4 3", "12 5")
COLOURS = 6  # --line-0 to --line-5

STEPS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
MOST_TICKS = 6
LEAST_TOP = 1.5  # room above the line at 1, so that a loss looks like one
LABEL_GAP = 15.0
TICK_GAP = 24.0
LABEL_LENGTH = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """A size of the chart and the edges of its plot."""

    name: str
    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int


FRAMES = (
    Frame(name="wide", width=720, height=360, left=48, right=490, top=34, bottom=312),
    Frame(name="narrow", width=360, height=300, left=40, right=326, top=34, bottom=252),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Style:
    colour: int
    dash: str
    marker: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A pair with the code that ties its line to legend and table, and the look of the line."""

    code: str
    style: Style
    pair: Pair


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    x: float
    y: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    code: str
    text: str
    style: Style
    paths: tuple[str, ...]
    marks: tuple[Mark, ...]
    label_x: float
    label_y: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    frame: Frame
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    even: float  # where the ratio is 1: below it is the loss
    lines: tuple[Line, ...]


def style(index: int) -> Style:
    """Return colour, dash and marker of the n-th line: two lines share all three only after thirty."""
    return Style(colour=index % COLOURS, dash=DASHES[index % len(DASHES)], marker=MARKERS[index % len(MARKERS)])


def code(index: int) -> str:
    """Return A, B, ... Z, AA, AB, ..."""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def scale_top(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Return the top of the ratio axis and its step: one scale for all charts of a page."""
    highest = max((point.high or point.ratio or 0.0 for pair in pairs for point in pair.measured), default=0.0)
    needed = max(LEAST_TOP, highest * 1.04)
    step = next((one for one in STEPS if needed / one <= MOST_TICKS), STEPS[-1] * ceil(needed / 60))
    return step * ceil(needed / step), step


def drawing(frame: Frame, entries: Sequence[Entry], top: float, step: float) -> Drawing:
    """Place the measured points of some pairs, each of which has at least one."""
    stages = sorted({point.concurrency for entry in entries for point in entry.pair.measured})
    plot = _Plot(frame, stages[0], stages[-1], top)
    ends = _spread([plot.y(entry.pair.measured[-1].ratio or 0.0) for entry in entries], frame)
    return Drawing(
        frame=frame,
        x_ticks=_x_ticks(plot, stages),
        y_ticks=tuple(Tick(at=plot.y(step * n), text=_tick_text(step * n)) for n in range(round(top / step) + 1)),
        even=plot.y(1.0),
        lines=tuple(_line(plot, entry, end) for entry, end in zip(entries, ends, strict=True)),
    )


@dataclass(frozen=True, slots=True)
class _Plot:
    frame: Frame
    first: int
    last: int
    top: float

    def x(self, concurrency: int) -> float:
        left, right = self.frame.left + 16, self.frame.right - 16
        if self.first == self.last:
            return (left + right) / 2
        return left + (right - left) * log2(concurrency / self.first) / log2(self.last / self.first)

    def y(self, ratio: float) -> float:
        return self.frame.bottom - (self.frame.bottom - self.frame.top) * ratio / self.top


def _line(plot: _Plot, entry: Entry, end: float) -> Line:
    pair = entry.pair
    last = pair.measured[-1]
    k = f" k={pair.num_speculative_tokens}" if pair.num_speculative_tokens is not None else ""
    return Line(
        code=entry.code,
        text=cut(f"{pair['model']} {pair.speculation}{k}", LABEL_LENGTH)[0],
        style=entry.style,
        paths=tuple(_path(plot, run) for run in _runs(pair.points) if len(run) > 1),
        marks=tuple(_mark(plot, point) for point in pair.measured),
        label_x=plot.x(last.concurrency) + 12,
        label_y=end + 4,
    )


def _mark(plot: _Plot, point: RatioPoint) -> Mark:
    return Mark(
        x=plot.x(point.concurrency),
        y=plot.y(point.ratio or 0.0),
        low=None if point.low is None else plot.y(point.low),
        high=None if point.high is None else plot.y(point.high),
    )


def _runs(points: Sequence[RatioPoint]) -> list[list[RatioPoint]]:
    """Split a line where a stage has no ratio: nothing is drawn across it."""
    runs: list[list[RatioPoint]] = [[]]
    for point in points:
        if point.ratio is None:
            runs.append([])
        else:
            runs[-1].append(point)
    return runs


def _path(plot: _Plot, run: Sequence[RatioPoint]) -> str:
    return "M" + "L".join(f"{plot.x(one.concurrency):.1f} {plot.y(one.ratio or 0.0):.1f}" for one in run)


def _x_ticks(plot: _Plot, stages: Sequence[int]) -> tuple[Tick, ...]:
    """Label every stage that has room; the last one always."""
    ticks: list[Tick] = []
    for stage in reversed(stages):
        at = plot.x(stage)
        if not ticks or ticks[-1].at - at >= TICK_GAP:
            ticks.append(Tick(at=at, text=str(stage)))
    return tuple(reversed(ticks))


def _tick_text(value: float) -> str:
    return fixed(value, 2).rstrip("0").rstrip(".")


def _spread(places: Sequence[float], frame: Frame) -> list[float]:
    """Move end labels apart so that none covers another, and keep them beside the plot."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    moved = list(places)
    for before, index in pairwise(order):
        moved[index] = max(moved[index], moved[before] + LABEL_GAP)
    floor = float(frame.bottom)
    for index in reversed(order):
        moved[index] = min(moved[index], floor)
        floor = moved[index] - LABEL_GAP
    return moved
