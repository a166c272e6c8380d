"""Runs `collector sweep` as a user does, against the stand-in of `vllm serve`, and looks at what it leaves."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.fakes import VLLM

MARK = "COLLECTOR_TEST_MARK"

PLAN = """\
plan: 1
campaign: small
about: A sweep on the stand-in.
engine:
  kind: process
  version: 0.27.0
  command: ["${PYTHON}", "${FAKE_VLLM}"]
models:
  tiny: {path: "${MODEL}"}
speculation:
  ngram-4: {method: ngram, num_speculative_tokens: 4}
defaults: {model: tiny, max_model_len: 2048, max_num_seqs: 16}
matrix:
  speculation: [off, ngram-4]
stages:
  concurrency: {1: 2, 4: 8}
  prompt_tokens: 60
  output_tokens: 24
  warm_up: {rounds: 1, output_tokens: 4}
limits: {ready_s: 20, start_stall_s: 10, stage_stall_s: 10, request_s: 20, stop_s: 5}
"""

#: Figures that do not depend on time: equal in an interrupted and an uninterrupted campaign.
TIMELESS = (
    "schema_version",
    "campaign",
    "row_id",
    "configuration_id",
    "repeat",
    "provenance",
    "collector_version",
    "plan_digest",
    "host_id",
    "engine_version",
    "speculation",
    "num_speculative_tokens",
    "concurrency",
    "requests",
    "prompt_set",
    "prompt_set_digest",
    "output_tokens",
    "requests_sent",
    "requests_done",
    "requests_failed",
    "generation_tokens",
    "kv_cache_tokens",
    "preemptions",
)


class Bench:
    """A folder with a plan, the environment of a sweep, and a mark that all its processes carry."""

    def __init__(self, folder: Path, plan: str = PLAN, **environment: str) -> None:
        self.folder = folder
        self.plan = folder / "plan.yaml"
        self.plan.write_text(plan)
        model = folder / "model"
        model.mkdir(exist_ok=True)
        self.mark = uuid.uuid4().hex
        self.environment = os.environ | {
            "PYTHON": sys.executable,
            "FAKE_VLLM": str(VLLM),
            "MODEL": str(model),
            MARK: self.mark,
            **environment,
        }

    @property
    def campaign(self) -> Path:
        return self.folder / "data" / "small"

    def command(self, *arguments: str) -> list[str]:
        out = str(self.folder / "data")
        return [sys.executable, "-m", "collector.cli", "sweep", str(self.plan), "--out", out, *arguments]

    def sweep(self, *arguments: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    @contextmanager
    def sweeping(self, **environment: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            self.command(),
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def table(self, name: str) -> list[dict[str, str]]:
        path = self.campaign / name
        if not path.exists():
            return []
        with path.open(newline="") as file:
            return list(csv.DictReader(file))

    def rows(self) -> list[dict[str, str]]:
        return self.table("rows.csv")

    def failures(self) -> list[dict[str, str]]:
        return self.table("failures.csv")

    def journal(self) -> str:
        path = self.campaign / "journal.jsonl"
        return path.read_text() if path.exists() else ""

    def left(self) -> list[int]:
        """Return the processes that still carry this bench's mark, and engine processes named in its logs.

        The real engine's workers rename themselves over their environment, but each log line gives its pid.
        """
        marked = {pid for pid in _processes() if f"{MARK}={self.mark}" in _environment(pid)}
        logs = "".join(one.read_text(errors="replace") for one in self.folder.glob("data/*/logs/*.log"))
        logged = {int(pid) for pid in re.findall(r"pid=(\d+)\)", logs)}
        return sorted(marked | {pid for pid in logged if "vllm" in name_of(pid).lower()})

    def wait_until(self, happened: Callable[[], bool], what: str, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}\n{self.journal()}"
            time.sleep(0.005)

    def nothing_left(self, seconds: float = 8) -> None:
        self.wait_until(lambda: not self.left(), f"no process left, still there: {self.left()}", seconds)


def faults(row: dict[str, str]) -> list[str]:
    """Return the failed checks but `client_bound`: the stand-in answers faster than a busy test machine asks."""
    return [name for name in row["checks"].split() if name != "client_bound"]


def timeless(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: row[name] for name in TIMELESS} for row in rows]


def kill(process: subprocess.Popen[str], number: signal.Signals = signal.SIGKILL) -> None:
    process.send_signal(number)
    process.wait(timeout=20)


def name_of(pid: int) -> str:
    """Return a process's name and command line, or an empty string where it is gone."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
        return f"{Path(f'/proc/{pid}/comm').read_text().strip()} {command}" if command else ""
    except OSError:
        return ""


def _processes() -> list[int]:
    return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


def with_limits(plan: str, limits: Mapping[str, float]) -> str:
    """Return the plan with other limits."""
    text = ", ".join(f"{name}: {value}" for name, value in limits.items())
    return plan[: plan.index("limits:")] + f"limits: {{{text}}}\n"
