"""The interactive form shows the same numbers, and is what Plotly takes."""

from __future__ import annotations

import json
import re
from math import log10
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from plotly.offline import get_plotlyjs_version

from collector.report.chart import MARKERS, Axis, Chart, Gap
from collector.report.plotly_spec import DIGITS, spec
from tests.report.chart_samples import MUSE, SAMPLES, chart, charts, line

ASSETS = Path(__file__).resolve().parents[2] / "site_src" / "common" / "assets"


def drawn(found: dict[str, Any]) -> list[tuple[float, float]]:
    return sorted(
        (x, y) for trace in found["data"] for x, y in zip(trace["x"], trace["y"], strict=True) if y is not None
    )


def cut(value: float) -> float:
    """A number as the spec has it."""
    return float(f"{value:.{DIGITS}g}")


@given(charts())
@settings(max_examples=25, deadline=None)
def test_plotly_takes_every_spec_and_it_holds_every_point(one: Chart) -> None:
    found = spec(one)
    go.Figure(found)  # refuses unknown names and values
    json.dumps(found, allow_nan=False)
    points = [(point.x, point.y) for point in one.points if point.y is not None]
    if one.kind == "bar":
        points = [(y, index) for index, (_, y) in enumerate(points)]
    assert drawn(found) == sorted((cut(x), cut(y)) for x, y in points)


def test_the_library_of_the_site_is_the_one_the_specs_are_checked_with() -> None:
    version = get_plotlyjs_version()
    library = ASSETS / f"plotly-basic-{version}.min.js"
    assert f"plotly.js (basic - minified) v{version}" in library.read_text(encoding="utf-8")[:200]
    assert (ASSETS / f"plotly-basic-{version}.LICENSE.txt").is_file()
    assert f'"{library.name}"' in (ASSETS / "charts.js").read_text(encoding="utf-8")
    assert [path.name for path in ASSETS.glob("plotly*.js")] == [library.name]


def test_nothing_is_sent_to_the_cloud_of_plotly() -> None:
    assert "showSendToCloud: false" in (ASSETS / "charts.js").read_text(encoding="utf-8")


def test_colours_come_from_the_style_sheet_alone() -> None:
    text = json.dumps([spec(one) for one in SAMPLES])
    assert re.findall(r"color|#[0-9a-f]{6}|rgb", text) == []
    assert [trace["meta"] for trace in spec(SAMPLES[1])["data"]] == [0, 1]


def test_markers_and_dashes_are_those_of_the_drawing() -> None:
    traces = spec(chart(*(line(index, dict(MUSE)) for index in range(6))))["data"]
    assert [trace["marker"]["symbol"] for trace in traces] == [*MARKERS, "circle"]
    assert [trace["line"].get("dash") for trace in traces[:3]] == [None, "7px,4px", "2px,4px"]


def test_a_line_is_broken_where_the_drawing_breaks_it() -> None:
    (trace,) = spec(chart(line(0, {1.0: 2.0, 8.0: None, 16.0: 1.2, 32.0: 1.1})))["data"]
    assert (trace["x"], trace["y"]) == ([1, None, 16, 32], [2, None, 1.2, 1.1])


def test_hollow_marks_are_open_and_not_joined() -> None:
    (trace,) = spec(chart(line(0, dict(MUSE), comparable=False)))["data"]
    assert (trace["mode"], trace["marker"]["symbol"]) == ("markers", "circle-open")


def test_repeats_are_shown_as_bars_and_told_on_hover() -> None:
    (trace,) = spec(chart(line(0, {1.0: 1.5}, low=1.25, high=2.0)))["data"]
    assert (trace["error_y"]["array"], trace["error_y"]["arrayminus"]) == ([0.5], [0.25])
    assert trace["hovertext"] == [" (1.25–2.00)"]
    assert "%{hovertext}" in trace["hovertemplate"]


def test_names_from_data_are_no_markup_for_plotly() -> None:
    (trace,) = spec(chart(line(0, dict(MUSE), name="<a href='x'>k</a> %{x}")))["data"]
    assert trace["name"] == "A &lt;a href='x'&gt;k&lt;/a&gt; %{x}"
    assert "href" not in trace["hovertemplate"]


def test_both_forms_have_the_same_axes() -> None:
    layout = spec(chart())["layout"]
    assert layout["yaxis"]["range"] == [0, 2]
    low, high = layout["xaxis"]["range"]
    assert low < 0 < log10(32) < high
    assert (layout["xaxis"]["tickvals"], layout["xaxis"]["ticktext"]) == ([1, 8, 16, 32], ["1", "8", "16", "32"])


def test_the_worse_side_and_unmeasured_ranges_are_shaded() -> None:
    layout = spec(chart(gaps=(Gap(low=1.0, high=8.0, text="not measured"),)))["layout"]
    shapes = {shape["name"]: shape for shape in layout["shapes"]}
    assert (shapes["worse"]["y0"], shapes["worse"]["y1"]) == (0, 1)
    assert (shapes["gap"]["x0"], shapes["gap"]["x1"]) == (1, 8)
    assert [note["text"] for note in layout["annotations"]] == ["gain", "loss", "not measured"]


@pytest.mark.parametrize(("provenance", "borders"), [("measured", 1), ("emulated", 1), ("published", 2)])
def test_the_border_says_where_the_numbers_are_from(provenance: str, borders: int) -> None:
    shapes = [one for one in spec(chart(provenance=provenance))["layout"]["shapes"] if one["name"] == provenance]
    assert len(shapes) == borders
    assert any("dash" in shape.get("line", {}) for shape in shapes) is (provenance == "emulated")


def test_a_value_on_hover_has_the_digits_and_unit_of_its_axis() -> None:
    axis = Axis(title="throughput", unit="tok/s", digits=1)
    (trace,) = spec(chart(y=axis, even=None))["data"]
    assert trace["hovertemplate"] == (
        "%{fullData.name}<br>concurrency %{x:,.0f}<br>throughput %{y:,.1f} tok/s<extra></extra>"
    )
