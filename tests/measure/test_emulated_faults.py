"""A sweep on the embedded engine whose profile scripts faults: each becomes what the same fault of a real engine is.

One plan has a series for each fault; each series is one configuration, and the last of them is healthy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collector.analysis.speculation import pairs
from collector.cli import main
from collector.core.plan import parse_plan
from collector.core.rows import Failure, Row
from collector.measure.campaign import problems, read_tables

#: A configuration generates 16 tokens to prove that it is ready, then 32 and 64 at concurrency 1, then 128 and
#: 256 at concurrency 4, each time the warm-up first: its second window lies between 240 and 496 tokens.
PLAN = """\
plan: 1
campaign: faults
engine: {kind: emulated, version: 0.27.0, profile: faults.json}
models: {muse-glimmer-30b: {path: org/muse, drafter: org/muse-dflash}}
speculation: {dflash-15: {method: dflash, model: "{drafter}", num_speculative_tokens: 15}}
defaults: {model: muse-glimmer-30b, tensor_parallel: 2, max_model_len: 16384, max_num_seqs: 32}
matrix: {series: [SERIES]}
extra: [{series: reset, speculation: dflash-15}]
stages: {concurrency: {1: 2, 4: 8}, prompt_tokens: 200, output_tokens: 32}
limits: {ready_s: 300, start_stall_s: 100, stage_stall_s: 60, request_s: 200}
"""
REFUSAL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.56 GiB"
)
FAULTS: dict[str, dict[str, Any]] = {
    "refuse": {"refuse": REFUSAL},
    "held": {"gpu_held_gib": 8},
    "slow": {"slow_start_s": 150},
    "too-slow": {"slow_start_s": 400},
    "hang-in-load": {"hang_in_load": True},
    "die": {"die_after_tokens": 300},
    "die-silently": {"die_after_tokens": 300, "die_silently": True},
    "hang": {"hang_after_tokens": 300},
    "hang-at-once": {"hang_after_tokens": 5},
    "reset": {"reset_after_tokens": 300},
    "drop": {"drop_series": ["inter_token_latency_seconds", "prefix_cache_queries"]},
    "fail-some": {"fail_every": 3},
    "fail-all": {"fail_every": 1},
    "delay": {"answer_delay_s": 3},
    "deaf": {"answer_delay_s": 20},
}
OUTCOMES = [{"match": {"series": name, "speculation": "off"}, "faults": one} for name, one in FAULTS.items()]
FLAKY = [{"match": {"series": "flaky", "attempt": 1}, "faults": FAULTS["die"]}]


def sweep(folder: Path, series: list[str], outcomes: list[dict[str, Any]], *arguments: str) -> str:
    """Run a plan of these series; its profile changes nothing of the shipped one but the outcomes. Returns what it
    told."""
    (folder / "faults.json").write_text(json.dumps({"extends": "dual-3090", "outcomes": outcomes}))
    (folder / "plan.yaml").write_text(PLAN.replace("SERIES", ", ".join(series)))
    done = subprocess.run(
        [sys.executable, "-m", "collector.cli", "sweep", "plan.yaml", *arguments],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,  # of this machine's time: a hang in virtual time must not hang the sweep
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


class Campaign:
    """What a sweep left, by series."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data" / "faults"
        self.all_rows, self.all_failures, _ = read_tables(self.folder)

    def rows(self, series: str) -> list[Row]:
        return [row for row in self.all_rows if row.series == series and row.speculation == "off"]

    def failures(self, series: str) -> list[Failure]:
        return [one for one in self.all_failures if one.series == series]

    def failure(self, series: str) -> Failure:
        (found,) = self.failures(series)
        return found


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    folder = tmp_path_factory.mktemp("faults")
    sweep(folder, [*FAULTS, "healthy"], OUTCOMES)
    return Campaign(folder)


@pytest.mark.parametrize(
    ("series", "category", "phase", "retryable", "cause"),
    [
        ("refuse", "oom_weights", "weights", False, "CUDA out of memory. Tried to allocate 2.00 GiB"),
        ("held", "gpu_busy", "config", True, "Free memory on device cuda:0"),
        ("too-slow", "timeout", "weights", True, "not ready after ready_s = 300 s"),
        ("hang-in-load", "timeout", "weights", True, "no new log line for start_stall_s = 100 s"),
        ("deaf", "timeout", "ready", True, "no new log line for start_stall_s = 100 s; /health does not answer"),
        ("hang-at-once", "crashed_serving", "first_request", True, "the first request: /v1/completions: ReadTimeout"),
        ("fail-all", "crashed_serving", "first_request", True, "the first request: /v1/completions answered 500"),
    ],
)
def test_an_engine_that_does_not_get_ready_is_one_failure_without_a_row(
    swept: Campaign, series: str, category: str, phase: str, retryable: bool, cause: str
) -> None:
    failure = swept.failure(series)
    assert (failure.category, failure.phase, failure.retryable) == (category, phase, retryable)
    assert cause in failure.cause
    assert failure.row_id is None
    assert swept.rows(series) == []


@pytest.mark.parametrize(
    ("series", "category", "cause"),
    [
        ("die", "crashed_serving", "died unexpectedly"),
        ("die-silently", "crashed_serving", "the engine ended with signal 9 and no word of its own"),
        ("hang", "timeout", "no new token for stage_stall_s = 60 s"),
    ],
)
def test_an_engine_that_fails_in_its_second_stage_keeps_the_row_of_its_first(
    swept: Campaign, series: str, category: str, cause: str
) -> None:
    (row,), failure = swept.rows(series), swept.failure(series)
    assert (row.concurrency, row.checks) == (1, "")
    assert (failure.category, failure.phase) == (category, "serving")
    assert cause in failure.cause
    assert failure.row_id not in (None, row.row_id)


def test_a_failed_configuration_does_not_keep_the_next_from_being_measured(swept: Campaign) -> None:
    assert [(row.concurrency, row.checks, row.checks_not_run) for row in swept.rows("healthy")] == [
        (1, "", ""),
        (4, "", ""),
    ]
    assert swept.failures("healthy") == []
    assert list(problems(swept.folder)) == []


def test_a_slow_start_within_its_limit_is_no_failure_and_tells_in_the_row(swept: Campaign) -> None:
    slow, healthy = swept.rows("slow"), swept.rows("healthy")
    assert [row.checks for row in slow] == ["", ""]
    for late, usual in zip(slow, healthy, strict=True):
        assert late.start_s is not None
        assert usual.start_s is not None
        assert late.start_s - usual.start_s == pytest.approx(150, abs=2)


def test_counters_that_are_reset_void_their_row_and_no_ratio_is_made_of_it(swept: Campaign) -> None:
    first, second = swept.rows("reset")
    assert first.checks == ""
    assert "counter_reset" in second.checks.split()
    assert second.system_throughput_tok_s is None
    (pair,) = [one for one in pairs(swept.all_rows, swept.all_failures) if ("series", "reset") in one.setting]
    alone, together = pair.points
    assert alone.ratio is not None
    assert together.ratio is None
    assert together.reason is not None
    assert (together.reason.kind, together.reason.arm) == ("checks", "off")


def test_a_series_that_is_not_exposed_leaves_its_columns_empty_and_its_checks_undone(swept: Campaign) -> None:
    for row in swept.rows("drop"):
        assert "missing_series" in row.checks.split()
        assert "prefix_hits" in row.checks_not_run.split()
        assert row.tpot_mean_s is None
        assert row.system_throughput_tok_s is not None


def test_requests_that_fail_mark_their_row(swept: Campaign) -> None:
    for row in swept.rows("fail-some"):
        assert row.requests_failed
        assert row.requests_done + row.requests_failed == row.requests_sent
        assert "request_failed" in row.checks.split()


def test_a_front_end_that_answers_late_is_seen_to_starve_the_engine(swept: Campaign) -> None:
    delayed, healthy = swept.rows("delay"), swept.rows("healthy")
    assert [row.checks for row in delayed] == ["client_bound", "client_bound"]
    for late, usual in zip(delayed, healthy, strict=True):
        assert late.system_throughput_tok_s is not None
        assert usual.system_throughput_tok_s is not None
        assert late.system_throughput_tok_s < usual.system_throughput_tok_s / 2


def test_a_fault_of_the_first_attempt_is_made_good_by_the_next_sweep(tmp_path: Path) -> None:
    sweep(tmp_path, ["flaky"], FLAKY)
    once = Campaign(tmp_path)
    assert (once.failure("flaky").attempt, len(once.rows("flaky"))) == (1, 1)
    sweep(tmp_path, ["flaky"], FLAKY)
    retried = Campaign(tmp_path)
    assert retried.failures("flaky") == once.failures("flaky")
    assert [(row.concurrency, row.checks) for row in retried.rows("flaky")] == [(1, ""), (4, "")]


def test_a_fault_of_the_moment_is_tried_three_times_and_then_only_on_request(tmp_path: Path) -> None:
    told = [sweep(tmp_path, ["die-silently"], OUTCOMES) for _ in range(5)]
    assert [one.attempt for one in Campaign(tmp_path).failures("die-silently")] == [1, 2, 3]
    assert "left out" not in told[2]
    assert "left out, failed 3 times, at last by crashed_serving (limits.attempts); --retry-failed tries it" in told[3]
    sweep(tmp_path, ["die-silently"], OUTCOMES, "--retry-failed")
    assert len(Campaign(tmp_path).failures("die-silently")) == 4


def test_a_property_of_the_configuration_is_tried_again_on_request_only(tmp_path: Path) -> None:
    sweep(tmp_path, ["refuse"], OUTCOMES)
    told = sweep(tmp_path, ["refuse"], OUTCOMES)
    assert "left out, oom_weights would happen again" in told
    assert len(Campaign(tmp_path).failures("refuse")) == 1
    sweep(tmp_path, ["refuse"], OUTCOMES, "--retry-failed")
    assert [one.attempt for one in Campaign(tmp_path).failures("refuse")] == [1, 2]


def test_the_same_faults_give_the_same_bytes(tmp_path: Path) -> None:
    left = []
    for name in ("once", "again"):
        (folder := tmp_path / name).mkdir()
        sweep(folder, ["die-silently", "hang"], OUTCOMES)
        left.append([(folder / "data" / "faults" / f"{one}.csv").read_bytes() for one in ("rows", "failures")])
    assert left[0] == left[1]


def test_a_scripted_log_that_was_copied_with_its_secret_is_kept_without_it(tmp_path: Path) -> None:
    token = "hf_" + "a1B2c3D4e5" * 3
    script = {"match": {"model": "muse-glimmer-30b"}, "log": f"OSError: cannot reach the hub with {token}"}
    profile = {"profile": 1, "extends": "dual-3090", "outcomes": [script]}
    (tmp_path / "faults.json").write_text(json.dumps(profile))
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.replace("faults.json", str(tmp_path / "faults.json")).replace("SERIES", "a"))
    assert main(["sweep", str(plan), "--out", str(tmp_path / "data")]) == 1
    kept = [one for one in (tmp_path / "data").rglob("*") if one.is_file() and one.suffix not in (".yaml", ".json")]
    assert any(one.suffix == ".log" for one in kept)
    assert not [one.name for one in kept if token in one.read_bytes().decode(errors="replace")]


def test_a_failure_of_another_plan_of_the_campaign_is_none_of_this_sweep(tmp_path: Path) -> None:
    script = {"match": {"model": "muse-glimmer-30b", "series": "a"}, "log": REFUSAL}
    profile = {"profile": 1, "extends": "dual-3090", "outcomes": [script]}
    (tmp_path / "faults.json").write_text(json.dumps(profile))
    whole, rest = tmp_path / "plan.yaml", tmp_path / "rest.yaml"
    text = PLAN.replace("faults.json", str(tmp_path / "faults.json"))
    whole.write_text(text.replace("SERIES", "a, b"))
    rest.write_text(text.replace("SERIES", "b"))
    out = ["--out", str(tmp_path / "data")]
    assert main(["sweep", str(whole), *out]) == 1
    rest.write_text(f"continues: {parse_plan(whole.read_text(), 'plan.yaml').digest}\n{rest.read_text()}")
    assert main(["sweep", str(rest), *out]) == 0
    assert main(["sweep", str(whole), *out]) == 1
