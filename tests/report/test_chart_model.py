"""What a chart may hold, what breaks a line, and which files hold its numbers."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise
from math import inf, nan

import pytest
from hypothesis import given, settings

from collector.report.chart import Axis, Chart, Line, Point, code, runs, style
from collector.report.chart_data import csv_text, json_text
from tests.report.chart_samples import MUSE, chart, charts, line


def test_every_line_of_a_chart_has_its_own_look() -> None:
    looks = [style(index) for index in range(180)]
    assert len(set(looks)) == 180
    for one, other in pairwise(looks):
        assert one.colour != other.colour
        assert one.dash != other.dash
        assert one.marker != other.marker


def test_codes_run_from_a_to_z_and_on() -> None:
    assert [code(index) for index in (0, 25, 26, 27, 51, 52, 702)] == ["A", "Z", "AA", "AB", "AZ", "BA", "AAA"]


@pytest.mark.parametrize("wrong", [{"x": nan, "y": 1.0}, {"x": 1.0, "y": inf}, {"x": 1.0, "y": 1.0, "low": 0.5}])
def test_a_point_that_cannot_be_drawn_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"a point of a chart|a whisker"):
        Point(**wrong)  # type: ignore[arg-type]


def test_a_chart_without_a_value_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        chart(line(0, {1.0: None}))


def shape(found: Line, *, in_order: bool = False) -> list[list[float]]:
    return [[point.x for point in run] for run in runs(found, in_order=in_order)]


def test_a_missing_point_breaks_the_line() -> None:
    assert shape(line(0, {1.0: 2.0, 2.0: 1.8, 8.0: None, 16.0: 1.2, 32.0: 1.1})) == [[1, 2], [16, 32]]


def test_a_hollow_mark_breaks_the_line_unless_another_point_of_its_x_holds() -> None:
    hollow = Point(x=8.0, y=3.0, comparable=False)
    without = line(0, {1.0: 2.0, 16.0: 1.2})
    held = line(0, {1.0: 2.0, 8.0: 1.5, 16.0: 1.2})
    assert shape(Line(code="A", name="", points=(*without.points, hollow), style=style(0))) == [[1], [16]]
    assert shape(Line(code="A", name="", points=(*held.points, hollow), style=style(0))) == [[1, 8, 16]]


def test_points_are_joined_by_rising_x_or_as_given() -> None:
    bent = line(0, {4.0: 1.0, 1.0: 2.0, 2.0: 3.0})
    assert shape(bent) == [[1, 2, 4]]
    assert shape(bent, in_order=True) == [[4, 1, 2]]


def test_the_unit_follows_the_title_as_its_language_has_it() -> None:
    headings = [Axis(title=title, unit="s").heading for title in ("TTFT", "첫 토큰 지연", "지연(평균)")]
    assert headings == ["TTFT (s)", "첫 토큰 지연(s)", "지연(평균), s"]
    assert Axis(title="concurrency").heading == "concurrency"


def test_the_csv_of_a_chart_has_its_numbers_unrounded() -> None:
    third = 1 / 3
    found = csv_text(chart(line(0, {1.0: third, 8.0: None}), line(1, {8.0: 2.0}, low=1.5, high=2.5, comparable=False)))
    assert found.splitlines() == [
        "line,name,concurrency,speculation_ratio,speculation_ratio_low,speculation_ratio_high,comparable,rows",
        f"A,Muse k=15,1,{third!r},,,true,000000000001",
        "A,Muse k=15,8,,,,true,000000000008",
        "B,Muse k=15,8,2,1.5,2.5,false,000100000008",
    ]


@settings(max_examples=25, deadline=None)
@given(charts())
def test_both_files_hold_every_point_exactly(one: Chart) -> None:
    lines = list(csv.DictReader(io.StringIO(csv_text(one))))
    numbers = [(float(row["concurrency"]), float(row["speculation_ratio"] or "nan")) for row in lines]
    assert [x for x, _ in numbers] == [point.x for point in one.points]
    assert [y for _, y in numbers if y == y] == [point.y for point in one.points if point.y is not None]
    read = json.loads(json_text(one))
    points = [point for each in read["lines"] for point in each["points"]]
    assert [(point["x"], point["y"]) for point in points] == [(point.x, point.y) for point in one.points]


def test_the_json_of_a_chart_says_what_its_numbers_mean() -> None:
    found = json.loads(json_text(chart(provenance="emulated")))
    assert found["provenance"] == "emulated"
    assert found["y"] == {
        "column": "speculation_ratio",
        "title": "throughput, on ÷ off",
        "unit": "×",
        "scale": "linear",
    }
    assert [point["y"] for point in found["lines"][0]["points"]] == list(MUSE.values())
