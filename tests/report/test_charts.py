"""Geometry of the ratio chart: everything inside its frame, nothing drawn that was not measured."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.speculation import Pair, pairs
from collector.core.rows import Row
from collector.report import charts
from tests.report.sample import make_row


def measured(ratios: dict[int, float], model: str = "alpha-30b", checks: dict[int, str] | None = None) -> list[Row]:
    rows = []
    for concurrency, ratio in ratios.items():
        stage = {"model": model, "concurrency": concurrency, "requests": 2 * concurrency}
        rows.append(make_row(**stage, system_throughput_tok_s=100.0))
        way = {"speculation": "mtp", "num_speculative_tokens": 4, "tokens_per_step": 2.0}
        failed = (checks or {}).get(concurrency, "")
        rows.append(make_row(**stage, **way, system_throughput_tok_s=100.0 * ratio, checks=failed))
    return rows


def drawn(found: list[Pair], frame: charts.Frame = charts.FRAMES[0]) -> charts.Drawing:
    entries = [
        charts.Entry(code=charts.code(index), style=charts.style(index), pair=pair) for index, pair in enumerate(found)
    ]
    return charts.drawing(frame, entries, *charts.scale_top(found))


RATIOS = st.dictionaries(
    st.integers(1, 512), st.floats(0.01, 40.0, allow_nan=False, allow_infinity=False), min_size=1, max_size=6
)


@given(st.lists(RATIOS, min_size=1, max_size=8), st.sampled_from(charts.FRAMES))
def test_every_mark_lies_in_the_plot_and_every_label_beside_it(
    ratios: list[dict[int, float]], frame: charts.Frame
) -> None:
    found = pairs([row for index, one in enumerate(ratios) for row in measured(one, f"model-{index}")])
    chart = drawn(found, frame)
    for line in chart.lines:
        for mark in line.marks:
            assert frame.left <= mark.x <= frame.right
            assert frame.top <= mark.y <= frame.bottom
    places = sorted(line.label_y for line in chart.lines)
    assert all(after - before >= charts.LABEL_GAP - 0.01 for before, after in pairwise(places))
    assert places[-1] <= frame.bottom + 4
    assert len(chart.y_ticks) <= charts.MOST_TICKS + 2


def test_a_ratio_of_one_lies_on_the_line_and_a_loss_below_it() -> None:
    chart = drawn(pairs(measured({1: 1.0, 8: 0.5, 32: 2.0})))
    (line,) = chart.lines
    one, loss, gain = line.marks
    assert one.y == pytest.approx(chart.even)
    assert loss.y > chart.even > gain.y


def test_concurrency_has_a_logarithmic_axis() -> None:
    one, four, sixteen = drawn(pairs(measured({1: 1.1, 4: 1.2, 16: 1.3}))).lines[0].marks
    assert four.x - one.x == pytest.approx(sixteen.x - four.x)


def test_no_line_is_drawn_across_a_stage_that_is_not_comparable() -> None:
    rows = measured({1: 2.0, 2: 1.8, 8: 1.5, 16: 1.2, 32: 1.1}, checks={8: "throttled"})
    (line,) = drawn(pairs(rows)).lines
    assert len(line.marks) == 4
    assert [path.count("L") for path in line.paths] == [1, 1]


def test_a_single_stage_stands_in_the_middle() -> None:
    (line,) = drawn(pairs(measured({8: 1.5}))).lines
    frame = charts.FRAMES[0]
    assert line.marks[0].x == (frame.left + frame.right) / 2
    assert line.paths == ()


def test_tick_labels_of_concurrency_never_touch() -> None:
    for frame in charts.FRAMES:
        ticks = drawn(pairs(measured(dict.fromkeys(range(1, 65), 1.5))), frame).x_ticks
        assert ticks[-1].text == "64"
        assert all(after.at - before.at >= charts.TICK_GAP for before, after in pairwise(ticks))


def test_the_axis_grows_with_the_ratios_and_always_shows_the_line_of_no_difference() -> None:
    assert charts.scale_top(pairs(measured({1: 0.4})))[0] == charts.LEAST_TOP
    for ratio in (0.4, 1.9, 3.7, 11.0, 70.0, 900.0):
        top, step = charts.scale_top(pairs(measured({1: ratio})))
        assert top >= max(1.0, ratio)
        assert top / step <= charts.MOST_TICKS + 1


def test_lines_of_one_chart_differ_in_look() -> None:
    assert len({charts.style(index) for index in range(30)}) == 30


def test_codes_run_from_a_to_z_and_on() -> None:
    assert [charts.code(index) for index in (0, 25, 26, 27, 51, 52, 702)] == ["A", "Z", "AA", "AB", "AZ", "BA", "AAA"]
