"""A bar chart to places in an SVG: one row a point, in the order given, its name before the bar or above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from collector.report.annotations import Reference
from collector.report.chart import Chart, Even, Line, Point, Style
from collector.report.labels import FONT, SMALL, Anchor, Box, Text, Tick, fitted, ticks_along, width_of
from collector.report.plot import CAP, WIDE, Frame, Size, pair, rounded, x_heading
from collector.report.scales import Scale, number, with_unit, y_reach

TOP, WORDS, BOTTOM = 10.0, 34.0, 48.0  # without and with words of the even value; for ticks and heading of the axis
NAME_ROOM = 320.0  # most that names may take from a wide drawing
SPACE = 8.0  # between name, bar and value
EDGE = 16.0  # half a tick's text
BAR = 16.0  # thickness

Row = tuple[Line, Point]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """A row, from its top: its height, the middle of its bar, the baselines of its texts."""

    height: float
    middle: float
    name: float
    note: float


BEFORE = Layout(height=42.0, middle=21.0, name=17.0, note=34.0)  # texts stand before the bar
ABOVE = Layout(height=48.0, middle=29.0, name=16.0, note=16.0)  # in one line above it
STACKED = Layout(height=64.0, middle=45.0, name=16.0, note=31.0)  # one under the other above it


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A row: `bar` and `whisker` are path data."""

    style: Style
    code: str
    name: Text
    note: Text | None
    bar: str
    whisker: str
    value: Text
    comparable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class BarDrawing:
    """A bar chart in one size. Vertical lines are drawn in the zones only, so that none crosses a name."""

    frame: Frame
    x_heading: str
    x_ticks: tuple[Tick, ...]
    zones: tuple[Box, ...]
    even: Reference | None
    bars: tuple[Bar, ...]


def bar_drawing(chart: Chart, size: Size) -> BarDrawing:
    """Lay a bar chart out in one size; its height follows from the number of rows."""
    rows = [(line, point) for line in chart.lines for point in line.points if point.y is not None]
    layout = _layout(rows, size)
    top = WORDS if chart.even else TOP
    bottom = top + layout.height * len(rows)
    frame = Frame(
        name=size.name,
        width=size.width,
        height=bottom + BOTTOM,
        left=ceil(min(NAME_ROOM, max(map(_text_width, rows))) + SPACE) if layout is BEFORE else EDGE,
        right=size.width - EDGE,
        top=top,
        bottom=bottom,
    )
    reach = y_reach(chart)
    room = SPACE + max(width_of(_value(chart, point)) for _, point in rows)
    scale = Scale(reach, frame.left + (room if reach.low < 0 else 0.0), frame.right - room)
    return BarDrawing(
        frame=frame,
        x_heading=x_heading(chart.y, size),
        zones=_zones(frame, layout, len(rows)),
        x_ticks=ticks_along(scale),
        even=None if chart.even is None else _even(frame, scale, chart.even),
        bars=tuple(
            _bar(frame, scale, layout, top + layout.height * index, row, _value(chart, row[1]))
            for index, row in enumerate(rows)
        ),
    )


def _layout(rows: Sequence[Row], size: Size) -> Layout:
    if size.name == WIDE.name:
        return BEFORE
    room = size.width - 2 * EDGE - 3 * SPACE
    fits = all(width_of(_name_of(row)) + width_of(row[1].note, SMALL) <= room for row in rows)
    return ABOVE if fits else STACKED


def _name_of(row: Row) -> str:
    line, point = row
    return f"{line.code} {point.label or line.name}"


def _text_width(row: Row) -> float:
    return max(width_of(_name_of(row)), width_of(row[1].note, SMALL))


def _zones(frame: Frame, layout: Layout, rows: int) -> tuple[Box, ...]:
    if layout is BEFORE:
        return (frame.box,)
    middles = (frame.top + layout.height * index + layout.middle for index in range(rows))
    return tuple(Box(frame.left, middle - BAR / 2 - 2, frame.right, middle + BAR / 2 + 2) for middle in middles)


def _origin(scale: Scale) -> float:
    """Return the value bars start from: zero, or the end of an axis that does not show it."""
    return min(max(0.0, scale.reach.low), scale.reach.high)


def _value(chart: Chart, point: Point) -> str:
    return with_unit(number(point.y or 0.0, chart.y.digits), chart.y.unit)


def _even(frame: Frame, scale: Scale, even: Even) -> Reference:
    x = scale.place(even.value)
    y, reach = frame.top - SPACE, scale.reach
    below = Text(x=x - SPACE, y=y, text=even.below, anchor="end") if reach.low < even.value else None
    above = Text(x=x + SPACE, y=y, text=even.above) if reach.high > even.value else None
    if even.worse == "below":
        return Reference(at=x, shade=Box(frame.left, frame.top, x, frame.bottom), better=above, worse=below)
    return Reference(at=x, shade=Box(x, frame.top, frame.right, frame.bottom), better=below, worse=above)


def _bar(frame: Frame, scale: Scale, layout: Layout, top: float, row: Row, value: str) -> Bar:
    line, point = row
    y = top + layout.middle
    start, end = scale.place(_origin(scale)), scale.place(point.y or 0.0)
    name, note = _texts(frame, layout, top, row)
    whisker, outer = "", end
    if point.low is not None and point.high is not None:
        low, high = scale.place(point.low), scale.place(point.high)
        whisker = f"M{pair(low, y - CAP)}v{2 * CAP:g}m0-{CAP:g}H{rounded(high)}m0-{CAP:g}v{2 * CAP:g}"
        outer = low if end < start else high
    return Bar(
        style=line.style,
        code=line.code,
        name=name,
        note=note,
        bar=f"M{pair(start, y - BAR / 2)}H{rounded(end)}v{BAR:g}H{rounded(start)}z",
        whisker=whisker,
        value=Text(
            x=outer - SPACE if end < start else outer + SPACE,
            y=y + FONT / 3,
            text=value,
            anchor="end" if end < start else "start",
        ),
        comparable=point.comparable,
    )


def _texts(frame: Frame, layout: Layout, top: float, row: Row) -> tuple[Text, Text | None]:
    """Place the name and the note of a row; without a note the name stands at the height of the bar."""
    line, point = row
    room = frame.left - SPACE if layout is BEFORE else frame.right - frame.left - 2 * SPACE
    name = fitted(point.label or line.name, room - width_of(f"{line.code} "))
    note = fitted(point.note, room, SMALL)
    if layout is BEFORE:
        x, y = frame.left - SPACE, top + (layout.name if note else layout.middle + FONT / 3)
        return Text(x=x, y=y, text=name, anchor="end"), _note(x, top + layout.note, note, "end")
    x, y = frame.left + SPACE, top + layout.note
    beside = _note(frame.right - SPACE, y, note, "end") if layout is ABOVE else _note(x, y, note, "start")
    return Text(x=x, y=top + layout.name, text=name), beside


def _note(x: float, y: float, note: str, anchor: Anchor) -> Text | None:
    return Text(x=x, y=y, text=note, anchor=anchor) if note else None
