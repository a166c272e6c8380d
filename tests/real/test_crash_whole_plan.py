"""The whole plan dual-3090 on the embedded engine, killed with SIGKILL at ten seeded writes and resumed each time.

It needs no real engine; it stands here because it takes minutes. The plan of three configurations, with its 200
points, is in tests/measure/test_crash_emulated.py.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from collector.measure.campaign import problems
from tests.measure.crashing import DONE, left, sweep

pytestmark = pytest.mark.real

PLAN = Path(__file__).resolve().parents[2] / "plans" / "dual-3090.yaml"
POINTS = 10
SEED = 20260821


def test_the_whole_plan_killed_at_ten_writes_ends_with_the_bytes_of_an_uninterrupted_sweep(tmp_path: Path) -> None:
    code, writes = sweep(PLAN, tmp_path / "whole")
    assert code in DONE
    wanted = left(tmp_path / "whole" / "dual-3090")
    assert wanted.rows.count(b"\n") > 90
    chance = random.Random(SEED)
    for point in range(POINTS):
        out, at = tmp_path / str(point), chance.randint(1, writes)
        assert sweep(PLAN, out, kill_at=at, torn=chance.random())[0] == -9
        assert sweep(PLAN, out)[0] in DONE
        assert left(out / "dual-3090") == wanted, f"killed at write {at} of {writes}"
        assert list(problems(out / "dual-3090")) == []
