"""Where a ratio crosses 1: brackets of what was run, an estimate between them, and how far repeats let it move."""

from __future__ import annotations

from itertools import pairwise
from math import inf, log2, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.break_even import BreakEven, Crossing, break_even, crossings
from collector.analysis.speculation import EVEN_WITHIN, Pair, Point, pairs, side, verdict
from collector.core.rows import Row
from tests.report.sample import make_row

MTP = {"speculation": "mtp", "num_speculative_tokens": 4, "tokens_per_step": 3.4}
CONCURRENCIES = (1, 2, 4, 8, 32)
OFF_TOK_S = 50.0

#: Throughputs of the repeats with speculation, at each concurrency; without it all give OFF_TOK_S.
Arm = dict[int, list[float]]

throughputs = st.floats(5.0, 500.0)
curves = st.lists(st.lists(throughputs, min_size=3, max_size=3), min_size=2, max_size=len(CONCURRENCIES)).map(
    lambda found: dict(zip(CONCURRENCIES, found, strict=False))
)


def rows_of(arm: Arm, scale: float = 1.0) -> list[Row]:
    return [
        make_row(concurrency=at, repeat=repeat, system_throughput_tok_s=scale * tok_s, **way)
        for at, found in arm.items()
        for repeat, on_tok_s in enumerate(found, start=1)
        for way, tok_s in (({}, OFF_TOK_S), (MTP, on_tok_s))
    ]


def pair_of(arm: Arm, scale: float = 1.0) -> Pair:
    (found,) = pairs(rows_of(arm, scale))
    return found


def judged(arm: Arm, error: float | None = None) -> BreakEven:
    found = break_even(pair_of(arm), error)
    assert found is not None
    return found


def points(**ratios: float) -> list[Point]:
    """Return points of one repeat, named c1, c8 and so on."""
    return [Point(concurrency=int(name[1:]), ratio=ratio) for name, ratio in ratios.items()]


def only(found: list[Crossing]) -> Crossing:
    assert len(found) == 1
    return found[0]


def test_the_estimate_is_on_the_line_between_neighbours_over_the_logarithm_of_concurrency() -> None:
    found = only(crossings(points(c8=0.5, c2=1.5, c32=0.4)))
    assert (found.bracket, found.ratios, found.falls) == ((2, 8), (1.5, 0.5), True)
    assert found.estimate == pytest.approx(4)  # halfway between 2 and 8 on that scale
    assert (found.by_repeats, found.by_all, found.repeats) == (None, None, 1)


def test_a_ratio_that_rises_is_told_from_one_that_falls() -> None:
    found = only(crossings(points(c1=0.9, c4=1.1)))
    assert not found.falls
    assert found.estimate == pytest.approx(2)


def test_an_even_point_is_neither_gain_nor_loss_and_lies_within_the_bracket() -> None:
    found = only(crossings(points(c1=1.3, c8=1.0 + EVEN_WITHIN / 2, c32=0.7)))
    assert found.bracket == (1, 32)
    assert 8 < found.estimate < 9
    assert only(crossings(points(c1=1.3, c8=1.0, c32=0.7))).estimate == pytest.approx(8)


@pytest.mark.parametrize(
    "ratios", [{"c1": 2.0}, {"c1": 2.0, "c8": 1.2}, {"c1": 0.8, "c8": 0.9}, {"c1": 1.2, "c8": 1.0}]
)
def test_on_one_side_there_is_no_crossing(ratios: dict[str, float]) -> None:
    assert crossings(points(**ratios)) == []


def test_a_curve_that_turns_back_crosses_twice_and_is_called_mixed() -> None:
    found = judged({1: [100.0] * 2, 8: [25.0] * 2, 32: [60.0] * 2})
    assert found.outcome == "mixed"
    assert [(one.bracket, one.falls) for one in found.crossings] == [((1, 8), True), ((8, 32), False)]


def test_the_interval_is_between_the_crossings_of_the_smallest_and_the_largest_ratios() -> None:
    (found,) = judged({1: [75.0, 100.0], 4: [25.0, 37.5]}).crossings
    assert found.by_repeats is not None
    # smallest ratios: 1.5 falls to 0.5; largest: 2 falls to 0.75, so that it has fallen by 1 after 4/5 of the way
    assert found.by_repeats.low == pytest.approx(2)
    assert found.by_repeats.high == pytest.approx(4 ** (4 / 5))
    assert found.repeats == 2


def test_the_error_of_the_ratios_widens_the_interval_by_what_they_may_stand_for() -> None:
    (found,) = crossings(points(c1=1.5, c4=0.5), ratio_error=0.25)
    assert found.by_all is not None
    # 1.5 / 1.25 falls to 0.5 / 1.25, and 1.5 / 0.75 to 0.5 / 0.75
    assert found.by_all.low == pytest.approx(4 ** (0.2 / 0.8))
    assert found.by_all.high == pytest.approx(4 ** (1 / (4 / 3)))
    assert found.by_repeats is None


def test_an_interval_that_what_was_measured_does_not_end_is_open() -> None:
    (found,) = crossings(points(c1=1.1, c4=0.9), ratio_error=0.5)
    assert found.by_all is not None
    assert (found.by_all.low, found.by_all.high) == (None, None)
    (sure,) = crossings(points(c1=1.1, c4=0.1), ratio_error=2.0)  # so wrong that any ratio may stand for a gain
    assert sure.by_all is not None
    assert (sure.by_all.low, sure.by_all.high) == (None, None)


def test_a_single_repeat_gives_no_interval_of_repeats() -> None:
    (found,) = judged({1: [100.0], 8: [25.0]}, error=0.1).crossings
    assert found.by_repeats is None
    assert found.by_all is not None


def test_a_crossing_counts_the_fewest_repeats_that_it_rests_on() -> None:
    known = [Point(concurrency=at, ratio=ratio, repeats=n) for at, ratio, n in ((1, 1.5, 3), (8, 0.5, 2), (32, 0.4, 1))]
    assert only(crossings(known)).repeats == 2


def test_the_rows_are_those_that_bracket_and_interval_are_drawn_through() -> None:
    arm = {1: [200.0, 201.0], 2: [56.0, 57.0], 4: [45.0, 46.0], 8: [20.0, 21.0], 32: [10.0, 11.0]}
    rows = rows_of(arm)
    for error, far in ((None, {2, 4}), (0.2, {1, 2, 4, 8})):
        (found,) = judged(arm, error).crossings
        assert found.bracket == (2, 4)
        assert set(found.row_ids) == {row.row_id for row in rows if row.concurrency in far}
        assert len(set(found.row_ids)) == len(found.row_ids)


def test_of_two_stages_at_a_concurrency_the_longer_counts() -> None:
    rows = rows_of({1: [100.0], 8: [25.0]})
    rows += [
        make_row(concurrency=8, requests=99, system_throughput_tok_s=tok_s, **way)
        for way, tok_s in (({}, 50.0), (MTP, 40.0))
    ]
    (pair,) = pairs(rows)
    found = break_even(pair)
    assert found is not None
    assert [(point.concurrency, point.ratio) for point in found.points] == [(1, 2.0), (8, 0.8)]


def test_a_pair_without_a_ratio_has_no_finding() -> None:
    (pair,) = pairs([make_row(**MTP)])
    assert break_even(pair) is None


@given(curves, st.floats(0.01, 100))
def test_the_speed_of_both_arms_changes_nothing(arm: Arm, scale: float) -> None:
    one, other = break_even(pair_of(arm), 0.1), break_even(pair_of(arm, scale), 0.1)
    assert one is not None
    assert other is not None
    near = any(abs(point.ratio - 1) - EVEN_WITHIN < 1e-9 for point in one.points if abs(point.ratio - 1) < 0.01)
    if not near:  # where a last bit decides which side a ratio is on
        assert [each.bracket for each in one.crossings] == [each.bracket for each in other.crossings]
        assert [each.estimate for each in one.crossings] == pytest.approx([each.estimate for each in other.crossings])


@given(curves)
def test_a_crossing_lies_in_its_bracket_of_neighbours_on_different_sides(arm: Arm) -> None:
    found = judged(arm)
    ratio = {point.concurrency: point.ratio for point in found.points}
    for one in found.crossings:
        low, high = one.bracket
        assert low * (1 - 1e-9) <= one.estimate <= high * (1 + 1e-9)
        assert side(ratio[low]) == -side(ratio[high]) != 0
        assert all(side(ratio[at]) == 0 for at in ratio if low < at < high)


@given(curves)
def test_outcome_and_brackets_tell_the_same_as_the_verdict(arm: Arm) -> None:
    found, said = judged(arm), verdict(pair_of(arm))
    assert said is not None
    assert found.outcome == said.outcome
    number = len(found.crossings)
    assert {"falls": number == 1, "rises": number == 1, "mixed": number > 1}.get(said.outcome, number == 0)
    if said.bracket:
        assert found.crossings[0].bracket == said.bracket


def band(found: BreakEven, at: float) -> tuple[float, float]:
    """Return the range of the ratio over repeats at a concurrency, on straight lines between what was measured."""
    known = [(log2(point.concurrency), point.low or 0.0, point.high or 0.0) for point in found.points]
    x = min(max(log2(at), known[0][0]), known[-1][0])
    before = max(one for one in known if one[0] <= x)
    after = min((one for one in known if one[0] >= x), default=before)
    share = (x - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 0.0
    return before[1] + share * (after[1] - before[1]), before[2] + share * (after[2] - before[2])


@given(curves, st.floats(0, 1))
def test_an_interval_holds_its_estimate_and_every_place_where_repeats_allow_a_ratio_of_one(
    arm: Arm, share: float
) -> None:
    found = judged(arm)
    for one in found.crossings:
        assert one.by_repeats is not None
        low = one.by_repeats.low or found.points[0].concurrency
        high = one.by_repeats.high or found.points[-1].concurrency
        assert low * (1 - 1e-9) <= one.estimate <= high * (1 + 1e-9)
        smallest, largest = band(found, low * (high / low) ** share)
        assert smallest <= 1 + 1e-6
        assert largest >= 1 - 1e-6
        for end in (one.by_repeats.low, one.by_repeats.high):
            if end is not None:
                assert min(abs(edge - 1) for edge in band(found, end)) < 1e-6


@given(curves, st.floats(0, 0.9), st.floats(0, 0.9))
def test_a_larger_error_never_narrows_an_interval(arm: Arm, one: float, other: float) -> None:
    small, large = (judged(arm, error).crossings for error in sorted((one, other)))
    for narrow, wide in zip(small, large, strict=True):
        assert narrow.by_repeats is not None
        assert narrow.by_all is not None
        assert wide.by_all is not None
        for inner, outer in pairwise((narrow.by_repeats, narrow.by_all, wide.by_all)):
            assert (outer.low or 0.0) <= (inner.low or 0.0) * (1 + 1e-9)
            assert (outer.high or inf) >= (inner.high or inf) * (1 - 1e-9)


@given(st.floats(1.05, 4), st.floats(0.2, 0.95), st.floats(1, 1.04), st.floats(1, 1.04))
def test_where_a_ratio_only_falls_the_interval_is_within_the_brackets_of_its_extremes(
    above: float, below: float, up: float, down: float
) -> None:
    ratios = {1: above, 4: sqrt(above * below), 8: below, 32: below / 2}
    if side(ratios[4]) == 0:
        ratios[4] = 1.1 * below
    arm = {at: [OFF_TOK_S * ratio / down, OFF_TOK_S * ratio * up] for at, ratio in ratios.items()}
    (found,) = judged(arm).crossings
    smallest, largest = (
        crossings([Point(concurrency=at, ratio=tok_s[end] / OFF_TOK_S) for at, tok_s in arm.items()]) for end in (0, 1)
    )
    assert found.by_repeats is not None
    for bracketed, end in ((smallest, found.by_repeats.low), (largest, found.by_repeats.high)):
        if bracketed and end is not None:
            low, high = bracketed[0].bracket
            assert low * (1 - 1e-9) <= end <= high * (1 + 1e-9)
            assert end == pytest.approx(bracketed[0].estimate, rel=1e-6)
