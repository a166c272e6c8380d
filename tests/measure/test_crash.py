"""A sweep killed with SIGKILL at seeded points and resumed: no row twice, none lost, none torn."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from tests.measure.sweeping import Bench, kill, timeless

POINTS = 20
#: Events of the journal of an uninterrupted sweep of the bench's plan.
EVENTS = 17


def test_a_sweep_killed_at_twenty_seeded_points_ends_with_the_rows_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = Bench(_folder(tmp_path, "whole"))
    whole.sweep()
    assert len(whole.rows()) == 4
    chance = random.Random(20260820)
    killed, number = 0, 0
    while killed < POINTS:
        number += 1
        bench = Bench(_folder(tmp_path, f"killed-{number}"))
        while killed < POINTS and len(bench.rows()) < 4:
            killed += _kill_once(bench, chance)
            _assert_nothing_torn(bench)
        bench.sweep()
        assert timeless(bench.rows()) == timeless(whole.rows())
        assert bench.failures() == []
        _assert_valid(bench)
        bench.nothing_left()


def _folder(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    return folder


def _kill_once(bench: Bench, chance: random.Random) -> int:
    """Kill a sweep a moment after a seeded number of further journal events; return whether it was still running."""
    goal = bench.journal().count("\n") + chance.randint(1, EVENTS - 2)
    moment = chance.uniform(0, 0.15)
    with bench.sweeping() as process:
        deadline = time.monotonic() + 30
        while process.poll() is None and bench.journal().count("\n") < goal and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(moment)
        running = process.poll() is None
        kill(process)
    bench.nothing_left()
    return running


def _assert_nothing_torn(bench: Bench) -> None:
    """What a killed sweep leaves is complete lines, each row once."""
    for name in ("rows.csv", "positions.csv", "failures.csv"):
        path = bench.campaign / name
        assert not path.exists() or path.read_text().endswith("\n")
    ids = [row["row_id"] for row in bench.rows()]
    assert len(ids) == len(set(ids))


def _assert_valid(bench: Bench) -> None:
    command = [sys.executable, "-m", "collector.cli", "check", str(bench.campaign)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
