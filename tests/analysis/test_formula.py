"""An expression over columns is what its text says, over means, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.figures import Figure, Labels
from collector.analysis.formula import columns_of, evaluated, formula_of, formula_ratio, printed_formula
from tests.report.sample import make_row

NUMBERS = st.floats(min_value=0.01, max_value=1e4)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_an_expression_means_what_its_text_says(a: float, b: float, c: float) -> None:
    values = {"a": a, "b": b, "c": c}
    assert evaluated("a*(b+c)/(b-2*c+30000)", values) == pytest.approx(a * (b + c) / (b - 2 * c + 30000))


def test_a_division_by_zero_gives_nothing() -> None:
    assert evaluated("a/b", {"a": 1.0, "b": 0.0}) is None


@pytest.mark.parametrize("text", ["a**2", "-a", "f(a)", "a if b else c", "'a'"])
def test_what_a_reader_could_not_check_by_hand_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        evaluated(text, {"a": 1.0, "b": 1.0, "c": 1.0})


def test_columns_are_those_that_the_text_names() -> None:
    assert columns_of("concurrency*(prompt_tokens_mean+output_tokens)") == (
        "concurrency",
        "prompt_tokens_mean",
        "output_tokens",
    )


def test_each_column_stands_for_its_mean_and_repeats_give_a_range() -> None:
    rows = [make_row(tokens_per_step=2.0), make_row(tokens_per_step=4.0, repeat=2)]
    rows = [replace(row, step_time_mean_s=step) for row, step in zip(rows, (0.1, 0.4), strict=True)]
    found = formula_of(rows, "tokens_per_step/step_time_mean_s")
    assert found is not None
    assert found.value == pytest.approx(3.0 / 0.25)
    assert found.low == pytest.approx(10.0)
    assert found.high == pytest.approx(20.0)
    assert (found.by, found.of, found.n) == ("mean", "tokens_per_step/step_time_mean_s", 2)


def test_a_row_that_lacks_a_column_or_failed_a_check_takes_no_part() -> None:
    rows = [make_row(), replace(make_row(repeat=2), tpot_mean_s=None), make_row(repeat=3, checks="throttled")]
    found = formula_of(rows, "tpot_mean_s*2")
    assert found is not None
    assert found.ids == (rows[0].row_id,)
    assert formula_of(rows[1:], "tpot_mean_s*2") is None


def test_a_ratio_is_the_expression_over_the_same_of_the_base() -> None:
    found = formula_ratio([make_row(concurrency=8, requests=16)], [make_row()], "requests/concurrency*requests")
    assert found is not None
    assert found.value == pytest.approx((16 / 8 * 16) / (8 / 1 * 8))
    assert (found.by, len(found.ids), len(found.base)) == ("ratio", 1, 1)
    assert formula_ratio([make_row()], [make_row(preemptions=0)], "preemptions*1") is None


def figure(name: str, metric: str, value: float, **labels: object) -> Figure:
    return Figure(
        figure_id=name,
        section="s",
        labels=Labels(**labels),  # type: ignore[arg-type]  # every label fits its field
        metric=metric,
        value=value,
        unit="",
        resolution=0.1,
    )


def test_published_figures_stand_in_by_their_metric_or_by_a_label_that_they_share() -> None:
    rate = figure("F1", "acceptance_rate", 0.2, num_speculative_tokens=15)
    found = printed_formula([rate], "1+acceptance_rate*num_speculative_tokens")
    assert found is not None
    assert found.value == pytest.approx(4.0)
    assert found.ids == ("F1",)
    other = figure("F2", "drafts", 1.0, num_speculative_tokens=3)
    assert printed_formula([rate, other], "acceptance_rate*num_speculative_tokens") is None


def test_a_ratio_of_published_figures_names_both_sides() -> None:
    on, off = figure("F1", "request_decode_rate", 8.3), figure("F2", "request_decode_rate", 21.3)
    found = printed_formula([on], "request_decode_rate", [off])
    assert found is not None
    assert found.value == pytest.approx(8.3 / 21.3)
    assert (found.by, found.ids, found.base) == ("ratio", ("F1",), ("F2",))
