"""The numbers of a chart as files: unrounded, with the rows that prove them, under the names of the columns."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from collector.report.chart import Axis, Chart, Point
from collector.report.text import one_line
from collector.report.words import plain


def csv_text(chart: Chart) -> str:
    """Return one line a point; an empty field is missing, `rows` holds ids with spaces between."""
    x, y = chart.columns
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("line", "name", x, y, f"{y}_low", f"{y}_high", "comparable", "rows"))
    for line in chart.lines:
        for point in line.points:
            numbers = (_written(one) for one in (point.x, point.y, point.low, point.high))
            writer.writerow((line.code, _named(line.name, point), *numbers, _truth(point), " ".join(point.ids)))
    return file.getvalue()


def json_text(chart: Chart) -> str:
    """Return the same with what the axes, the even value and the gaps mean."""
    x, y = chart.columns
    content: dict[str, Any] = {
        "id": chart.id,
        "title": plain(chart.title),
        "subtitle": plain(chart.subtitle),
        "provenance": chart.provenance,
        "x": _axis(x, chart.x),
        "y": _axis(y, chart.y),
        "even": None if chart.even is None else chart.even.value,
        "not_measured": [[gap.low, gap.high, list(gap.codes)] for gap in chart.gaps],
        "lines": [
            {"line": line.code, "name": one_line(line.name), "points": [_point(point) for point in line.points]}
            for line in chart.lines
        ],
    }
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _axis(column: str, axis: Axis) -> dict[str, str]:
    return {"column": column, "title": axis.title, "unit": axis.unit, "scale": axis.scale}


def _point(point: Point) -> dict[str, Any]:
    return {
        "x": point.x,
        "y": point.y,
        "low": point.low,
        "high": point.high,
        "comparable": point.comparable,
        "label": point.label,
        "note": point.note,
        "rows": list(point.ids),
    }


def _named(name: str, point: Point) -> str:
    return one_line(f"{name} {point.label}")


def _written(value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))


def _truth(point: Point) -> str:
    return "true" if point.comparable else "false"
