"""Places of a chart: everything inside its frame, in the order of the values, nothing over something else."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.report.annotations import Band
from collector.report.bars import bar_drawing
from collector.report.chart import MARKERS, Axis, Chart, Gap, Line
from collector.report.geometry import LABEL_ROOM, MANY, drawing
from collector.report.labels import LABEL_GAP, LINE_GAP, Box, box_of, fitted, spread, width_of
from collector.report.plot import NARROW, SIZES, WIDE, Size
from collector.report.scales import MOST_TICKS, Reach, number, reach_of, with_unit, x_reach, y_reach
from tests.report.chart_samples import CONCURRENCY, EVEN, MUSE, RATIO, STAGES, chart, charts, line

#: Charts take long to make up; what these tests look for shows in most of them.
few = settings(max_examples=25, deadline=None)

SIZE = st.sampled_from(SIZES)
NEAR = 0.06  # places are written with one decimal


def places(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path)]


def marks(path: str) -> list[tuple[float, float]]:
    for shape in MARKERS.values():
        path = path.replace(shape, "")
    return places(path)


@few
@given(charts(), SIZE)
def test_every_place_of_a_line_chart_lies_in_its_frame(one: Chart, size: Size) -> None:
    found = drawing(one, size)
    frame = found.frame
    for each in found.lines:
        for x, y in marks(each.marks) + marks(each.hollow) + places(each.path):
            assert frame.left - NEAR <= x <= frame.right + NEAR
            assert frame.top - NEAR <= y <= frame.bottom + NEAR
    for band in found.bands:
        assert band.box.within(Box(frame.left, frame.top, frame.right, frame.bottom))
    assert all(0 <= tick.at <= size.width for tick in found.x_ticks)


@few
@given(charts(), SIZE)
def test_a_higher_value_never_stands_lower(one: Chart, size: Size) -> None:
    found = drawing(one, size)
    for each, drawn in zip(one.lines, found.lines, strict=True):
        for comparable, path in ((True, drawn.marks), (False, drawn.hollow)):
            points = [point for point in each.points if point.y is not None and point.comparable is comparable]
            placed = marks(path)
            assert len(placed) == len(points)
            for (point, (x, y)), (other, (other_x, other_y)) in combinations(zip(points, placed, strict=True), 2):
                assert (point.y or 0.0) <= (other.y or 0.0) or y <= other_y
                assert point.x <= other.x or x >= other_x


@few
@given(charts(), SIZE)
def test_end_labels_stand_apart_and_beside_the_plot(one: Chart, size: Size) -> None:
    found = drawing(one, size)
    labels = sorted((each.label for each in found.lines if each.label), key=lambda label: label.at.y)
    ends = [label.at.y + (LINE_GAP if label.more else 0.0) for label in labels]
    assert all(label.at.y - end >= LABEL_GAP - 0.01 for end, label in zip(ends, labels[1:], strict=False))
    for label, end in zip(labels, ends, strict=True):
        assert found.frame.top - LINE_GAP <= label.at.y <= end <= found.frame.bottom + LABEL_GAP
        assert found.frame.right < label.at.x
        assert label.at.x + width_of(f"{label.at.text} {label.name}".strip()) <= size.width + 1
        assert label.at.x + width_of(label.more) <= size.width + 1


@few
@given(charts(), SIZE)
def test_tick_labels_never_touch(one: Chart, size: Size) -> None:
    found = drawing(one, size)
    boxes = [(tick.at - width_of(tick.text) / 2, tick.at + width_of(tick.text) / 2) for tick in found.x_ticks]
    assert all(before[1] < after[0] for before, after in pairwise(boxes))
    assert all(before.at - after.at >= LABEL_GAP for before, after in pairwise(found.y_ticks))


@few
@given(charts(), SIZE)
def test_labels_of_points_cover_neither_marks_nor_each_other(one: Chart, size: Size) -> None:
    boxes = [box_of(text, 12) for text in drawing(one, size).points]
    assert not any(box.meets(other) for box, other in combinations(boxes, 2))


@few
@given(charts(), SIZE)
def test_bars_have_the_length_of_their_values_and_rows_of_their_own(one: Chart, size: Size) -> None:
    found = bar_drawing(one, size)
    points = [point for each in one.lines for point in each.points if point.y is not None]
    assert len(found.bars) == len(points)
    ends = [(float(bar.bar[1:].split(" ")[0]), float(bar.bar.split("H")[1].split("v")[0])) for bar in found.bars]
    assert all(-NEAR <= place <= size.width for pair in ends for place in pair)
    for (point, end), (other, other_end) in combinations(zip(points, ends, strict=True), 2):
        assert (point.y or 0.0) <= (other.y or 0.0) or end[1] >= other_end[1]
    tops = [float(bar.bar[1:].split("H")[0].split(" ")[1]) for bar in found.bars]
    assert all(after - before >= LABEL_GAP for before, after in pairwise(tops))
    assert found.frame.height > found.frame.bottom > (tops[-1] if tops else 0)


@few
@given(charts(), SIZE)
def test_the_same_chart_is_drawn_the_same(one: Chart, size: Size) -> None:
    assert drawing(one, size) == drawing(replace(one), size)
    assert bar_drawing(one, size) == bar_drawing(replace(one), size)


@few
@given(charts())
def test_an_axis_reaches_every_value_and_both_sides_of_the_even_one(one: Chart) -> None:
    reach = y_reach(one)
    assert all(reach.low <= value <= reach.high for value in one.values)
    if one.even and one.kind == "line" and not reach.tight:
        assert reach.low < one.even.value < reach.high
    assert all(reach.low <= tick <= reach.high for tick in reach.ticks)
    if not reach.tight:
        assert len(reach.ticks) <= MOST_TICKS + 4


@given(st.lists(st.floats(-500, 500), max_size=30), st.floats(0, 100), st.floats(200, 400))
def test_labels_keep_their_order_and_move_no_further_than_needed(
    wanted: list[float], top: float, bottom: float
) -> None:
    moved = spread(wanted, top, bottom, LABEL_GAP)
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    assert all(moved[after] - moved[before] >= LABEL_GAP - 1e-6 for before, after in pairwise(order))
    apart = all(wanted[after] - wanted[before] > LABEL_GAP for before, after in pairwise(order))
    if apart and all(top <= place <= bottom for place in wanted):
        assert moved == pytest.approx(wanted)
    assert all(place <= bottom + 1e-6 for place in moved)


def test_labels_that_would_touch_share_the_way() -> None:
    assert spread([100.0, 100.0, 300.0], 0.0, 400.0, LABEL_GAP) == [100.0 - LABEL_GAP / 2, 100.0 + LABEL_GAP / 2, 300.0]


def test_a_ratio_of_one_lies_on_the_even_line_and_a_loss_in_the_shade() -> None:
    found = drawing(chart(line(0, {1.0: 1.0, 8.0: 0.5, 32.0: 2.0})), WIDE)
    (one, loss, gain), even = marks(found.lines[0].marks), found.even
    assert even
    assert one[1] == pytest.approx(even.at, abs=NEAR)
    assert even.shade.top < loss[1] < even.shade.bottom
    assert gain[1] < even.at


def test_where_more_is_worse_the_shade_lies_above() -> None:
    even = drawing(chart(even=replace(EVEN, worse="above")), WIDE).even
    assert even
    assert even.shade.bottom == even.at
    assert even.worse
    assert even.worse.text == "gain"
    assert even.better
    assert even.better.text == "loss"


def test_a_doubling_is_as_far_everywhere_on_a_log_axis() -> None:
    found = drawing(chart(line(0, {1.0: 1.1, 4.0: 1.2, 16.0: 1.3})), WIDE)
    one, four, sixteen = (x for x, _ in marks(found.lines[0].marks))
    assert four - one == pytest.approx(sixteen - four, abs=2 * NEAR)


def test_a_log_axis_with_a_value_at_zero_is_drawn_linear() -> None:
    assert reach_of(Axis(title="y", scale="log2"), (0.0, 8.0)).log is False
    assert reach_of(Axis(title="y", scale="log2"), (1.0, 8.0)).log is True


def test_a_single_stage_stands_in_the_middle() -> None:
    found = drawing(chart(line(0, {8.0: 1.5})), WIDE)
    ((x, _),) = marks(found.lines[0].marks)
    assert x == pytest.approx((found.frame.left + found.frame.right) / 2, abs=NEAR)
    assert found.lines[0].path == ""


def test_no_line_is_drawn_across_a_missing_stage_and_a_hollow_mark_is_kept() -> None:
    points = line(0, {1.0: 2.0, 2.0: 1.8, 8.0: 1.5, 16.0: 1.2, 32.0: 1.1}).points
    failed = [replace(point, comparable=point.x != 8.0) for point in points]
    drawn = drawing(chart(replace(line(0, {}), points=tuple(failed))), WIDE).lines[0]
    assert [path.count("L") for path in drawn.path.split("M")[1:]] == [1, 1]
    assert len(marks(drawn.hollow)) == 1
    assert len(marks(drawn.marks)) == 4


def test_names_stand_beside_lines_where_they_fit_and_codes_elsewhere() -> None:
    short, long = line(0, dict(MUSE)), line(1, dict(MUSE), name="가" * 40)
    assert width_of(long.name) > LABEL_ROOM
    assert drawing(chart(short), WIDE).named
    assert not drawing(chart(short), NARROW).named
    mixed = drawing(chart(short, long), WIDE)
    assert not mixed.named
    assert [one.label is not None for one in mixed.lines] == [True, True]


def test_a_long_name_is_broken_between_its_parts() -> None:
    name = "muse-glimmer-30b · dflash k=15 · KV fp8_e5m2"
    assert width_of(name) > LABEL_ROOM
    found = drawing(chart(line(0, dict(MUSE), name=name), line(1, dict(MUSE))), WIDE)
    assert found.named
    labels = [one.label for one in found.lines if one.label]
    assert [(one.name, one.more) for one in labels] == [
        ("muse-glimmer-30b · dflash k=15", "KV fp8_e5m2"),
        ("Muse k=15", ""),
    ]


def test_many_lines_are_thin_and_have_a_legend_instead_of_labels() -> None:
    forty = [line(index, {1.0: 2 - index / 40, 32.0: 1.0}) for index in range(40)]
    found = drawing(chart(*forty), WIDE)
    assert found.many
    assert not found.named
    assert all(one.label is None for one in found.lines)
    assert not drawing(chart(*forty[:MANY]), WIDE).many


def gaps(*ranges: tuple[float, float, str]) -> tuple[Band, ...]:
    found = tuple(Gap(low=low, high=high, text="not measured", codes=(code,)) for low, high, code in ranges)
    return drawing(chart(line(0, dict(MUSE)), line(1, dict(MUSE)), gaps=found), WIDE).bands


def test_an_unmeasured_range_covers_the_height_and_says_so() -> None:
    (band,) = gaps((1.0, 8.0, "A"))
    frame = drawing(chart(), WIDE).frame
    assert (band.box.top, band.box.bottom) == (frame.top, frame.bottom)
    assert band.word
    assert band.word.text == "not measured"


def test_unmeasured_ranges_of_several_lines_do_not_cover_each_other() -> None:
    first, second = gaps((1.0, 8.0, "A"), (1.0, 16.0, "B"))
    assert not first.box.meets(second.box)
    assert [band.word.text for band in (first, second) if band.word] == ["A not measured", "B not measured"]
    (shared,) = gaps((1.0, 8.0, "A"), (1.0, 8.0, "B"))
    assert shared.word


def test_charts_with_the_same_included_value_share_a_scale() -> None:
    shared = replace(RATIO, includes=(4.0,))
    high, low = line(0, {1.0: 4.0}), line(0, {1.0: 0.5})
    assert y_reach(chart(high, y=shared)) == y_reach(chart(low, y=shared))


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ((0.44, 1.9), ("0.0", "0.5", "1.0", "1.5", "2.0")),
        ((0.0, 0.0), ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0")),
        ((-2.4, 3.1), ("−3", "−2", "−1", "0", "1", "2", "3", "4")),
        ((57.7, 497.2), ("0", "100", "200", "300", "400", "500", "600")),
        ((1e6, 1.2e7), ("0", "2,500,000", "5,000,000", "7,500,000", "10,000,000", "12,500,000")),
    ],
)
def test_ticks_are_round_and_written_alike(values: tuple[float, ...], texts: tuple[str, ...]) -> None:
    assert reach_of(Axis(title="y", from_zero=True), values).tick_texts() == texts


def test_evenly_spaced_ticks_are_thinned_evenly() -> None:
    positions = tuple(float(one) for one in range(1, 16))
    axis = Axis(title="position", digits=0, ticks=positions)
    one = chart(line(0, dict.fromkeys(positions, 0.5)), x=axis)
    assert [tick.text for tick in drawing(one, NARROW).x_ticks] == ["1", "3", "5", "7", "9", "11", "13", "15"]


def test_given_ticks_end_the_axis_at_the_outermost_point() -> None:
    assert x_reach(chart()) == Reach(low=1.0, high=32.0, log=True, tight=True, ticks=STAGES)
    assert CONCURRENCY.ticks == STAGES


def test_numbers_are_written_as_readers_write_them() -> None:
    assert [number(one, 1) for one in (-2.44, -0.01, 9999.0, 12345.6, 2e9)] == [
        "−2.4",
        "0.0",
        "9999.0",
        "12,345.6",
        "2e+09",
    ]
    assert [with_unit("3", unit) for unit in ("%", "×", "tok/s", "토큰", "")] == ["3%", "3×", "3 tok/s", "3토큰", "3"]


@given(st.text(max_size=200), st.floats(20, 300))
def test_a_fitted_text_is_no_wider_than_its_room(text: str, width: float) -> None:
    assert width_of(fitted(text, width)) <= width


def test_a_hollow_bar_is_marked_and_a_whisker_keeps_the_value_clear() -> None:
    bars = bar_drawing(chart(line(0, {1.0: 10.0}, low=8.0, high=12.0, comparable=False), kind="bar"), WIDE).bars
    assert [bar.comparable for bar in bars] == [False]
    assert bars[0].value.x > float(bars[0].whisker.split("H")[1].split("m")[0])


def test_a_line_without_a_drawn_point_has_no_label() -> None:
    empty = Line(code="B", name="failed", points=(), style=line(1, {}).style)
    assert drawing(chart(line(0, dict(MUSE)), empty), WIDE).lines[1].label is None
