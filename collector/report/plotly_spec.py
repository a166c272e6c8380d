"""A chart for Plotly: plain data and a bare layout, without colours, which charts.js takes from the style sheet.

`meta` of a trace says which colour, `name` of a shape what it stands for. Texts from data are escaped, since
Plotly reads tags in them. Numbers are cut to DIGITS: no reader sees more, and they go with every page.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from math import log10
from typing import Any

from markupsafe import Markup

from collector.report.annotations import gap_words
from collector.report.chart import Chart, Even, Line, Point, runs
from collector.report.geometry import MANY
from collector.report.labels import fitted
from collector.report.scales import Reach, number, with_unit, x_reach, y_reach
from collector.report.text import one_line

Spec = dict[str, Any]

DIGITS = 9  # significant ones
WIDTH, THIN = 2.2, 1.3  # px of a line, and of one among many
PADDING = 0.035  # of the range of an axis that ends at a value, at both ends
LANE = 18  # px between the words of two unmeasured ranges
NAME_ROOM = 260.0  # px of a bar's name above it
#: Strokes of the plot's border by provenance: solid, dashed; published has a second one around it.
BORDER = {"emulated": "6px,4px"}
OUTER = 0.008  # of the plot: distance of the second border


def spec_text(chart: Chart) -> Markup:
    """Return the spec as JSON that can stand in an HTML element."""
    text = json.dumps(spec(chart), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704


def spec(chart: Chart) -> Spec:
    """Return {"data": traces, "layout": layout}."""
    return _bars(chart) if chart.kind == "bar" else _lines(chart)


def _lines(chart: Chart) -> Spec:
    across, up = x_reach(chart), y_reach(chart)
    traces = [trace for line in chart.lines for trace in _traces(chart, line)]
    shapes, notes = _even(chart.even, up, "x", "y") if chart.even else ([], [])
    for lane, ((low, high), words) in enumerate(gap_words(chart.gaps).items()):
        middle = (_logged(across, low) + _logged(across, high)) / 2
        shapes.append(_shape("gap", "rect", x0=low, x1=high, yref="paper", y0=0, y1=1))
        notes.append(_note(words, x=_short(middle), yref="paper", y=1, yanchor="top", yshift=-LANE * lane))
    layout = {
        "title": {"text": escape(chart.y.heading, quote=False)},
        "xaxis": _axis(across) | {"title": {"text": escape(chart.x.heading, quote=False)}},
        "yaxis": _axis(up),
        "shapes": [*shapes, *_border(chart.provenance)],
        "annotations": notes,
    }
    return {"data": traces, "layout": layout | COMMON}


COMMON = {"hovermode": "closest", "margin": {"l": 48, "r": 16, "t": 32, "b": 44}, "legend": {"itemsizing": "trace"}}


def _traces(chart: Chart, line: Line) -> list[Spec]:
    """Make a trace of the points that hold, broken where the line is, and one of the hollow marks."""
    held: list[Point | None] = []
    for run in runs(line, in_order=chart.in_order):
        held += [*([None] if held else []), *run]
    hollow = [point for point in line.points if not point.comparable and point.y is not None]
    look = {"width": THIN if len(chart.lines) > MANY else WIDTH} | ({"dash": _dash(line)} if line.style.dash else {})
    found = [_trace(chart, line, held, {"mode": "lines+markers", "line": look})] if held else []
    if hollow:
        open_mark = {"symbol": f"{line.style.marker}-open", "size": 9}
        found.append(_trace(chart, line, hollow, {"mode": "markers", "marker": open_mark, "showlegend": not held}))
    return found


def _dash(line: Line) -> str:
    return ",".join(f"{one}px" for one in line.style.dash.split())


def _trace(chart: Chart, line: Line, points: Sequence[Point | None], look: Spec) -> Spec:
    labels = [escape(point.label, quote=False) if point else "" for point in points]
    whisker = any(point and point.low is not None for point in points)
    return (
        {
            "type": "scatter",
            "name": escape(one_line(f"{line.code} {line.name}"), quote=False),
            "legendgroup": line.code,
            "meta": line.style.colour,
            "x": [_short(point.x) if point else None for point in points],
            "y": [_short(point.y) if point else None for point in points],
            "marker": {"symbol": line.style.marker, "size": 8},
            "cliponaxis": False,
            "hovertemplate": _hover(chart, whisker=whisker),
        }
        | look
        | ({"text": labels, "textposition": "top center", "mode": f"{look['mode']}+text"} if any(labels) else {})
        | (_whiskers(chart, points, "error_y") if whisker else {})
    )


def _hover(chart: Chart, *, whisker: bool) -> str:
    across, up = (
        f"{escape(axis.title, quote=False)} {with_unit(f'%{{{name}:,.{axis.digits}f}}', axis.unit)}"
        for axis, name in ((chart.x, "x"), (chart.y, "y"))
    )
    return f"%{{fullData.name}}<br>{across}<br>{up}{'%{hovertext}' if whisker else ''}<extra></extra>"


def _whiskers(chart: Chart, points: Sequence[Point | None], name: str) -> Spec:
    """Return error bars to both sides, and their ends for the hover text."""
    ends = [(one.y, one.low, one.high) if one else (None, None, None) for one in points]
    above = [0 if y is None or high is None else _short(high - y) for y, _, high in ends]
    below = [0 if y is None or low is None else _short(y - low) for y, low, _ in ends]
    texts = ["" if low is None or high is None else _span(chart, low, high) for _, low, high in ends]
    bars = {"array": above, "arrayminus": below, "symmetric": False, "thickness": 1.4, "width": 3}
    return {name: bars, "hovertext": texts}


def _span(chart: Chart, low: float, high: float) -> str:
    return f" ({number(low, chart.y.digits)}–{number(high, chart.y.digits)})"


def _bars(chart: Chart) -> Spec:
    reach = y_reach(chart)
    rows = [(line, point) for line in chart.lines for point in line.points if point.y is not None]
    traces = [_bar(chart, index, line, point) for index, (line, point) in enumerate(rows)]
    shapes, notes = _even(chart.even, reach, "y", "x") if chart.even else ([], [])
    for index, (line, point) in enumerate(rows):
        value = with_unit(number(point.y or 0.0, chart.y.digits), chart.y.unit)
        name = fitted(f"{line.code} {point.label or line.name}", NAME_ROOM)
        notes.append(_note(f"{name}: {value}", xref="paper", x=0, xanchor="left", y=index, yshift=17))
    layout = {
        "xaxis": _axis(reach) | {"title": {"text": escape(chart.y.heading, quote=False)}},
        "yaxis": {"range": [len(rows) - 0.5, -0.8], "showticklabels": False, "showgrid": False, "zeroline": False},
        "shapes": [*shapes, *_border(chart.provenance)],
        "annotations": notes,
        "showlegend": False,
    }
    return {"data": traces, "layout": layout | COMMON}


def _bar(chart: Chart, index: int, line: Line, point: Point) -> Spec:
    text = [one_line(f"{line.code} {point.label or line.name}"), point.note]
    title = escape(chart.y.title, quote=False)
    value = with_unit(f"%{{x:,.{chart.y.digits}f}}", chart.y.unit)
    ends = _whiskers(chart, [point], "error_x") if point.low is not None else {}
    span = "".join(ends.pop("hovertext", ()))
    return {
        "type": "bar",
        "orientation": "h",
        "name": "<br>".join(escape(one, quote=False) for one in text if one),
        "meta": line.style.colour if point.comparable else [line.style.colour, "hollow"],
        "x": [_short(point.y)],
        "y": [index],
        "width": 0.4,
        "hovertemplate": f"%{{fullData.name}}<br>{title} {value}{span}<extra></extra>",
    } | ends


def _axis(reach: Reach) -> Spec:
    """Return an axis with the reach of the SVG; a linear one finds its own ticks, so that they follow a zoom."""
    found: Spec = {"range": [*map(_short, _range(reach))]}
    if reach.log:
        found |= {"type": "log", "tickvals": [*map(_short, reach.ticks)], "ticktext": [*reach.tick_texts()]}
    return found


def _range(reach: Reach) -> tuple[float, float]:
    """Return both ends of an axis; of a log axis as powers of ten, as Plotly has them."""
    low, high = (_logged(reach, one) for one in (reach.low, reach.high))
    room = 1.0 if low == high else PADDING * (high - low) if reach.tight else 0.0
    return low - room, high + room


def _logged(reach: Reach, value: float) -> float:
    return log10(value) if reach.log else value


def _even(even: Even, reach: Reach, a: str, v: str) -> tuple[list[Spec], list[Spec]]:
    """Return the shaded side, the line and the words of the even value; it runs along axis `a` and lies on axis `v`."""
    far = _range(reach)[0 if even.worse == "below" else 1]
    far = 10.0**far if reach.log else far
    whole = {f"{a}ref": "paper", f"{a}0": 0, f"{a}1": 1}
    shapes = [
        _shape("worse", "rect", **whole, **{f"{v}0": _short(far), f"{v}1": _short(even.value)}),
        _shape("even", "line", **whole, **{f"{v}0": _short(even.value), f"{v}1": _short(even.value)}),
    ]
    at = _short(_logged(reach, even.value))
    shown = [(even.above, ("bottom", "left"))] if reach.high > even.value else []
    shown += [(even.below, ("top", "right"))] if reach.low < even.value else []
    if v == "y":
        notes = [_note(text, xref="paper", x=1, xanchor="right", y=at, yanchor=to) for text, (to, _) in shown]
    else:
        notes = [_note(text, yref="paper", y=1, yanchor="bottom", x=at, xanchor=to) for text, (_, to) in shown]
    return shapes, notes


def _border(provenance: str) -> list[Spec]:
    """Draw the plot's border as the badge of its provenance has it."""
    reaches = (0.0, OUTER) if provenance == "published" else (0.0,)
    dash = {"line": {"dash": BORDER[provenance]}} if provenance in BORDER else {}
    both = {"xref": "paper", "yref": "paper"}
    return [_shape(provenance, "rect", **both, x0=-out, y0=-out, x1=1 + out, y1=1 + out) | dash for out in reaches]


def _shape(name: str, kind: str, **places: Any) -> Spec:
    return {"name": name, "type": kind, "layer": "below"} | places


def _note(text: str, **places: Any) -> Spec:
    return {"text": escape(one_line(text), quote=False), "showarrow": False} | places


def _short(value: float | None) -> float | int | None:
    if value is None:
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
