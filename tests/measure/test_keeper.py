"""The keeper of an engine process: nothing that came from the engine outlives it, no secret reaches the log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.measure.sweeping import MARK, Bench


def _keeper(bench: Bench, script: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "collector.measure.keeper", str(bench.folder / "log"), "--", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {MARK: bench.mark} | environment,
        start_new_session=True,
    )


def _exit_code(keeper: subprocess.Popen[str]) -> int:
    assert keeper.stdout is not None
    messages = [json.loads(line) for line in keeper.stdout]
    keeper.stdout.close()
    if keeper.stdin:
        keeper.stdin.close()
    keeper.wait(timeout=10)
    return int(messages[-1]["exit"])


def test_the_exit_code_is_told(tmp_path: Path) -> None:
    assert _exit_code(_keeper(Bench(tmp_path), "exit 7")) == 7


def test_a_program_that_is_not_there_is_an_end_with_a_line_in_the_log(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "collector.measure.keeper", str(tmp_path / "log"), "--", "/no/such/program"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True)
    assert json.loads(done.stdout) == {"exit": 127}
    assert "cannot start /no/such/program" in (tmp_path / "log").read_text()


def test_workers_that_left_the_group_end_with_the_engine(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    keeper = _keeper(bench, "setsid sh -c 'trap \"\" TERM; sleep 60 & setsid sleep 60' & sleep 0.3; exit 3")
    assert _exit_code(keeper) == 3
    assert bench.left() == []


def test_a_stop_waits_for_the_engine_and_then_kills_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    keeper = _keeper(bench, "trap '' TERM; echo up; while true; do sleep 0.1; done")
    bench.wait_until(lambda: "up" in (tmp_path / "log").read_text() if (tmp_path / "log").exists() else False, "up")
    began = time.monotonic()
    assert keeper.stdin is not None
    keeper.stdin.write("stop 0.5\n")
    keeper.stdin.flush()
    assert _exit_code(keeper) == -9
    assert 0.4 < time.monotonic() - began < 8
    assert bench.left() == []


def test_the_engine_ends_when_collector_is_gone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    keeper = _keeper(bench, "sleep 60 & sleep 60")
    bench.wait_until(lambda: len(bench.left()) >= 3, "the engine")
    assert keeper.stdin is not None
    keeper.stdin.close()
    assert keeper.wait(timeout=10) == 0
    assert keeper.stdout is not None
    keeper.stdout.close()
    assert bench.left() == []


def test_the_engine_ends_when_collector_goes_while_it_waits_for_a_stop(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    keeper = _keeper(bench, "trap '' TERM; echo up; while true; do sleep 0.1; done")
    bench.wait_until(lambda: "up" in (tmp_path / "log").read_text() if (tmp_path / "log").exists() else False, "up")
    assert keeper.stdin is not None
    keeper.stdin.write("stop 60\n")
    keeper.stdin.close()
    _close(keeper)
    assert bench.left() == []


def test_progress_that_only_returns_the_carriage_reaches_the_log(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    keeper = _keeper(bench, r"printf '10%%\r'; sleep 5")
    log = tmp_path / "log"
    bench.wait_until(lambda: log.exists() and log.read_text() == "10%\n", "the progress", seconds=3)
    keeper.terminate()
    _close(keeper)


def test_the_engine_ends_when_the_keeper_itself_is_killed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    keeper = _keeper(bench, "exec sleep 60")
    bench.wait_until(lambda: len(bench.left()) >= 2, "the engine")
    keeper.kill()
    _close(keeper)
    bench.nothing_left()


def _close(keeper: subprocess.Popen[str]) -> None:
    keeper.wait(timeout=10)
    for stream in (keeper.stdin, keeper.stdout):
        if stream:
            stream.close()


def test_secrets_never_reach_the_log(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    token = "hf_" + "q7Zx" * 8
    keeper = _keeper(
        bench, 'echo "token is $HF_TOKEN and key $MY_API_KEY"; echo plain', HF_TOKEN=token, MY_API_KEY="swordfish-9"
    )
    assert _exit_code(keeper) == 0
    assert (tmp_path / "log").read_text() == "token is [hidden] and key [hidden]\nplain\n"
