"""A sweep on the embedded engine killed with SIGKILL at 200 seeded writes, each resumed to its end."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from collector.measure.campaign import problems, read_tables
from collector.measure.virtual import VirtualClock
from tests.measure.crashing import DONE, TABLES, left, plan_in, sweep

POINTS = 200
REBOOTS = 20
SEED = 20260820


class Whole:
    """What an uninterrupted sweep leaves, and how many writes it takes."""

    def __init__(self, folder: Path) -> None:
        self.plan = plan_in(folder)
        code, self.writes = sweep(self.plan, folder / "data")
        assert code in DONE
        self.tables = left(folder / "data" / "crashed")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    made = Whole(tmp_path_factory.mktemp("whole"))
    rows, failures, positions = read_tables(made.plan.parent / "data" / "crashed")
    assert (len(rows), len(failures)) == (4, 1)
    assert positions
    return made


def test_a_sweep_killed_at_any_of_200_writes_ends_with_the_bytes_of_an_uninterrupted_one(
    whole: Whole, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    for point in range(POINTS):
        out = tmp_path / str(point)
        at, torn = chance.randint(1, whole.writes), chance.choice((0.0, 0.5, 1.0))
        assert sweep(whole.plan, out, kill_at=at, torn=torn)[0] == -9
        assert_nothing_but_the_beginning(out / "crashed", whole)
        assert sweep(whole.plan, out)[0] in DONE
        assert left(out / "crashed") == whole.tables, f"killed at write {at}, {torn} of it on the disk"


def test_a_sweep_killed_again_and_again_gets_to_its_end(whole: Whole, tmp_path: Path) -> None:
    chance = random.Random(SEED + 1)
    for campaign in range(5):
        out, killed = tmp_path / str(campaign), 0
        while sweep(whole.plan, out, kill_at=chance.randint(1, whole.writes // 3), torn=chance.random())[0] == -9:
            killed += 1
        assert killed > 1
        assert left(out / "crashed") == whole.tables
        assert list(problems(out / "crashed")) == []


def test_a_host_that_went_down_adds_its_line_and_changes_no_row(whole: Whole, tmp_path: Path) -> None:
    chance, down = random.Random(SEED + 2), 0
    for point in range(REBOOTS):
        out = tmp_path / str(point)
        assert sweep(whole.plan, out, kill_at=chance.randint(1, whole.writes))[0] == -9
        under_way = reboot(out / "crashed")
        assert sweep(whole.plan, out)[0] in DONE
        after = left(out / "crashed")
        assert (after.rows, after.positions) == (whole.tables.rows, whole.tables.positions)
        _, failures, _ = read_tables(out / "crashed")
        lines = [one for one in failures if one.category == "host_down"]
        assert [(one.configuration_id, one.attempt) for one in lines] == under_way
        assert [one.category for one in failures if one.category != "host_down"] == ["oom_weights"]
        down += len(lines)
    assert 0 < down < REBOOTS, "both a reboot in an attempt and one between attempts must be among them"


def reboot(campaign: Path) -> list[tuple[str, int]]:
    """Make the journal one of an earlier boot; return configuration and number of the attempt under way."""
    path = campaign / "journal.jsonl"
    if not path.exists():
        return []
    text = path.read_text()
    path.write_text(re.sub(r'"boot_id": "emulated"', '"boot_id": "an-earlier-one"', text))
    going: list[tuple[str, int]] = []
    for line in text[: text.rfind("\n") + 1].splitlines():
        event = json.loads(line)
        if event["event"] == "start_attempted":
            going = [(event["configuration_id"], event["attempt"])]
        elif event["event"] in ("failed", "engine_ended"):
            going = []
    return going


def assert_nothing_but_the_beginning(campaign: Path, whole: Whole) -> None:
    """What a killed sweep leaves is the beginning of what a whole one leaves; at most its last line is cut."""
    for name in TABLES:
        path = campaign / name
        found = path.read_bytes() if path.exists() else b""
        assert getattr(whole.tables, name.partition(".")[0]).startswith(found), name


def test_a_wall_clock_that_jumps_changes_the_stamps_and_no_figure(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumps, usual = random.Random(SEED), VirtualClock.utc_now
    monkeypatch.setattr(VirtualClock, "utc_now", lambda clock: usual(clock) + timedelta(days=jumps.randint(-400, 400)))
    assert sweep(whole.plan, tmp_path)[0] in DONE
    tables = read_tables(tmp_path / "crashed"), read_tables(whole.plan.parent / "data" / "crashed")
    rows, failures, positions = tables[0]
    assert len({row.measured_at[:10] for row in rows}) > 1, "the clock did jump"
    assert [replace(row, measured_at="") for row in rows] == [replace(row, measured_at="") for row in tables[1][0]]
    assert [replace(one, failed_at="") for one in failures] == [replace(one, failed_at="") for one in tables[1][1]]
    assert positions == tables[1][2]
