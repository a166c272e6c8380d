"""Narrowing a break-even: brackets hold the true crossing, and asking for more comes to an end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, log2, sqrt

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.analysis.break_even import crossings
from collector.analysis.narrowing import MOST_EXTRA, narrowings, places, stage_at
from collector.analysis.speculation import EVEN_WITHIN, Point, side
from collector.core.configuration import Plan, Stage, row_id
from collector.core.plan import parse_plan
from collector.core.rows import Row
from tests.report.sample import make_row

STAGES = {1: 8, 8: 32, 16: 48, 32: 64}
PLAN = """\
plan: 1
campaign: sample-dual
models: {alpha-30b: {path: example/alpha-30b}}
speculation: {mtp-4: {method: mtp, num_speculative_tokens: 4}}
defaults: {model: alpha-30b, tensor_parallel: 2, max_model_len: 16384, max_num_seqs: 32}
matrix: {speculation: [off, mtp-4]}
stages: {concurrency: {1: 8, 8: 32, 16: 48, 32: 64}}
"""
RATIO = st.floats(0.3, 3.0).filter(lambda ratio: abs(ratio - 1) > 2 * EVEN_WITHIN)


def _plan() -> Plan:
    return parse_plan(PLAN, "p.yaml")


def _rows(plan: Plan, ratios: dict[int, float], *, checks: dict[int, str] | None = None) -> list[Row]:
    """Return what a sweep of these concurrencies would leave: both sides, by the ids of the plan."""
    found = []
    for run in plan.runs:
        c = run.configuration
        speculating = c.speculation != "off"
        for at, ratio in ratios.items():
            stage = next((one for one in run.stages if one.concurrency == at), stage_at(at, run.stages))
            found.append(
                make_row(
                    row_id=row_id(c, stage, 1),
                    configuration_id=c.configuration_id,
                    concurrency=at,
                    requests=stage.requests,
                    warmup_requests=stage.warmup_requests,
                    speculation=c.speculation,
                    num_speculative_tokens=c.num_speculative_tokens,
                    speculative_config=c.speculative_config,
                    nvlink=None,
                    system_throughput_tok_s=50.0 * at * (ratio if speculating else 1.0),
                    checks=(checks or {}).get(at, ""),
                )
            )
    return found


@given(
    st.lists(st.tuples(st.integers(1, 64), RATIO), min_size=2, max_size=8, unique_by=lambda one: one[0]),
)
def test_there_is_one_bracket_for_each_change_of_side_however_often_a_curve_turns(
    points: list[tuple[int, float]],
) -> None:
    curve = sorted(points)
    found = crossings([Point(concurrency=at, ratio=ratio) for at, ratio in curve])
    assert len(found) == sum((a[1] > 1) != (b[1] > 1) for a, b in pairwise(curve))
    for one in found:
        assert one.bracket[0] <= one.estimate <= one.bracket[1]


@dataclass(frozen=True)
class Curve:
    """A smooth ratio that falls with concurrency, or rises: two steps, each as steep and as high as it likes."""

    floor: float
    steps: tuple[tuple[float, float, float], ...]  # height, where (log2), steepness
    rises: bool

    def at(self, concurrency: float) -> float:
        place = log2(concurrency)
        ratio = self.floor + sum(high / (1 + exp(steep * (place - where))) for high, where, steep in self.steps)
        return 1 / ratio if self.rises else ratio

    def crossing(self, low: float, high: float) -> float:
        """Return where the curve is 1, by halving."""
        for _ in range(60):
            middle = sqrt(low * high)
            low, high = (middle, high) if (self.at(middle) > 1) == (self.at(low) > 1) else (low, middle)
        return low


STEP = st.tuples(st.floats(0.05, 1.5), st.floats(0, 6), st.floats(0.3, 8))


@given(
    st.builds(Curve, floor=st.floats(0.2, 0.95), steps=st.tuples(STEP, STEP), rises=st.booleans()),
    st.sets(st.integers(1, 64), min_size=2, max_size=7),
)
def test_the_bracket_of_a_smooth_curve_that_was_measured_at_a_few_stages_holds_its_true_crossing(
    curve: Curve, stages: set[int]
) -> None:
    """The curve is known everywhere, the bracket only from the stages: what lies between is no straight line."""
    first, last = min(stages), max(stages)
    found = crossings([Point(concurrency=at, ratio=curve.at(at)) for at in stages])
    sides = {side(curve.at(at)) for at in stages}
    assert len(found) == (1 if {-1, 1} <= sides else 0)
    for one in found:
        low, high = one.bracket
        assert low <= curve.crossing(first, last) <= high
        assert {low, high} <= stages
        assert not any(low < at < high and side(curve.at(at)) for at in stages), "a tighter bracket was measured"


@given(st.integers(1, 60), st.integers(2, 20), st.floats(0, 1), st.integers(0, 4), st.sets(st.integers(1, 80)))
def test_what_is_asked_lies_within_the_bracket_and_was_not_tried(
    low: int, width: int, share: float, left: int, tried: set[int]
) -> None:
    high = low + width
    found = places(low, high, low + share * width, left, tried)
    assert all(low < at < high and at not in tried for at in found)
    assert len(found) <= min(2, left)
    assert bool(found) == (left > 0 and bool(set(range(low + 1, high)) - tried))


@given(st.integers(1, 40), st.integers(2, 16), st.integers(0, 100), st.floats(0, 1))
def test_four_more_concurrencies_narrow_up_to_sixteen_steps_to_one_wherever_the_crossing_is(
    low: int, width: int, place: int, share: float
) -> None:
    high, true = low + width, low + place % width  # the crossing lies between true and the one after
    asked = 0
    while high - low > 1:
        found = places(low, high, low + share * (high - low), MOST_EXTRA - asked)
        assert found, f"left open: {low}-{high} after {asked}"
        asked += len(found)
        low, high = max([low, *(at for at in found if at <= true)]), min([high, *(at for at in found if at > true)])
    assert (low, asked <= MOST_EXTRA) == (true, True)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.integers(1, 32), RATIO, min_size=32, max_size=32), st.sets(st.integers(2, 31)))
def test_asking_ends_after_four_whatever_noise_says_and_whatever_fails_its_checks(
    ratios: dict[int, float], bad: set[int]
) -> None:
    plan = _plan()
    asked: set[int] = set()
    for _ in range(MOST_EXTRA + 1):
        have = {at: ratios[at] for at in (*STAGES, *asked)}
        found = narrowings(plan, _rows(plan, have, checks=dict.fromkeys(bad - set(STAGES), "client_bound")))
        if not found:
            break
        assert not asked & set(found[0].concurrencies), "asked again"
        asked |= set(found[0].concurrencies)
    else:
        raise AssertionError(f"still asking after {asked}")
    assert len(asked) <= MOST_EXTRA


def test_both_sides_get_the_same_stages_and_the_ids_are_those_of_a_plan_that_lists_them() -> None:
    plan = _plan()
    (found,) = narrowings(plan, _rows(plan, {1: 1.8, 8: 0.55, 16: 0.5, 32: 0.4}))
    assert (found.bracket.low, found.bracket.high, found.concurrencies) == (1, 8, (3, 4))
    listed = {stage.concurrency: stage.requests for _, stage in found.cells}
    assert listed == {3: 12, 4: 16}, "as many rounds as at 8, and no fewer requests than at 1"
    both = PLAN.replace("{1: 8,", "{1: 8, 3: 12, 4: 16,")
    theirs = {row_id(run.configuration, stage, 1) for run in parse_plan(both, "p").runs for stage in run.stages}
    assert {row_id(configuration, stage, 1) for configuration, stage in found.cells} <= theirs
    assert len(found.cells) == 4


def test_a_stage_that_one_side_alone_has_is_asked_again_so_that_an_interrupted_sweep_goes_on() -> None:
    plan = _plan()
    rows = _rows(plan, {1: 1.8, 8: 0.55, 16: 0.5, 32: 0.4})
    off_alone = [row for row in _rows(plan, {3: 0.9, 4: 0.8}) if row.speculation == "off"]
    (first,), (again,) = narrowings(plan, rows), narrowings(plan, [*rows, *off_alone])
    assert again.concurrencies == first.concurrencies


def test_neighbours_and_one_sided_curves_need_nothing_more() -> None:
    plan = _plan()
    assert narrowings(plan, _rows(plan, {1: 1.8, 8: 1.6, 16: 1.5, 32: 1.4})) == []
    narrow = _rows(plan, {1: 1.8, 3: 1.2, 4: 0.9, 8: 0.6, 16: 0.5, 32: 0.4})
    assert narrowings(plan, narrow) == []


def test_requests_follow_the_neighbouring_stages() -> None:
    stages = [_stage(at, requests) for at, requests in STAGES.items()]
    assert [stage_at(at, stages).requests for at in (2, 3, 4, 12, 24, 31)] == [8, 12, 16, 36, 48, 62]


def _stage(at: int, requests: int) -> Stage:
    return Stage(
        concurrency=at,
        requests=requests,
        prompt_set="synthetic",
        prompt_tokens=700,
        output_tokens=256,
        warmup_requests=at,
        warmup_output_tokens=32,
    )
