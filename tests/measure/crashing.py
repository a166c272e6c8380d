"""Sweeps on the embedded engine that die by SIGKILL at a chosen write, and what they leave.

A sweep runs in a forked process: it is a real process that a real SIGKILL ends, without a second for its imports.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from collector import cli
from collector.measure import files

TABLES = ("rows.csv", "positions.csv", "failures.csv")
DONE = (0, 1)

#: Three configurations: one that has rows, one that fails at its start, one that speculates (and so has positions).
PLAN = """\
plan: 1
campaign: crashed
engine: {kind: emulated, version: 0.27.0, profile: PROFILE}
models: {muse-glimmer-30b: {path: org/muse, drafter: org/muse-dflash}}
speculation: {dflash-15: {method: dflash, model: "{drafter}", num_speculative_tokens: 15}}
defaults: {model: muse-glimmer-30b, tensor_parallel: 2, max_model_len: 16384, max_num_seqs: 32}
extra: [{speculation: off}, {series: refused, speculation: off}, {speculation: dflash-15}]
stages: {concurrency: {1: 2, 4: 4}, prompt_tokens: 64, output_tokens: 8, warm_up: {rounds: 1, output_tokens: 2}}
"""
PROFILE = """\
{"extends": "dual-3090", "outcomes": [{"match": {"series": "refused"}, "faults": {"refuse": "CUDA out of memory."}}]}
"""


def plan_in(folder: Path) -> Path:
    """Write the plan of three configurations and return where."""
    (folder / "profile.json").write_text(PROFILE)
    path = folder / "plan.yaml"
    path.write_text(PLAN.replace("PROFILE", str(folder / "profile.json")))
    return path


class Counting:
    """Stands for the module `os` in collector.measure.files: counts what changes the disk, and acts at one of them."""

    def __init__(self, at: int, act: Callable[[int, bytes], None]) -> None:
        self.count, self._at, self._act = 0, at, act

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, descriptor: int, data: bytes) -> int:
        self._step(descriptor, data)
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self._step(descriptor, b"")
        os.fsync(descriptor)

    def _step(self, descriptor: int, data: bytes) -> None:
        self.count += 1
        if self.count == self._at:
            self._act(descriptor, data)


def sweep(plan: Path, out: Path, *, kill_at: int = 0, torn: float = 0.0) -> tuple[int, int]:
    """Sweep in a process of its own; kill it at its `kill_at`-th write, of which a share `torn` reaches the disk.

    Returns the exit code (minus the signal), and how many writes there were; those only where it was not killed.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os._exit(_swept(plan, out, writer, kill_at, torn))
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, int(said or 0)


def _swept(plan: Path, out: Path, writer: int, kill_at: int, torn: float) -> int:
    def die(descriptor: int, data: bytes) -> None:
        if data:
            os.write(descriptor, data[: round(len(data) * torn)])
        os.kill(os.getpid(), signal.SIGKILL)

    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        counting = Counting(kill_at, die)
        setattr(files, "os", counting)  # noqa: B010  # for this process alone
        code = cli.main(["sweep", str(plan), "--out", str(out), "--engine", "emulated"])
        os.write(writer, str(counting.count).encode())
    except BaseException:  # never back into the test runner
        return 70
    return code


def left(campaign: Path) -> SimpleNamespace:
    """Return the bytes of the three tables."""
    return SimpleNamespace(**{name.partition(".")[0]: (campaign / name).read_bytes() for name in TABLES})
