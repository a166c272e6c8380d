"""What ends a sweep from outside: signals, a full or read-only disk, a clock that jumps, a host that goes down."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.measure.sweeping import PLAN, Bench, kill, timeless, with_limits

#: Longer than any test waits, so that only a kill ends an engine in time.
PATIENT = {"ready_s": 20, "start_stall_s": 20, "stage_stall_s": 20, "request_s": 20, "stop_s": 60}


def test_a_second_signal_kills_an_engine_that_takes_its_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path, with_limits(PLAN, PATIENT), FAKE_STEP_S="0.02", FAKE_IGNORE_TERM="1")
    with bench.sweeping() as process:
        bench.wait_until(lambda: bench.journal().count("stage_attempted") == 2, "the second stage", seconds=60)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        told = iter(process.stdout.readline, "")
        assert any("a second signal kills it" in line for line in told)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
        assert process.returncode == 130
        assert "interrupted; 1 of 4 rows" in process.stdout.read()
    bench.nothing_left(5)
    del bench.environment["FAKE_IGNORE_TERM"]
    assert bench.sweep().returncode in (0, 1)
    assert len(bench.rows()) == 4
    assert bench.failures() == []


def test_an_engine_has_its_time_to_end_however_long_it_ran(tmp_path: Path) -> None:
    bench = Bench(tmp_path, with_limits(PLAN, PATIENT | {"stop_s": 1.5}), FAKE_START_S="2")
    bench.sweep(timeout=120)
    ends = [json.loads(line)["exit_code"] for line in bench.journal().splitlines() if "engine_ended" in line]
    assert len(ends) == 2
    assert 137 not in ends, "killed, though it would have ended by itself"


def test_a_sweep_goes_on_when_nobody_reads_its_output(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with bench.sweeping() as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=120) in (0, 1)
    assert len(bench.rows()) == 4


@contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[Path]:
    """Mount a file system of that size, or skip where that is not allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


EMULATED = """\
plan: 1
campaign: small
engine: {kind: emulated, version: 0.27.0}
models: {muse-glimmer-30b: {path: org/muse}}
defaults: {model: muse-glimmer-30b, tensor_parallel: 2, max_model_len: 16384, max_num_seqs: 32}
matrix: {series: [a, b, c]}
stages: {concurrency: {1: 2, 4: 4}, prompt_tokens: 64, output_tokens: 8}
"""


@pytest.mark.parametrize("kib", [40, 64, 88, 112, 140])
def test_a_full_disk_ends_the_sweep_without_a_torn_line_and_room_lets_it_go_on(tmp_path: Path, kib: int) -> None:
    bench = Bench(tmp_path, EMULATED)
    with small_disk(tmp_path / "data", kib) as disk:
        full = bench.sweep()
        assert full.returncode == 2, full.stdout
        assert "No space left on device" in full.stderr
        assert_whole_lines(bench)
        rows = bench.rows()
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        again = bench.sweep()
        assert again.returncode in (0, 1), again.stderr
        assert bench.rows()[: len(rows)] == rows
        assert len(bench.rows()) == 6
        assert bench.failures() == []


def test_a_disk_that_fills_up_under_a_real_engine_ends_the_engine_and_keeps_the_rows(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAKE_STEP_S="0.01")
    with small_disk(tmp_path / "data", 4096) as disk, bench.sweeping() as process:
        bench.wait_until(lambda: len(bench.rows()) == 1, "a row", seconds=60)
        fill(disk)
        told = process.communicate(timeout=60)[0]
        assert process.returncode == 2, told
        assert "No space left on device: make room; 1 of 4 rows" in told
        assert_whole_lines(bench)
        assert bench.failures() == []
        (disk / "ballast").unlink()
        bench.nothing_left()
        assert bench.sweep(timeout=120).returncode in (0, 1)
        assert len(bench.rows()) == 4


def test_a_data_folder_that_becomes_read_only_ends_the_sweep_and_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAKE_STEP_S="0.01")
    with small_disk(tmp_path / "data", 4096) as disk, bench.sweeping() as process:
        bench.wait_until(lambda: len(bench.rows()) == 1, "a row", seconds=60)
        # As a file system does that found an error: no file is open for writing but the engine's log.
        subprocess.run(["mount", "-o", "bind", str(disk), str(disk)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(disk)], check=True)
        told = process.communicate(timeout=60)[0]
        assert process.returncode == 2, told
        assert "Read-only file system: make it writable; 1 of 4 rows" in told
        refused = bench.sweep()
        assert (refused.returncode, "cannot be written" in refused.stderr) == (2, True)
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
        assert bench.sweep(timeout=120).returncode in (0, 1)
        assert len(bench.rows()) == 4


def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path: Path) -> None:
    bench = Bench(tmp_path, EMULATED)
    done = subprocess.run(
        bench.command(),
        env=bench.environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000)),
    )
    assert done.returncode == 2, done.stdout
    assert "cannot be written: [Errno 27] File too large" in done.stderr
    assert_whole_lines(bench)
    assert bench.sweep().returncode in (0, 1)
    assert len(bench.rows()) == 6


def fill(disk: Path) -> None:
    descriptor = os.open(disk / "ballast", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(descriptor, bytes(4096)):
            pass
    os.close(descriptor)


def assert_whole_lines(bench: Bench) -> None:
    for name in ("rows.csv", "positions.csv", "failures.csv", "journal.jsonl"):
        path = bench.campaign / name
        content = path.read_bytes() if path.exists() else b""
        assert not content or content.endswith(b"\n"), name


def test_a_host_that_goes_down_twice_in_a_configuration_leaves_it_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAKE_START_S="3", FAKE_ONLY_IF="ngram")
    for attempt in (1, 2):
        with bench.sweeping() as process:
            starts = 2 if attempt == 1 else 3
            bench.wait_until(started(bench, starts), "the start", seconds=60)
            bench.wait_until(lambda: "model" in newest_log(bench), "a line of the log")
            kill(process)
        bench.nothing_left()
        reboot(bench)
    told = bench.sweep()
    assert told.returncode == 1
    assert "left out, the host went down in 2 attempts of it (limits.host_down_attempts)" in told.stdout
    assert [(one["category"], one["attempt"], one["row_id"]) for one in bench.failures()] == [
        ("host_down", "1", ""),
        ("host_down", "2", ""),
    ]
    assert all("the log ends with: " in one["cause"] for one in bench.failures())
    assert all((bench.campaign / one["log"]).is_file() for one in bench.failures())
    assert len(bench.rows()) == 2, "the other configuration"
    bench.sweep("--retry-failed")
    assert len(bench.rows()) == 4


def test_a_host_that_goes_down_in_a_stage_is_told_with_the_cell_and_measured_again(tmp_path: Path) -> None:
    whole = Bench(folder(tmp_path, "whole"))
    whole.sweep()
    bench = Bench(folder(tmp_path, "down"), FAKE_STEP_S="0.02")
    with bench.sweeping() as process:
        bench.wait_until(lambda: bench.journal().count("stage_attempted") == 2, "the second stage", seconds=60)
        kill(process)
    bench.nothing_left()
    reboot(bench)
    bench.sweep(FAKE_STEP_S="0")
    (down,) = bench.failures()
    assert (down["category"], down["phase"], down["retryable"]) == ("host_down", "serving", "true")
    assert down["row_id"] == bench.rows()[1]["row_id"]
    assert timeless(bench.rows()) == timeless(whole.rows())


def test_another_boot_while_nothing_was_under_way_is_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.sweep()
    reboot(bench)
    bench.sweep()
    assert bench.failures() == []


def test_a_reboot_after_an_interrupted_sweep_is_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAKE_STEP_S="0.02")
    with bench.sweeping() as process:
        bench.wait_until(lambda: "stage_attempted" in bench.journal(), "a stage", seconds=60)
        kill(process, signal.SIGTERM)
    reboot(bench)
    bench.sweep()
    assert bench.failures() == []
    assert len(bench.rows()) == 4


def folder(parent: Path, name: str) -> Path:
    (made := parent / name).mkdir()
    return made


def started(bench: Bench, times: int) -> Callable[[], bool]:
    return lambda: bench.journal().count("start_attempted") == times


def newest_log(bench: Bench) -> str:
    """Return the log of the last start."""
    starts = [json.loads(line) for line in bench.journal().splitlines() if "start_attempted" in line]
    path = bench.campaign / "logs" / "{configuration_id}-r{repeat}-a{attempt}.log".format(**starts[-1])
    return path.read_text() if path.exists() else ""


def reboot(bench: Bench) -> None:
    """Make the journal one of an earlier boot."""
    path = bench.campaign / "journal.jsonl"
    path.write_text(re.sub(r'"boot_id": "[^"]*"', f'"boot_id": "{len(bench.failures())}-earlier"', path.read_text()))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[]", b"not json", b""])
def test_odd_bytes_in_host_json_are_named_and_nothing_is_changed(tmp_path: Path, content: bytes) -> None:
    bench = Bench(tmp_path, EMULATED)
    bench.sweep()
    path = bench.campaign / "host.json"
    path.write_bytes(content)
    done = bench.sweep()
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "host.json: " in done.stderr
    assert path.read_bytes() == content


@pytest.mark.parametrize("line", [b"\xff\xfe", b"[]", b"7", b"not json", b"{}", b'{"event": "start_attempted"}'])
def test_odd_bytes_in_the_journal_are_named_with_their_line(tmp_path: Path, line: bytes) -> None:
    bench = Bench(tmp_path, EMULATED)
    bench.sweep()
    path = bench.campaign / "journal.jsonl"
    path.write_bytes(line + b"\n" + path.read_bytes())
    done = bench.sweep()
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "journal.jsonl, line 1: not an event of a sweep; remove the line" in done.stderr


def test_a_marked_row_is_kept_beside_the_table_and_measured_once_more(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FAKE_FAIL_REQUESTS="7")
    bench.sweep()
    marked = [row for row in bench.rows() if "request_failed" in row["checks"]]
    assert marked
    del bench.environment["FAKE_FAIL_REQUESTS"]
    done = bench.sweep("--remeasure", "marked")
    assert "measured once more" in done.stdout
    assert len(bench.rows()) == 4
    assert not any("request_failed" in row["checks"] for row in bench.rows())
    for row in marked:
        (kept,) = bench.campaign.glob(f"replaced/{row['row_id']}-*")
        assert row["measured_at"] in (kept / "rows.csv").read_text()
        assert len(list(kept.glob(f"{row['row_id']}-*.gz"))) == 4
    check = subprocess.run([sys.executable, "-m", "collector.cli", "check", str(bench.campaign)], check=False)
    assert check.returncode == 0


def test_check_holds_the_host_and_the_plan_against_the_rows(tmp_path: Path) -> None:
    bench = Bench(tmp_path, EMULATED)
    bench.sweep()
    host = bench.campaign / "host.json"
    host.write_text(json.dumps(json.loads(host.read_text()) | {"host_id": "other"}))
    (bench.campaign / "plan.yaml").write_text(EMULATED + "# changed\n")
    command = [sys.executable, "-m", "collector.cli", "check", str(bench.campaign)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "6 rows come from another plan than plan.yaml" in told.stdout
    assert "6 rows come from another host than host.json" in told.stdout


def test_a_stage_whose_prompts_do_not_fit_costs_that_stage_alone(tmp_path: Path) -> None:
    plan = EMULATED.replace("[a, b, c]", "[a]").replace("max_model_len: 16384", "max_model_len: 80")
    plan = plan.replace(
        "stages: {concurrency: {1: 2, 4: 4}, prompt_tokens: 64, output_tokens: 8}",
        "stages:\n  - {concurrency: {1: 2, 2: 2}, prompt_set: general/english, output_tokens: 70}\n"
        "  - {concurrency: {1: 2}, prompt_tokens: 64, output_tokens: 8}",
    )
    bench = Bench(tmp_path, plan)
    done = bench.sweep()
    assert done.returncode == 1, done.stderr
    assert [row["prompt_set"] for row in bench.rows()] == ["synthetic"], done.stdout
    refused = bench.failures()
    assert [(one["category"], one["phase"]) for one in refused] == [("max_model_len", "ready")] * 2
    assert len({one["failure_id"] for one in refused} | {one["row_id"] for one in refused}) == 4
    again = bench.sweep()
    assert "left out, 2 stages that it refuses" in again.stdout
    assert len(bench.failures()) == 2
