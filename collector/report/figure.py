"""What templates/chart.html.j2 calls: filters that turn a chart into what it prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from collector.report.bars import BarDrawing, bar_drawing
from collector.report.chart import MARKERS, Chart
from collector.report.geometry import Drawing, drawing
from collector.report.plot import SIZES, Size, rounded
from collector.report.plotly_spec import spec_text

KINDS: Mapping[str, Callable[[Chart, Size], Drawing | BarDrawing]] = {"line": drawing, "bar": bar_drawing}


def drawings(chart: Chart) -> tuple[Drawing | BarDrawing, ...]:
    """Return the chart in every size."""
    return tuple(KINDS[chart.kind](chart, size) for size in SIZES)


def place(value: float) -> Markup:
    """Write a place; Markup, because a template prints no bare number."""
    return Markup(rounded(value))  # noqa: S704


#: To be added to the filters of an environment that imports the template.
FILTERS: Mapping[str, Callable[..., Any]] = {
    "drawings": drawings,
    "place": place,
    "spec": spec_text,
    "marker": MARKERS.__getitem__,
}
