"""The whole plan dual-3090 on the embedded engine, killed with SIGKILL at ten seeded writes and resumed each time.

It needs no real engine; it stands here because it takes minutes. The plan of three configurations, with its 200
points, is in tests/measure/test_crash_emulated.py.
"""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from collector.measure.campaign import problems
from tests.measure.crashing import DONE, left, sweep

pytestmark = pytest.mark.real

PLAN = Path(__file__).resolve().parents[2] / "plans" / "dual-3090.yaml"
POINTS = 10
SEED = 20260821


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, SimpleNamespace]:
    """Return how many writes an uninterrupted sweep takes, and what it leaves."""
    out = tmp_path_factory.mktemp("whole")
    code, writes = sweep(PLAN, out)
    assert code in DONE
    found = left(out / "dual-3090")
    assert found.rows.count(b"\n") > 90
    return writes, found


@pytest.mark.parametrize("point", range(POINTS))
def test_the_whole_plan_killed_at_a_write_ends_with_the_bytes_of_an_uninterrupted_sweep(
    point: int, whole: tuple[int, SimpleNamespace], tmp_path: Path
) -> None:
    writes, wanted = whole
    chance = random.Random(SEED + point)
    at = chance.randint(1, writes)
    assert sweep(PLAN, tmp_path, kill_at=at, torn=chance.random())[0] == -9
    assert sweep(PLAN, tmp_path)[0] in DONE
    assert left(tmp_path / "dual-3090") == wanted, f"killed at write {at} of {writes}"
    assert list(problems(tmp_path / "dual-3090")) == []
