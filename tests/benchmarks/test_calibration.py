"""The committed profile against the published figures, evaluated afresh; the fit itself is not run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.calibration.evaluate import Evaluation, within
from benchmarks.calibration.figures import read, throughputs
from benchmarks.calibration.parameters import PARAMETERS
from benchmarks.calibration.profile import PROFILE, constant, expected
from benchmarks.calibration.report import REPORT, report
from benchmarks.calibration.simulate import Stage, walk


@pytest.fixture(scope="module")
def fresh() -> dict[str, Any]:
    profile = json.loads(PROFILE.read_text(encoding="utf-8"))
    return json.loads(json.dumps(report(Evaluation(profile, read()))))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def judged() -> Evaluation:
    return Evaluation(json.loads(PROFILE.read_text(encoding="utf-8")), read())


def test_the_committed_report_is_what_the_committed_profile_gives(fresh: dict[str, Any]) -> None:
    committed = json.loads(REPORT.read_text(encoding="utf-8"))
    assert {name: committed[name] for name in fresh} == fresh


def test_throughputs_are_within_the_goal(fresh: dict[str, Any]) -> None:
    found = fresh["system_throughput"]["summary"]
    assert found["figures"] >= 36
    assert found["median"] <= 0.03
    assert found["worst"] <= 0.10


def test_every_speculation_ratio_is_on_its_side_of_one_and_near(judged: Evaluation) -> None:
    ratios = judged.relations("speculation_ratio")
    assert len(ratios) == 18
    assert [one.cell.label() for one in ratios if not within(one)] == []


def test_nvlink_gains_are_within_four_points(fresh: dict[str, Any]) -> None:
    assert fresh["nvlink_gain_points"]["summary"]["figures"] == 10
    assert fresh["nvlink_gain_points"]["summary"]["worst"] <= 4


def test_traffic_is_within_ten_percent(fresh: dict[str, Any]) -> None:
    assert fresh["nvlink_traffic"]["summary"]["figures"] == 10
    assert fresh["nvlink_traffic"]["summary"]["worst"] <= 0.10


def test_ttft_at_32_is_in_the_published_range(fresh: dict[str, Any]) -> None:
    assert fresh["ttft_at_32_s"]["lowest"] >= 3.8
    assert fresh["ttft_at_32_s"]["highest"] <= 6.7


def test_decode_rates_are_within_ten_percent(fresh: dict[str, Any]) -> None:
    assert fresh["request_decode_rate"]["summary"]["figures"] == 2
    assert fresh["request_decode_rate"]["summary"]["worst"] <= 0.10


def test_accepted_per_forward_is_the_published_one(fresh: dict[str, Any]) -> None:
    assert fresh["accepted_per_forward"]["summary"]["worst"] <= 0.01


def test_only_gemma_runs_out_of_kv(fresh: dict[str, Any]) -> None:
    short = {cell.split()[0] for cell, preemptions in fresh["preemptions_at_32"].items() if preemptions}
    assert short == {"gemma-4-31b"}


def test_every_parameter_is_within_its_bounds(fresh: dict[str, Any]) -> None:
    for one, committed in zip(PARAMETERS, fresh["parameters"], strict=True):
        assert one.low <= committed["value"] <= one.high, one.name
        assert one.unit != "fraction of peak" or one.high <= 1, one.name


def test_implied_throughputs_follow_from_printed_ones() -> None:
    found = {one.cell.label(): one for one in throughputs(read())}
    plain = found["exaone-4.5-33b auto off nvlink on c=8"]
    assert plain.value == pytest.approx(220.8 / 0.86)
    assert not plain.printed
    assert found["muse-glimmer-30b fp8_e5m2 off nvlink on c=32"].printed


@pytest.mark.parametrize(("accepted", "k"), [(2.16, 15), (5.59, 15), (3.59, 4), (1.11, 3), (0.0, 3)])
def test_conditional_acceptance_gives_back_what_it_was_made_from(accepted: float, k: int) -> None:
    assert expected([constant(accepted, k)] * k) == pytest.approx(accepted, abs=1e-4)


@pytest.mark.parametrize("k", [0, 4, 15])
def test_a_walk_gives_every_token_and_the_expected_acceptance(k: int) -> None:
    chances = (constant(2.0, k),) * k if k else ()
    walked = walk(Stage(prompt_tokens=640, concurrency=32, requests=64, k=k, conditional=chances))
    assert walked.tokens == 64 * 256
    assert walked.preemptions == 0
    assert walked.accepted == pytest.approx(2.0 * walked.drafts, rel=0.02)


def test_a_small_kv_cache_preempts_and_computes_again() -> None:
    ample = Stage(prompt_tokens=640, concurrency=8, requests=8)
    small = Stage(prompt_tokens=640, concurrency=8, requests=8, capacity_tokens=5600)
    computed = [sum(one.steps * one.load.prefill_positions for one in walk(stage).groups) for stage in (ample, small)]
    assert computed[0] == 8 * 640
    assert computed[1] > computed[0]
    assert walk(small).tokens == walk(ample).tokens
