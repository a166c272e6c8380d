"""Which pairs share a chart, where a ratio turns, and how one side changes on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.analysis.brackets import Bracket, brackets
from collector.analysis.doubtful import doubtful_ratio, doubtful_throughput
from collector.analysis.noise import noise_of
from collector.analysis.pairing import SPECULATION
from collector.analysis.panels import like_main, pairs_of, panels
from collector.analysis.speculation import pairs
from collector.analysis.steps import NEAR, last_step
from collector.core.rows import Row
from tests.analysis.arms import MTP, arm, pair_of, study_of


def test_the_panel_that_compares_most_is_the_main_one() -> None:
    rows = [
        *pair_of({1: 2.0}, prompt_set="general"),
        *pair_of({1: 2.0}),
        *pair_of({1: 2.0}, model="beta-31b"),
    ]
    first, second = panels(pairs(rows))
    assert dict(first.setting) == {"prompt_set": "synthetic"}
    assert len(first.measured) == 2
    assert dict(second.setting) == {"prompt_set": "general"}


def test_of_equals_the_one_with_the_link_on_comes_first() -> None:
    rows = [*pair_of({1: 2.0}, nvlink="off"), *pair_of({1: 2.0}, nvlink="on")]
    assert [dict(one.setting)["nvlink"] for one in panels(pairs(rows))] == ["on", "off"]


def test_what_was_measured_comes_before_what_was_emulated() -> None:
    rows = [*pair_of({1: 2.0}, provenance="emulated"), *pair_of({1: 2.0}, provenance="measured")]
    emulated = [*pair_of({1: 2.0}, provenance="emulated", model="beta-31b")]
    assert [one.provenance for one in panels(pairs([*rows, *emulated]))] == ["measured", "emulated"]


def test_a_panel_without_a_ratio_comes_last_however_many_pairs_it_has() -> None:
    lonely = [row for model in "abc" for row in arm({1: 1.0}, prompt_set="a", model=model, **MTP)]
    found = panels(pairs([*lonely, *pair_of({1: 2.0}, prompt_set="b")]))
    assert [len(one.measured) for one in found] == [1, 0]


def test_the_order_of_rows_changes_no_panel() -> None:
    rows = [*pair_of({1: 2.0, 8: 0.5}), *pair_of({1: 2.0}, nvlink="off"), *pair_of({1: 2.0}, prompt_set="general")]
    assert panels(pairs(rows)) == panels(pairs(rows[::-1]))


def test_a_model_is_looked_for_under_the_main_link_first() -> None:
    rows = [
        *pair_of({1: 2.0}),
        *pair_of({1: 2.0}, nvlink="off"),
        *pair_of({1: 3.0}, prompt_set="general"),
        *pair_of({1: 2.0}, model="beta-31b"),
        *pair_of({1: 2.0}, model="elsewhere", nvlink="off"),
    ]
    found = panels(pairs(rows))
    assert {(one["prompt_set"], one["nvlink"]) for one in pairs_of("alpha-30b", found)} == {
        ("synthetic", "on"),
        ("general", "on"),
    }
    assert [one["nvlink"] for one in pairs_of("elsewhere", found)] == ["off"]
    assert pairs_of("unknown", found) == ()
    assert like_main(()) == ()


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ({1: 1.7, 8: 0.9}, [Bracket(1, 8, falls=True)]),
        ({1: 0.7, 8: 1.9}, [Bracket(1, 8, falls=False)]),
        ({3: 1.7, 4: 0.9}, [Bracket(3, 4, falls=True)]),
        ({1: 1.7, 8: 1.0, 32: 0.4}, [Bracket(1, 32, falls=True, undecided=(8,), within=False)]),
        (
            {3: 1.7, 4: 1.01, 5: 0.97, 8: 0.4},
            [Bracket(3, 8, falls=True, undecided=(4, 5), within=False, means=(4, 5))],
        ),
        ({1: 1.7, 2: 0.99, 4: 1.01, 8: 0.4}, [Bracket(1, 8, falls=True, undecided=(2, 4), within=False)]),
        ({1: 1.7, 8: 1.2}, []),
        ({1: 1.2, 8: 0.8, 32: 1.3}, [Bracket(1, 8, falls=True), Bracket(8, 32, falls=False)]),
    ],
)
def test_a_bracket_tells_what_is_known_inside(ratios: dict[int, float], expected: list[Bracket]) -> None:
    rows = pair_of(ratios)
    (pair,) = pairs(rows)
    found = list(brackets(pair, noise_of(study_of(*rows))))
    assert found == expected
    assert [one.empty for one in found] == [not one.undecided and one.high > one.low + 1 for one in expected]
    assert all(one.one_step == (one.high == one.low + 1) for one in found)


def test_the_last_step_is_that_between_the_two_highest_concurrencies() -> None:
    rows = [*arm({1: 50.0, 16: 300.0, 32: 285.0}), *arm({1: 80.0, 16: 200.0, 32: 250.0}, **MTP)]
    (pair,) = pairs(rows)
    off, on = last_step(study_of(*rows), pair, "off"), last_step(study_of(*rows), pair, "on")
    assert off is not None
    assert on is not None
    assert (off.low, off.high) == (16, 32)
    assert off.change.value == pytest.approx(-5.0)
    assert on.change.value == pytest.approx(25.0)
    assert (on.change.by, set(on.change.ids), set(on.change.base)) == ("gain", {rows[5].row_id}, {rows[4].row_id})


@pytest.mark.parametrize(("high", "near"), [(NEAR, True), (NEAR + 1, False)])
def test_concurrencies_far_apart_say_nothing_about_how_a_curve_ends(high: int, near: bool) -> None:
    rows = pair_of({1: 2.0, high: 1.5})
    (pair,) = pairs(rows)
    assert (last_step(study_of(*rows), pair, "on") is not None) is near


def test_one_concurrency_is_no_step() -> None:
    rows = pair_of({8: 2.0})
    (pair,) = pairs(rows)
    assert last_step(study_of(*rows), pair, "on") is None


def hollow(rows: list[Row]) -> dict[str, Row]:
    return {row.row_id: row for row in rows}


def test_rows_with_a_failed_check_give_a_hollow_value_and_no_other() -> None:
    good, bad = pair_of({1: 2.0}), pair_of({8: 1.5})
    bad = [bad[0], replace(bad[1], checks="throttled")]
    rows = [*good, *bad]
    (pair,) = pairs(rows)
    fine, doubtful = pair.points
    assert doubtful.value is None
    found = doubtful_ratio(doubtful, SPECULATION, hollow(rows))
    assert found is not None
    assert found.value == pytest.approx(1.5)
    assert set(found.ids) == {row.row_id for row in bad}
    assert doubtful_ratio(fine, SPECULATION, hollow(rows)) is None
    throughput = doubtful_throughput(doubtful, SPECULATION, "on", hollow(rows))
    assert throughput is not None
    assert throughput.value == pytest.approx(600.0)


def test_a_missing_partner_leaves_nothing_hollow() -> None:
    rows = arm({1: 100.0}, **MTP)
    (pair,) = pairs(rows)
    assert doubtful_ratio(pair.points[0], SPECULATION, hollow(rows)) is None
