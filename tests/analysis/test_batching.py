"""Which configuration to run at a concurrency, and how many sequences at once."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.batching import Batching, batching
from collector.analysis.choosing import Choice, anywhere, choose, compared_rows, judging_of, main_load
from collector.analysis.noise import noise_of
from collector.core.rows import Row
from collector.core.speculative import SCHEDULE, schedule_of
from tests.analysis.arms import MTP, arm, pair_of, study_of

NOISE = noise_of(study_of())
FP8 = {"kv_cache_dtype": "fp8_e5m2"}


def chosen(*rows: Row) -> tuple[Choice, ...]:
    study = study_of(*rows)
    return choose(main_load(study, "alpha-30b"), judging_of(study, NOISE))


def maybe(*rows: Row) -> Batching | None:
    study = study_of(*rows)
    return batching(study, "alpha-30b", NOISE, judging_of(study, NOISE))


def batched(*rows: Row) -> Batching:
    found = maybe(*rows)
    assert found is not None
    return found


def test_the_fastest_configuration_is_chosen_at_each_concurrency_where_it_leads_by_more_than_noise() -> None:
    low, _, high = chosen(*pair_of({1: 1.7, 8: 1.2, 32: 0.5}))
    assert (low.concurrency, low.row.speculation, low.considered) == (1, "mtp", 2)
    assert (high.concurrency, high.row.speculation) == (32, "off")


def test_a_plainer_configuration_is_chosen_where_the_fastest_is_ahead_within_noise_only() -> None:
    (one,) = chosen(*arm({8: 100.0}), *arm({8: 103.0}, **FP8), *arm({8: 104.0}, **MTP))
    assert (one.row.speculation, one.row.kv_cache_dtype) == ("off", "auto")
    (other,) = chosen(*arm({8: 100.0}), *arm({8: 120.0}, **FP8), *arm({8: 121.0}, **(MTP | FP8)))
    assert (other.row.speculation, other.row.kv_cache_dtype) == ("off", "fp8_e5m2")


def test_a_row_with_a_failed_check_is_never_chosen() -> None:
    (one,) = chosen(*arm({8: 100.0}), *arm({8: 300.0}, checks="throttled", **FP8))
    assert one.row.kv_cache_dtype == "auto"
    assert one.considered == 1


def test_configurations_are_as_few_as_noise_allows_and_the_plainer_where_two_of_them_are_near() -> None:
    assert [one.row.speculation for one in chosen(*pair_of({1: 1.7, 8: 1.3, 32: 1.01}))] == ["mtp"] * 3
    assert [one.row.speculation for one in chosen(*pair_of({1: 1.01, 8: 0.8, 32: 0.5}))] == ["off"] * 3
    assert [one.row.speculation for one in chosen(*pair_of({1: 1.7, 8: 1.01, 32: 0.5}))] == ["mtp", "off", "off"]


def test_a_plain_setting_is_chosen_before_one_with_a_schedule_that_is_no_better_there() -> None:
    rows = [*pair_of({1: 1.7, 2: 1.4, 8: 0.5}), *scheduled({1: 85.0, 2: 141.0, 8: 300.0})]
    assert [schedule_of(one.row.speculative_config) for one in chosen(*rows)] == [(), (), ()]


def test_a_schedule_near_the_best_throughout_is_the_one_configuration() -> None:
    found = chosen(*pair_of({1: 1.7, 8: 0.7, 32: 0.4}), *scheduled({1: 84.0, 8: 396.0, 32: 1590.0}))
    assert len({one.row.configuration_id for one in found}) == 1
    assert schedule_of(found[0].row.speculative_config)


def scheduled(throughputs: dict[int, float]) -> list[Row]:
    config = {"method": "mtp", "num_speculative_tokens": 4, SCHEDULE: [[1, 2, 4], [3, 32, 0]]}
    return arm(throughputs, **(MTP | {"speculative_config": json.dumps(config)}))


@given(st.dictionaries(st.sampled_from([1, 2, 4, 8, 32]), st.floats(0.3, 3), min_size=1), st.floats(0.3, 3))
def test_what_is_chosen_is_never_behind_by_more_than_noise(ratios: dict[int, float], other: float) -> None:
    study = study_of(*pair_of(ratios), *arm({at: 50.0 * at * other for at in ratios}, **FP8))
    judging = judging_of(study, NOISE)
    rows = main_load(study, "alpha-30b")
    for one in choose(rows, judging):
        fastest = max(row.system_throughput_tok_s or 0 for row in rows if row.concurrency == one.concurrency)
        assert fastest / one.throughput.value <= 1 + NOISE.percent_of(one.throughput) / 100 + 1e-9


def test_for_a_load_that_varies_it_is_the_one_that_loses_least_at_its_worst() -> None:
    study = study_of(*pair_of({1: 1.7, 8: 0.9, 32: 0.8}), *arm({1: 300.0}, **FP8))
    found = anywhere(compared_rows(main_load(study, "alpha-30b")), judging_of(study, NOISE))
    assert found is not None
    assert found.worst is not None
    assert (found.choices[0].row.speculation, found.worst_at) == ("mtp", 1), "off is at 0.17 there, fp8 nowhere else"
    assert round(found.worst.value, 3) == round(85 / 300, 3)


def test_without_rows_nothing_is_chosen() -> None:
    assert chosen() == ()
    assert maybe() is None


def test_one_concurrency_says_nothing_of_batching() -> None:
    assert maybe(*arm({8: 100.0})) is None


@pytest.mark.parametrize(("last", "pays", "most"), [(150.0, True, None), (101.0, False, 16), (80.0, False, 16)])
def test_more_sequences_pay_only_where_throughput_gains_above_noise(last: float, pays: bool, most: int | None) -> None:
    found = batched(*arm({1: 50.0, 16: 100.0, 32: last}))
    assert (found.low, found.high, found.pays, found.most) == (16, 32, pays, most)
    assert found.change.value == pytest.approx(100 * (last / 100 - 1))


def test_a_target_gives_the_highest_concurrency_up_to_which_p95_of_ttft_stays_within_it() -> None:
    rows = [
        replace(row, ttft_p95_low_s=low, ttft_p95_high_s=high)
        for at, (low, high) in {1: (0.1, 0.25), 8: (1, 2.5), 16: (0.75, 1), 32: (2.5, 5)}.items()
        for row in arm({at: 50.0 * at})
    ]
    found = batched(*rows)
    assert [found.within(one).concurrency for one in (0.1, 1, 2, 2.5, 5)] == [None, 1, 1, 16, 32]
    assert [found.within(one).undecided for one in (0.1, 1, 2, 2.5, 4)] == [None, None, 8, None, 32]


def test_a_stage_without_ttft_ends_what_a_target_allows() -> None:
    rows = [*arm({1: 50.0}, ttft_mean_s=0.2), *arm({8: 300.0}, ttft_mean_s=None), *arm({32: 900.0}, ttft_mean_s=0.3)]
    rows = [
        replace(row, ttft_p95_low_s=0.1, ttft_p95_high_s=0.25) if row.ttft_mean_s is not None else row for row in rows
    ]
    assert batched(*rows).within(1).concurrency == 1
    assert batched(*rows).at(8) is not None
    assert batched(*rows).at(16) is None
