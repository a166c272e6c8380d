"""Schedules: what ratios suggest, and what one that was run cost."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from collector.analysis import schedule
from collector.analysis.choosing import judging_of
from collector.analysis.noise import noise_of
from collector.analysis.pairing import SPECULATION
from collector.analysis.schedule import Suggested, measured
from collector.analysis.study import Study
from collector.core.speculative import check_speculation, k_at, schedule_of
from tests.analysis.arms import MTP, arm, pair_of, study_of


def suggestions(study: Study) -> list[Suggested]:
    return schedule.suggestions(study, judging_of(study, noise_of(study)))


TURNING = {1: 1.8, 4: 1.2, 8: 0.9, 32: 0.5}


def _mtp(k: int, ranges: list[list[int]] | None = None) -> dict[str, object]:
    config: dict[str, object] = {"method": "mtp", "num_speculative_tokens": k}
    if ranges:
        config["num_speculative_tokens_per_batch_size"] = ranges
    return MTP | {"num_speculative_tokens": k, "speculative_config": json.dumps(config), "drafter": None}


def _study(**curves: dict[int, float]):  # type: ignore[no-untyped-def]  # a Study
    off = arm({at: 50.0 * at for at in next(iter(curves.values()))})
    rows = [
        row
        for name, ratios in curves.items()
        for row in arm({at: 50.0 * at * ratio for at, ratio in ratios.items()}, **_mtp(int(name.removeprefix("k"))))
    ]
    return study_of(*off, *rows)


def test_a_pair_that_turns_suggests_its_k_below_the_break_even_and_none_above() -> None:
    (found,) = suggestions(_study(k4=TURNING))
    assert found.ranges == ((1, 6, 4), (7, 32, 0)), "1.2 at 4 and 0.9 at 8 cross 1 at 6.3"
    assert json.loads(found.config)["num_speculative_tokens"] == 4
    assert check_speculation(json.loads(found.config)) is None


def test_of_several_k_each_is_taken_where_it_wins() -> None:
    (found,) = suggestions(_study(k1={1: 1.3, 8: 1.2, 32: 0.9}, k4={1: 1.8, 8: 1.1, 32: 0.5}))
    assert [k for _, _, k in found.ranges] == [4, 1, 0]
    assert found.pair.num_speculative_tokens == 4, "the largest k is the number of speculative tokens"


def test_what_gains_or_loses_everywhere_suggests_nothing() -> None:
    assert suggestions(_study(k4={1: 1.8, 32: 1.1})) == []
    assert suggestions(_study(k4={1: 0.8, 32: 0.7})) == []


def test_what_is_within_noise_makes_no_schedule() -> None:
    """Of Gemma on English prompts: 2.42 at 1, 1.51 at 8, and within noise of 1 at 32."""
    assert suggestions(_study(k4={1: 2.42, 8: 1.51, 32: 0.996})) == []
    assert suggestions(_study(k4={1: 1.02, 8: 0.7, 32: 0.5})) == []
    assert suggestions(_study(k1={1: 1.5, 8: 1.21}, k4={1: 1.52, 8: 1.2})) == []


def test_a_batch_size_within_noise_takes_the_plainer_choice_of_a_schedule_that_others_call_for() -> None:
    (found,) = suggestions(_study(k4={1: 1.8, 4: 1.2, 8: 1.01, 32: 0.5}))
    assert found.ranges[-1] == (8, 32, 0)


def test_where_it_turns_is_open_unless_neighbours_say() -> None:
    (found,) = suggestions(_study(k4=TURNING))
    assert found.open == ((4, 8),)
    (found,) = suggestions(_study(k4={1: 1.8, 3: 1.2, 4: 0.9, 32: 0.5}))
    assert found.open == ()


@given(st.dictionaries(st.sampled_from([1, 2, 4, 8, 16, 32]), st.floats(0.2, 3.0), min_size=2))
def test_a_suggested_schedule_is_valid_and_no_measured_concurrency_contradicts_it(ratios: dict[int, float]) -> None:
    study = _study(k4=ratios)
    noise = noise_of(study)
    (pair,) = study.pairs(SPECULATION)
    sides = {point.concurrency: side for point in pair.measured if point.value and (side := noise.side(point.value))}
    found = suggestions(study)
    assert bool(found) == (len(set(sides.values())) > 1)
    for one in found:
        assert check_speculation(json.loads(one.config)) is None
        assert schedule_of(one.config) == one.ranges
        assert {at: k_at(one.ranges, at) for at in sides} == {at: 4 if side > 0 else 0 for at, side in sides.items()}


def test_a_schedule_that_ran_stands_beside_both_pure_settings_and_tells_what_k_0_costs() -> None:
    scheduled = arm({1: 88.0, 4: 230.0, 8: 360.0, 32: 1500.0}, **_mtp(4, [[1, 6, 4], [7, 32, 0]]))
    study = _study(k4=TURNING)
    (found,) = measured(study_of(*study.rows, *scheduled))
    assert [(one.concurrency, one.k) for one in found.stages] == [(1, 4), (4, 4), (8, 0), (32, 0)]
    assert [one.concurrency for one in found.idle] == [8, 32]
    assert [round(one.over_off.value, 3) for one in found.idle if one.over_off] == [0.9, 0.938]
    assert [round(one.over_on.value, 3) for one in found.stages if one.over_on] == [0.978, 0.958, 1.0, 1.875]
    assert found.worst
    assert round(found.worst.value, 3) == 0.9


def test_where_a_schedule_was_measured_no_other_is_suggested() -> None:
    rows = pair_of(TURNING)
    scheduled = arm({1: 88.0, 32: 1500.0}, **_mtp(4, [[1, 6, 4], [7, 32, 0]]))
    assert suggestions(study_of(*rows, *scheduled)) == []


def test_cuda_graph_modes_are_told_where_the_columns_state_two() -> None:
    def lowered(off: str | None, on: str | None) -> tuple[str, str] | None:
        base = arm({1: 50.0, 8: 300.0}, cudagraph_mode=off)
        rows = arm({1: 60.0, 8: 290.0}, cudagraph_mode=on, **_mtp(4, [[1, 4, 4], [5, 8, 0]]))
        (found,) = measured(study_of(*base, *rows))
        return found.lowered

    assert lowered("FULL_AND_PIECEWISE", "PIECEWISE") == ("FULL_AND_PIECEWISE", "PIECEWISE")
    assert lowered("PIECEWISE", "PIECEWISE") is None
    assert lowered(None, "PIECEWISE") is None
