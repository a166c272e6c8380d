"""The charts of section 2: what is drawn, joined, hollow and hatched, and what their titles say."""

from __future__ import annotations

from collector.analysis.noise import noise_of
from collector.analysis.pairing import SPECULATION
from collector.analysis.panels import panels
from collector.report.chart import Chart
from collector.report.sections.parts.ratio_charts import NAMED_MODELS, ratio_chart, throughput_chart
from collector.report.sections.speculation import coded
from collector.report.words import Words, plain
from tests.report.message_cases import CASES


def drawn(case: str, language: str = "en") -> Chart:
    study = CASES[case]()
    lines = coded(panels(study.pairs(SPECULATION))[0], 0, noise_of(study))
    found = ratio_chart("ratio-1", lines, {row.row_id: row for row in study.rows}, Words(language), 2.5)
    assert found is not None
    return found


def throughput(case: str) -> Chart:
    study = CASES[case]()
    lines = coded(panels(study.pairs(SPECULATION))[0], 0, noise_of(study))
    found = throughput_chart("throughput-1", lines, {row.row_id: row for row in study.rows}, Words("en"))
    assert found is not None
    return found


def test_a_line_is_the_ratio_by_concurrency_with_the_rows_that_prove_it() -> None:
    (line,) = drawn("turns").lines
    assert [(point.x, point.y) for point in line.points] == [(1, 1.7), (8, 0.7), (32, 0.4)]
    assert all(len(point.ids) == 2 for point in line.points)
    assert all(point.low is None for point in line.points)


def test_repeats_give_whiskers() -> None:
    (line,) = drawn("repeats").lines
    assert all(point.low is not None and point.high is not None for point in line.points)


def test_one_is_even_and_below_it_is_a_loss() -> None:
    even = drawn("turns").even
    assert even is not None
    assert (even.value, even.worse, even.below) == (1.0, "below", "loss")


def test_the_range_around_a_crossing_is_hatched_where_nothing_was_measured() -> None:
    (gap,) = drawn("turns").gaps
    assert (gap.low, gap.high, gap.text, gap.codes) == (1, 8, "not measured", ("A",))
    assert drawn("gains").gaps == ()
    assert drawn("turns over an even point").gaps == ()


def test_a_crossing_over_a_broken_line_is_not_hatched() -> None:
    """The break shows it: the published auto line has no value at 8 and 16."""
    (gap,) = drawn("published").gaps
    assert (gap.low, gap.high, gap.text) == (1, 8, "not published")
    assert drawn("a stage failed its checks").gaps == ()


def test_a_failed_check_is_a_hollow_mark_that_no_line_goes_through() -> None:
    (line,) = drawn("a stage failed its checks").lines
    assert [point.comparable for point in line.points] == [True, False, True]
    assert [point.comparable for point in throughput("a stage failed its checks").lines[1].points] == [
        True,
        False,
        True,
    ]


def test_a_title_states_what_each_model_does_or_counts_them() -> None:
    assert plain(drawn("turns").title) == "alpha-30b: a gain that turns into a loss as concurrency grows"
    assert plain(drawn("two gain").title) == "All 2 ways: a gain at every concurrency compared"
    assert plain(drawn("one gains, one loses").title) == "a: gain throughout · b: loss throughout"
    assert len({line.name for line in drawn("40 models").lines}) == 40 > NAMED_MODELS
    assert plain(drawn("40 models").title).startswith("All 40 ways")


def test_every_line_is_said_in_words() -> None:
    assert drawn("turns").alt == "A alpha-30b · mtp k=4: 1.70× at 1, 0.70× at 8, 0.40× at 32."
    assert (
        drawn("turns", "ko").alt == "A alpha-30b · mtp k=4: 동시 1에서 1.70배, 동시 8에서 0.70배, 동시 32에서 0.40배."
    )


def test_throughputs_with_and_without_share_a_colour_and_differ_in_dash() -> None:
    off, on = throughput("turns").lines
    assert (off.code, on.code) == ("A0", "A")
    assert (off.style.colour, off.style.marker) == (on.style.colour, on.style.marker)
    assert off.style.dash != on.style.dash


def test_what_two_ways_share_without_speculation_is_one_line() -> None:
    codes = [line.code for line in throughput("dual-3090").lines if line.code.endswith("0")]
    assert len(codes) == len(set(codes))
    names = [line.name for line in throughput("two k").lines]
    assert len(names) == len(set(names))
