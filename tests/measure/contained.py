"""What the tests of containers share: a stand-in of the daemon, and a bench whose plan runs in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.cli import main
from tests.fakes.docker_daemon import Daemon
from tests.measure.sweeping import PLAN, Bench

IMAGE = "vllm/vllm-openai:v0.27.0"
DIGEST = "sha256:" + "5e" * 32
OURS = "  container: {gpus: none, volumes: []}\n"
DOCKER_PLAN = (
    PLAN.replace("kind: process", f"kind: docker\n  image: {IMAGE}")
    .replace("models:\n", f"{OURS}models:\n")
    .replace("matrix:\n  speculation: [off, ngram-4]", "extra: [{speculation: off}]")
)


@contextmanager
def daemon_in(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(socket=tmp_path / "docker.sock", images={IMAGE: DIGEST}) as one:
        yield one


def bench_of(tmp_path: Path, engine: Daemon, plan: str = DOCKER_PLAN, **environment: str) -> Bench:
    folder = tmp_path / "bench"
    folder.mkdir()
    return Bench(folder, plan, DOCKER_HOST=f"unix://{engine.socket}", **environment)


def swept(bench: Bench, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Sweep in this process, where constants can be made short."""
    for name, value in bench.environment.items():
        monkeypatch.setenv(name, value)
    return main(["sweep", str(bench.plan), "--out", str(bench.folder / "data"), *arguments])


def log_of(bench: Bench) -> str:
    return next(bench.campaign.glob("logs/*.log")).read_text()
