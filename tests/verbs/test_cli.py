"""The command line as such: interrupted, unread, without a place to print, in an encoding that lacks a sign."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLAN = str(Path(__file__).parents[2] / "plans" / "dual-3090.yaml")
COLLECTOR = [sys.executable, "-m", "collector.cli"]


def test_ctrl_c_while_a_command_is_loaded_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    from collector import cli

    def interrupted(name: str) -> None:
        raise KeyboardInterrupt(name)

    monkeypatch.setattr(cli, "import_module", interrupted)
    assert cli.main(["plan", PLAN]) == 130


def test_a_reader_that_has_enough_ends_the_program_quietly_and_not_with_success() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COLLECTOR, "plan", PLAN], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_behind_standard_output_is_told() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run([*COLLECTOR, "plan", PLAN], stdout=full, stderr=subprocess.PIPE, check=False, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "collector: standard output: No space left on device; send it elsewhere\n",
    )


def test_a_terminal_without_the_signs_gets_them_written_out() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COLLECTOR, "plan", PLAN], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\xb7" in done.stdout


def test_a_closed_standard_output_is_no_error() -> None:
    command = f'"{sys.executable}" -m collector.cli plan "{PLAN}" >&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
