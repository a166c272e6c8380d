"""`collector check` on a campaign that was kept without its evidence."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FOLLOW_UP = Path(__file__).parents[2] / "data" / "follow-up"


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "collector.cli", "check", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_evidence_that_was_left_out_is_one_problem_with_its_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "follow-up"
    shutil.copytree(FOLLOW_UP, folder, ignore=shutil.ignore_patterns("raw"))
    done = check(folder)
    assert done.returncode == 1
    lost, verdict = done.stdout.splitlines()
    assert lost.startswith(f"{folder / 'raw'}: not there, so that 252 rows cannot be held against their evidence; ")
    assert verdict == f"{folder}: 1 problems; 252 rows (0 with failed checks), 0 failures"


def test_a_piece_of_evidence_that_is_lost_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "follow-up"
    shutil.copytree(FOLLOW_UP, folder)
    (folder / "raw").mkdir(exist_ok=True)
    for one in (folder / "raw").iterdir():
        one.unlink()
    assert len(check(folder).stdout.splitlines()) == 252 + 1
