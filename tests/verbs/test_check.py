"""`collector check` on a campaign that was kept without its evidence."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from collector.cli import main

FOLLOW_UP = Path(__file__).parents[2] / "data" / "follow-up"


DUAL = FOLLOW_UP.with_name("dual-3090")


def check(folder: Path, verb: str = "check") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "collector.cli", verb, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_evidence_that_was_left_out_is_one_problem_with_its_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "follow-up"
    shutil.copytree(FOLLOW_UP, folder, ignore=shutil.ignore_patterns("raw"))
    done = check(folder)
    assert done.returncode == 1
    lost, verdict = done.stdout.splitlines()
    assert lost.startswith(f"{folder / 'raw'}: not there, so that 252 rows cannot be held against their evidence; ")
    assert verdict == f"{folder}: 1 problem; 252 rows (0 with failed checks), 0 failures"


def test_evidence_of_which_a_part_is_lost_is_one_problem_that_names_the_first_file(tmp_path: Path) -> None:
    folder = tmp_path / "dual-3090"
    shutil.copytree(DUAL, folder)
    stages = sorted((folder / "raw").glob("*-stage.json.gz"))
    for one in stages[:3]:
        one.unlink()
    stages[3].with_name(stages[3].name.replace("stage.json", "before.prom")).unlink()
    done = check(folder)
    lost, verdict = done.stdout.splitlines()
    assert done.returncode == 1
    assert lost.startswith(f"{folder / 'raw'}: that of 4 of {len(stages)} rows is missing (the first: {folder}/raw/")
    assert "a sweep of the campaign's plan into another folder" in lost
    assert verdict.startswith(f"{folder}: 1 problem; ")
    again = check(folder, "recompute")
    assert again.returncode == 2
    assert again.stderr == f"collector: {lost}\n"
    assert "Errno" not in again.stderr


def test_a_descriptor_or_a_plan_that_is_none_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    folder = tmp_path / "schedule"
    shutil.copytree(DUAL.with_name("schedule"), folder)
    (folder / "datapackage.json").write_text("[]", encoding="utf-8")
    (folder / "plan.yaml").unlink()
    done = check(folder)
    assert done.returncode == 1
    assert "datapackage.json: does not describe the tables of this version" in done.stdout
    assert "plan.yaml: cannot be read: No such file or directory; restore the campaign's plan" in done.stdout


def test_of_several_campaigns_each_is_checked_and_one_that_is_not_there_ends_with_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(tmp_path / "nothing"), str(DUAL)]) == 2
    told = capsys.readouterr()
    assert f"{DUAL}: valid; " in told.out
    assert "nothing: no campaign there" in told.err
