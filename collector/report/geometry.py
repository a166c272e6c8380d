"""A line chart to places in an SVG: scaling, rounding and room for texts, nothing else. bars.py has the other kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collector.report.annotations import Band, Reference, bands, even_line, point_labels
from collector.report.chart import Chart, Line, Point, Style, runs
from collector.report.labels import (
    FONT,
    LABEL_GAP,
    LINE_GAP,
    SMALL,
    Text,
    Tick,
    box_of,
    broken,
    fitted,
    spread,
    ticks_along,
    ticks_up,
    width_of,
)
from collector.report.plot import WIDE, Frame, Place, Plot, Size, pair, x_heading
from collector.report.scales import Scale, x_reach, y_reach
from collector.report.text import one_line

TOP, BOTTOM = 34.0, 48.0  # for the heading of the y axis; for ticks and heading of the x axis
TICK_ROOM = 12.0  # between the left edge, a tick's text and the plot
INSET = 16.0  # a mark at the end of an axis stands clear of the frame
LABEL_ROOM = 250.0  # most that end labels may take from the plot of a wide drawing
LABEL_SPACE = 12.0  # between the plot and an end label
EDGE = 14.0  # right of a plot without end labels: half a tick's text
LEADER_FROM = 4.0  # px that a label is moved before a leader ties it to its line
MANY = 10  # with more lines than this they are drawn thin

Runs = Sequence[Sequence[Point]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """What stands at a line's end: its code, then its name, which may go on in a second line."""

    at: Text
    name: str
    more: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """A line: path data, empty where there is nothing to draw, and its label if it has room for one."""

    style: Style
    path: str
    marks: str
    hollow: str
    whiskers: str
    leader: str
    label: Label | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """A line chart in one size. `named`: every line's name stands beside it, so that no legend is needed."""

    frame: Frame
    x_heading: str
    y_heading: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    even: Reference | None
    bands: tuple[Band, ...]
    lines: tuple[Drawn, ...]
    points: tuple[Text, ...]
    named: bool
    many: bool


@dataclass(frozen=True, slots=True)
class Labels:
    """Texts of the end labels, one or two lines each, and the distance they need; no texts where none fit."""

    texts: tuple[tuple[str, ...], ...]
    gap: float
    named: bool = False

    @property
    def width(self) -> float:
        """Return the px that they take from the plot."""
        widths = [width_of(line) for lines in self.texts for line in lines]
        return LABEL_SPACE + max(widths) if widths else EDGE


def drawing(chart: Chart, size: Size) -> Drawing:
    """Lay a line chart out in one size."""
    labels = _labels(chart, size)
    plot = _plot(chart, size, labels.width)
    joined = [runs(line, in_order=chart.in_order) for line in chart.lines]
    busy = [place for one in joined for run in one for place in plot.along(run)]
    points = point_labels(plot, chart, busy)
    taken = [plot.room(one) for one in chart.points if one.y is not None] + [box_of(one, SMALL) for one in points]
    even = None if chart.even is None else even_line(plot, chart.even, busy, taken)
    taken += [box_of(one) for one in even.words] if even else []
    return Drawing(
        frame=plot.frame,
        x_heading=x_heading(chart.x, size),
        y_heading=fitted(chart.y.heading, size.width),
        x_ticks=ticks_along(plot.x),
        y_ticks=ticks_up(plot.y),
        even=even,
        bands=bands(plot, chart, busy, taken),
        lines=_lines(plot, chart, joined, labels),
        points=points,
        named=labels.named,
        many=len(chart.lines) > MANY,
    )


def _plot(chart: Chart, size: Size, right: float) -> Plot:
    across, up = x_reach(chart), y_reach(chart)
    frame = Frame(
        name=size.name,
        width=size.width,
        height=size.height,
        left=round(TICK_ROOM + max(map(width_of, up.tick_texts()))),
        right=round(size.width - right),
        top=TOP,
        bottom=size.height - BOTTOM,
    )
    side = INSET if across.tight else 0.0
    edge = INSET / 2 if up.tight else 0.0
    return Plot(
        frame,
        Scale(across, frame.left + side, frame.right - side),
        Scale(up, frame.bottom - edge, frame.top + edge),
    )


def _labels(chart: Chart, size: Size) -> Labels:
    """Choose what stands at the lines' ends: code and name, else the code, else nothing."""
    room = size.height - TOP - BOTTOM
    if size.name == WIDE.name:
        texts = [broken(one_line(f"{line.code} {line.name}"), LABEL_ROOM) for line in chart.lines]
        gap = LABEL_GAP + LINE_GAP * (max(map(len, texts)) - 1)
        if all(texts) and len(texts) <= room // gap + 1:
            return Labels(tuple(texts), gap, named=True)
    if len(chart.lines) <= room // LABEL_GAP + 1:
        return Labels(tuple((line.code,) for line in chart.lines), LABEL_GAP)
    return Labels((), LABEL_GAP)


def _lines(plot: Plot, chart: Chart, joined: Sequence[Runs], labels: Labels) -> tuple[Drawn, ...]:
    ends = [_end(plot, line, one) for line, one in zip(chart.lines, joined, strict=True)]
    shown = [index for index, end in enumerate(ends) if end and labels.texts]
    wanted = [end[1] for end in ends if end and labels.texts]
    moved = dict(zip(shown, spread(wanted, plot.frame.top, plot.frame.bottom, labels.gap), strict=True))
    return tuple(
        _drawn(
            plot,
            line,
            joined[index],
            _label(plot, line, labels.texts[index], moved[index]) if index in moved else None,
            _leader(plot, ends[index], moved.get(index)),
        )
        for index, line in enumerate(chart.lines)
    )


def _end(plot: Plot, line: Line, joined: Runs) -> Place | None:
    """Return where a line ends: at its last point that holds, else at its last hollow mark."""
    if joined:
        return plot.at(joined[-1][-1])
    hollow = [point for point in line.points if point.y is not None]
    return plot.at(hollow[-1]) if hollow else None


def _label(plot: Plot, line: Line, lines: Sequence[str], height: float) -> Label:
    first = height + FONT / 3 - LINE_GAP / 2 * (len(lines) - 1)
    return Label(
        at=Text(x=plot.frame.right + LABEL_SPACE, y=first, text=line.code),
        name=lines[0].removeprefix(line.code).strip(),
        more="".join(lines[1:]),
    )


def _drawn(plot: Plot, line: Line, joined: Runs, label: Label | None, leader: str) -> Drawn:
    shown = [point for point in line.points if point.y is not None]
    return Drawn(
        style=line.style,
        path="".join(map(plot.path, joined)),
        marks="".join(plot.mark(line.style, point) for point in shown if point.comparable),
        hollow="".join(plot.mark(line.style, point) for point in shown if not point.comparable),
        whiskers="".join(map(plot.whisker, shown)),
        leader=leader,
        label=label,
    )


def _leader(plot: Plot, end: Place | None, height: float | None) -> str:
    """Tie a label to its line where it does not stand right beside its end."""
    if end is None or height is None:
        return ""
    if abs(end[1] - height) <= LEADER_FROM and plot.frame.right - end[0] <= 2 * INSET:
        return ""
    return f"M{pair(end[0] + 7, end[1])}L{pair(plot.frame.right + LABEL_SPACE - 3, height)}"
