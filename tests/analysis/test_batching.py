"""Which configuration to run at a concurrency, and how many sequences at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.analysis.batching import Batching, Choice, batching, choices
from collector.analysis.noise import noise_of
from collector.analysis.speculation import pairs
from collector.core.rows import Row
from tests.analysis.arms import MTP, arm, pair_of, study_of

NOISE = noise_of(study_of())
FP8 = {"kv_cache_dtype": "fp8_e5m2"}


def chosen(*rows: Row) -> tuple[Choice, ...]:
    return choices(study_of(*rows), "alpha-30b", None, NOISE)


def batched(*rows: Row) -> Batching:
    found = batching(study_of(*rows), "alpha-30b", None, NOISE)
    assert found is not None
    return found


def test_the_fastest_configuration_is_chosen_at_the_lowest_and_the_highest_concurrency() -> None:
    low, high = chosen(*pair_of({1: 1.7, 8: 1.2, 32: 0.5}))
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


def test_the_flags_are_those_of_the_chosen_row() -> None:
    (one,) = chosen(*arm({8: 100.0}), *arm({8: 200.0}, max_num_seqs=64, **(MTP | FP8)))
    assert dict(one.arguments()) == {
        "--kv-cache-dtype": "fp8_e5m2",
        "--speculative-config": one.row.speculative_config,
        "--max-num-seqs": "64",
    }
    assert dict(one.arguments(16))["--max-num-seqs"] == "16"
    (plain,) = chosen(*arm({8: 100.0}, max_num_seqs=None))
    assert dict(plain.arguments()) == {"--kv-cache-dtype": "auto"}


def test_other_loads_do_not_choose() -> None:
    rows = [*pair_of({1: 1.7}), *arm({8: 900.0}, prompt_set="general", **FP8)]
    like = next(one for one in pairs(rows) if one["prompt_set"] == "synthetic")
    assert [one.concurrency for one in choices(study_of(*rows), "alpha-30b", like, NOISE)] == [1]


def test_without_rows_nothing_is_chosen() -> None:
    assert chosen() == ()
    assert batching(study_of(), "alpha-30b", None, NOISE) is None


def test_one_concurrency_says_nothing_of_batching() -> None:
    assert batching(study_of(*arm({8: 100.0})), "alpha-30b", None, NOISE) is None


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
