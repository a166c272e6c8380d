"""A sweep on the stand-in of `vllm serve`: rows, failures, resume, interruption, nothing left running."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import VLLM
from tests.measure.sweeping import PLAN, Bench, faults, kill, name_of, timeless, with_limits

FAILING = PLAN.replace(
    "  ngram-4: {method: ngram, num_speculative_tokens: 4}\n",
    "  ngram-4: {method: ngram, num_speculative_tokens: 4}\n  guess: {method: guess, num_speculative_tokens: 4}\n",
).replace(
    "stages:",
    "extra:\n  - {speculation: guess}\n  - {flags: {num-gpu-blocks-override: 4}}\nstages:",
)


def test_a_sweep_gives_a_row_for_each_cell_and_a_line_for_each_failed_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAILING)
    done = bench.sweep()
    assert done.returncode == 1, done.stdout + done.stderr
    assert [(row["speculation"], row["concurrency"]) for row in bench.rows()] == [
        ("off", "1"),
        ("off", "4"),
        ("ngram", "1"),
        ("ngram", "4"),
    ]
    assert all(row["generation_tokens"] == str(24 * int(row["requests"])) for row in bench.rows())
    failures = bench.failures()
    assert [one["category"] for one in failures] == ["speculation", "kv_cache"]
    assert [one["exit_code"] for one in failures] == ["1", "1"]
    assert all((bench.campaign / one["log"]).is_file() for one in failures)
    assert failures[1]["max_model_len_estimate"] == "512"
    assert "4 of 8 rows" in done.stdout
    assert "2 configurations failed" in done.stdout
    bench.nothing_left(1)


def test_the_status_of_a_campaign_tells_rows_failures_and_what_is_left(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAILING)
    bench.sweep()
    command = [sys.executable, "-m", "collector.cli", "status", str(bench.campaign)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.endswith(("rows", "checks")) for line in told[:2]] == [True, True]
    assert [line.rpartition(": ")[2] for line in told[2:]] == ["speculation", "kv_cache"]
    states = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert [(one["rows"], one["cells"], one["failed"]) for one in states] == [
        (2, 2, None),
        (2, 2, None),
        (0, 2, "speculation"),
        (0, 2, "kv_cache"),
    ]


def test_a_second_sweep_measures_nothing_twice_and_says_what_is_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAILING)
    bench.sweep()
    before = {name: (bench.campaign / name).read_bytes() for name in ("rows.csv", "failures.csv", "positions.csv")}
    done = bench.sweep()
    assert done.returncode == 1
    assert before == {name: (bench.campaign / name).read_bytes() for name in before}
    assert bench.journal().count('"start_attempted"') == 4


def test_what_is_left_is_counted_through_without_a_gap(tmp_path: Path) -> None:
    plan = PLAN + "repeats: {count: 2, order: interleaved}\n"
    bench = Bench(tmp_path, plan)
    assert re.findall(r"^\[\d/\d\]", bench.sweep().stdout, re.MULTILINE) == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
    rows = bench.campaign / "rows.csv"
    lines = rows.read_text().splitlines(keepends=True)
    rows.write_text("".join(lines[:3] + lines[5:7]))  # without those of the second and the last start
    told = bench.sweep().stdout
    assert told.startswith("2 of 4 engine starts have nothing left to measure\n")
    assert re.findall(r"^\[\d/\d\]", told, re.MULTILINE) == ["[1/2]", "[2/2]"]
    assert "[" not in bench.sweep().stdout


def test_rows_follow_from_their_evidence_byte_for_byte(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.sweep()
    for verb in ("recompute", "check"):
        command = [sys.executable, "-m", "collector.cli", verb, str(bench.campaign)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    table = bench.campaign / "rows.csv"
    lines = table.read_text().splitlines(keepends=True)
    cells = lines[1].split(",")
    throughput = lines[0].split(",").index("system_throughput_tok_s")
    cells[throughput] = "9999"
    table.write_text("".join([lines[0], ",".join(cells), *lines[2:]]))
    command = [sys.executable, "-m", "collector.cli", "check", str(bench.campaign)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "does not follow from its evidence (system_throughput_tok_s)" in done.stdout


@pytest.mark.parametrize("how", ["kill", "exit0"])
def test_an_engine_that_dies_in_a_stage_costs_its_own_stages_and_nothing_else(tmp_path: Path, how: str) -> None:
    bench = Bench(tmp_path, FAKE_DIE_AFTER_TOKENS="150", FAKE_DIE_HOW=how, FAKE_ONLY_IF="ngram")
    done = bench.sweep()
    assert done.returncode == 1, done.stdout + done.stderr
    assert [(row["speculation"], faults(row)) for row in bench.rows()][:2] == [("off", []), ("off", [])]
    (failure,) = bench.failures()
    assert failure["category"] == "crashed_serving"
    assert failure["phase"] == "serving"
    assert failure["row_id"]
    assert failure["retryable"] == "true"
    assert "failed, crashed_serving" in done.stdout
    bench.nothing_left(1)


def test_what_failed_by_a_fault_of_the_moment_is_measured_by_the_next_sweep(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.sweep(FAKE_DIE_AFTER_TOKENS="150", FAKE_ONLY_IF="ngram")
    assert len(bench.rows()) < 4
    again = bench.sweep()
    assert len(bench.rows()) == 4, again.stdout
    assert [one["attempt"] for one in bench.failures()] == ["1"]
    assert "configuration failed" not in again.stdout


def test_a_dead_engine_is_noticed_within_a_second(tmp_path: Path) -> None:
    plan = with_limits(PLAN, {"ready_s": 60, "start_stall_s": 60, "stage_stall_s": 60, "stop_s": 5})
    bench = Bench(tmp_path, plan, FAKE_START_S="30")
    with bench.sweeping() as process:

        def leaders() -> list[int]:  # until it runs its own program, it has its keeper's name
            return [pid for pid in bench.left() if " serve " in name_of(pid) and "keeper" not in name_of(pid)]

        bench.wait_until(lambda: bool(leaders()), "an engine")
        subprocess.run(["kill", "-9", str(leaders()[0])], check=True)
        bench.wait_until(lambda: bool(bench.failures()), "the failure", seconds=5)
        assert bench.failures()[0]["category"] == "oom_host", "SIGKILL without a word is how the host's memory ends it"
        assert bench.failures()[0]["exit_signal"] == "9"
        kill(process)
    bench.nothing_left()


def test_workers_end_too_when_the_keeper_is_killed_in_a_stage(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAKE_STEP_S="0.02")
    with bench.sweeping() as process:
        bench.wait_until(lambda: "stage_attempted" in bench.journal(), "a stage")
        keeper = next(pid for pid in bench.left() if "collector.measure.keeper" in name_of(pid))
        engine = [pid for pid in bench.left() if " serve " in name_of(pid) and "keeper" not in name_of(pid)]
        assert len(engine) >= 3, "the front end, its core and a worker"
        subprocess.run(["kill", "-9", str(keeper)], check=True)
        bench.wait_until(lambda: not set(engine) & set(bench.left()), "the end of all of them", seconds=5)
        bench.wait_until(lambda: bool(bench.failures()), "the failure", seconds=5)
        assert bench.failures()[0]["category"] == "crashed_serving"
        kill(process)
    bench.nothing_left()


def test_a_port_that_is_taken_is_a_failure_with_its_category_and_starts_nothing(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        plan = PLAN.replace("  kind: process\n", f"  kind: process\n  port: {taken.getsockname()[1]}\n")
        bench = Bench(tmp_path, plan)
        done = bench.sweep()
    assert done.returncode == 1
    assert {one["category"] for one in bench.failures()} == {"port_in_use"}
    assert bench.failures()[0]["retryable"] == "true"
    assert f"port {taken}" not in done.stderr


def test_a_model_that_is_not_there_is_model_unavailable(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PLAN.replace('"${MODEL}"', "/models/does-not-exist"))
    done = bench.sweep()
    assert done.returncode == 1
    assert {one["category"] for one in bench.failures()} == {"model_unavailable"}
    bench.nothing_left(1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_sweep_keeps_its_rows_ends_its_engine_and_goes_on_later(
    tmp_path: Path, number: signal.Signals
) -> None:
    bench = Bench(tmp_path, FAKE_STEP_S="0.02")
    with bench.sweeping() as process:
        bench.wait_until(lambda: bench.journal().count("stage_attempted") == 2, "the second stage")
        rows = bench.rows()
        kill(process, number)
        told = process.stdout.read() if process.stdout else ""
        assert process.returncode == 130, told
    assert "interrupted; 1 of 4 rows" in told
    assert len(rows) == 1
    assert bench.rows() == rows
    assert bench.failures() == []
    bench.nothing_left(1)
    bench.sweep()
    assert len(bench.rows()) == 4
    assert bench.rows()[0] == rows[0]


def test_a_second_sweep_at_the_same_time_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAKE_START_S="5")
    with bench.sweeping() as process:
        bench.wait_until(lambda: "start_attempted" in bench.journal(), "the first sweep")
        second = bench.sweep()
        assert second.returncode == 2
        assert "another sweep is running there" in second.stderr
        kill(process)
    bench.nothing_left()
    assert bench.sweep().returncode in {0, 1}, "the lock of a killed sweep is not stale"


def test_a_start_without_progress_is_a_timeout_judged_by_the_log(tmp_path: Path) -> None:
    plan = with_limits(PLAN, {"ready_s": 30, "start_stall_s": 0.7, "stage_stall_s": 10, "stop_s": 3})
    bench = Bench(tmp_path, plan, FAKE_HANG_START="1", FAKE_ONLY_IF="ngram")
    done = bench.sweep()
    assert len(bench.rows()) == 2, done.stdout
    (failure,) = bench.failures()
    assert failure["category"] == "timeout"
    assert "start_stall_s = 0.7 s" in failure["cause"]
    bench.nothing_left(1)


def test_a_slow_start_that_makes_progress_is_no_stall(tmp_path: Path) -> None:
    plan = with_limits(PLAN, {"ready_s": 30, "start_stall_s": 0.7, "stage_stall_s": 10, "stop_s": 3})
    bench = Bench(tmp_path, plan, FAKE_START_S="1.6")
    bench.sweep()
    assert len(bench.rows()) == 4


def test_a_stage_in_which_no_token_comes_any_more_is_a_timeout(tmp_path: Path) -> None:
    plan = with_limits(PLAN, {"ready_s": 30, "start_stall_s": 10, "stage_stall_s": 1, "stop_s": 3})
    bench = Bench(tmp_path, plan, FAKE_HANG_AFTER_TOKENS="150", FAKE_ONLY_IF="ngram")
    done = bench.sweep()
    assert len(bench.rows()) >= 2, done.stdout
    (failure,) = bench.failures()
    assert (failure["category"], failure["phase"]) == ("timeout", "serving")
    assert "no new token" in failure["cause"]
    bench.nothing_left(1)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"FAKE_FAIL_REQUESTS": "7"}, "request_failed"),
        ({"FAKE_COUNT_WRONG": "1"}, "token_mismatch"),
        ({"FAKE_RESET_AFTER_TOKENS": "400"}, "counter_reset"),
        ({"FAKE_DROP_SERIES": "vllm:inter_token_latency_seconds"}, "missing_series"),
    ],
)
def test_a_broken_promise_of_the_engine_marks_the_row_and_keeps_it(
    tmp_path: Path, fault: dict[str, str], check: str
) -> None:
    plan = PLAN.replace("speculation: [off, ngram-4]", "speculation: [off]").replace("{1: 2, 4: 8}", "{4: 16}")
    bench = Bench(tmp_path, plan, **fault)
    done = bench.sweep()
    (row,) = bench.rows()
    assert check in row["checks"].split(), done.stdout
    assert done.returncode == 1
    if check == "counter_reset":
        assert row["system_throughput_tok_s"] == ""
    if check == "missing_series":
        assert "/metrics lacks vllm:inter_token_latency_seconds" in done.stdout
        assert row["tpot_mean_s"] == ""
        assert row["system_throughput_tok_s"] != ""


def test_an_engine_that_answers_less_than_asked_is_not_ready(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAKE_ANSWER="short")
    bench.sweep()
    assert bench.rows() == []
    assert {(one["category"], one["phase"]) for one in bench.failures()} == {("environment", "first_request")}


def test_an_engine_of_another_version_is_not_measured(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAKE_VLLM_VERSION="0.28.1")
    bench.sweep()
    assert bench.rows() == []
    assert bench.failures()[0]["cause"] == "the engine is version 0.28.1, the plan asks for 0.27.0"


def test_an_engine_without_tokenizer_route_is_measured_all_the_same(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAKE_NO_TOKENIZE="1")
    bench.sweep()
    assert len(bench.rows()) == 4


def test_an_engine_that_ignores_the_stop_signal_is_killed(tmp_path: Path) -> None:
    plan = with_limits(PLAN, {"ready_s": 30, "start_stall_s": 10, "stage_stall_s": 10, "stop_s": 0.3})
    bench = Bench(tmp_path, plan, FAKE_IGNORE_TERM="1")
    bench.sweep()
    assert len(bench.rows()) == 4
    bench.nothing_left(1)


def test_a_folder_that_cannot_be_written_is_refused_before_anything_starts(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (tmp_path / "data").write_text("a file, not a folder")
    done = bench.sweep()
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "--out" in done.stderr


def test_another_plan_or_another_host_does_not_go_into_a_campaign(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.sweep()
    rows = bench.rows()
    bench.plan.write_text(PLAN + "# changed\n")
    done = bench.sweep()
    assert (done.returncode, "begun with another plan" in done.stderr) == (2, True)
    bench.plan.write_text(PLAN)
    host = bench.campaign / "host.json"
    host.write_text(json.dumps(json.loads(host.read_text()) | {"host_id": "00000000"}))
    done = bench.sweep()
    assert (done.returncode, "measured on another host" in done.stderr) == (2, True)
    assert bench.rows() == rows


def test_an_engine_that_turns_out_to_be_of_another_provenance_adds_no_row(tmp_path: Path) -> None:
    """The embedded engine may have been behind the same port, or command, before."""
    bench = Bench(tmp_path)
    bench.sweep()
    table = bench.campaign / "rows.csv"
    table.write_text("".join(table.read_text().replace(",measured,2", ",emulated,2").splitlines(keepends=True)[:-1]))
    rows = bench.rows()
    assert {row["provenance"] for row in rows} == {"emulated"}
    done = bench.sweep()
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"{bench.campaign}: its rows are emulated, those of this sweep would be measured" in done.stderr
    assert bench.rows() == rows
    assert bench.left() == []


def test_a_variable_that_is_not_set_is_named_before_anything_starts(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    del bench.environment["MODEL"]
    done = bench.sweep()
    assert done.returncode == 2
    assert "${MODEL} is not set; export MODEL before the sweep" in done.stderr
    assert not bench.campaign.exists()


def test_a_running_engine_is_measured_and_left_running(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(VLLM), "serve", str(tmp_path), "--port", "0", "--served-model-name", "tiny"],
        stdout=subprocess.PIPE,
        text=True,
    ) as engine:
        try:
            assert engine.stdout is not None
            line = next(one for one in engine.stdout if "Starting vLLM server on" in one)
            url = line.split("Starting vLLM server on ")[1].strip()
            plan = PLAN.replace("  kind: process\n", f"  kind: url\n  url: {url}\n")
            plan = plan.replace("speculation: [off, ngram-4]", "speculation: [off]").replace(
                "max_model_len: 2048, ", ""
            )
            bench = Bench(tmp_path, plan)
            done = bench.sweep()
            assert len(bench.rows()) == 2, done.stdout + done.stderr
            assert {row["engine_kind"] for row in bench.rows()} == {"url"}
            other = tmp_path / "other"
            other.mkdir()
            wrong = Bench(other, plan.replace("max_num_seqs: 16", "max_num_seqs: 16, max_model_len: 999"))
            wrong.sweep()
            assert "the plan asks for max_model_len 999" in wrong.failures()[0]["cause"]
            assert wrong.failures()[0]["retryable"] == "true"
            third = tmp_path / "third"
            third.mkdir()
            wrong = Bench(third, plan.replace("max_num_seqs: 16", "max_num_seqs: 16, kv_cache_dtype: fp8_e5m2"))
            wrong.sweep()
            assert wrong.rows() == []
            assert wrong.failures()[0]["cause"] == "the engine's KV cache dtype is auto, the plan says fp8_e5m2"
            assert engine.poll() is None
        finally:
            engine.terminate()
            engine.communicate(timeout=10)  # its last words need a reader


def test_a_plan_of_several_configurations_does_not_fit_one_running_engine(tmp_path: Path) -> None:
    plan = PLAN.replace("  kind: process\n", "  kind: url\n  url: http://127.0.0.1:9\n")
    done = Bench(tmp_path, plan).sweep()
    assert done.returncode == 2
    assert "the plan has 2 configurations" in done.stderr


def test_repeats_are_engine_starts_of_their_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path, PLAN + "repeats: {count: 2, order: interleaved}\n")
    bench.sweep()
    assert [(row["speculation"], row["repeat"]) for row in bench.rows()][::2] == [
        ("off", "1"),
        ("ngram", "1"),
        ("off", "2"),
        ("ngram", "2"),
    ]
    assert len({row["row_id"] for row in bench.rows()}) == 8
    assert timeless(bench.rows())[0] | {"repeat": "", "row_id": ""} == timeless(bench.rows())[4] | {
        "repeat": "",
        "row_id": "",
    }


def test_a_sweep_loads_neither_pandas_nor_plotly() -> None:
    code = (
        "import sys, collector.cli as c, collector.measure.sweep; c.parser(); "
        "print([m for m in ('pandas', 'plotly', 'jinja2', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
