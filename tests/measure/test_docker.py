"""Engines in containers, through the docker package and a stand-in of the daemon on a unix socket."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.measure.engines import containers, daemon
from tests.fakes import VLLM
from tests.fakes.docker_daemon import Daemon
from tests.measure.contained import DIGEST, DOCKER_PLAN, IMAGE, OURS, bench_of, daemon_in, log_of, swept
from tests.measure.sweeping import faults


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as one:
        yield one


# --- a start that goes well ---------------------------------------------------------------------------------------


def test_a_sweep_in_containers_leaves_rows_and_a_log_and_no_container(
    tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_of(tmp_path, engine)
    assert swept(bench, monkeypatch) in (0, 1)  # the stand-in may answer faster than a busy machine asks
    rows = bench.rows()
    assert [(row["concurrency"], row["engine_kind"], row["image"], faults(row)) for row in rows] == [
        ("1", "docker", IMAGE, []),
        ("4", "docker", IMAGE, []),
    ]
    assert {row["image_digest"] for row in rows} == {DIGEST}
    assert "Application startup complete." in log_of(bench)
    assert engine.containers == {}
    assert len(engine.every) == 1


def test_a_container_is_made_as_the_plan_says(tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    models, cache = tmp_path / "models", tmp_path / "cache"
    models.mkdir()
    wish = f"{{gpus: [0, GPU-1], shm_size: 2g, memory: 9g, volumes: ['{cache}:/home/me/.cache', 'named:/data:ro']}}"
    plan = DOCKER_PLAN.replace(OURS, f"  container: {wish}\n").replace('path: "${MODEL}"', f"path: {models}/m")
    (models / "m").mkdir()
    bench = bench_of(
        tmp_path, engine, plan.replace("version: 0.27.0", "version: 0.27.0\n  api_key_variable: KEY"), KEY="k" * 9
    )
    swept(bench, monkeypatch)
    asked = engine.every[0].asked
    host = asked["HostConfig"]
    assert host["PortBindings"] == {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}
    assert [(one["DeviceIDs"], one["Capabilities"]) for one in host["DeviceRequests"]] == [(["0", "GPU-1"], [["gpu"]])]
    assert (host["IpcMode"], host["ShmSize"], host["Memory"], host["MemorySwap"]) == (
        "private",
        2 << 30,
        9 << 30,
        9 << 30,
    )
    assert [(one["Type"], one["Source"], one["Target"], one["ReadOnly"]) for one in host["Mounts"]] == [
        ("bind", str(cache), "/home/me/.cache", False),
        ("volume", "named", "/data", True),
        ("bind", f"{models}/m", f"{models}/m", True),
    ]
    assert host.get("AutoRemove") in (None, False)
    assert cache.is_dir()
    assert asked["Entrypoint"] == [sys.executable]
    assert asked["Cmd"][:6] == [str(VLLM), "serve", f"{models}/m", "--host", "0.0.0.0", "--port"]
    assert "KEY=kkkkkkkkk" in asked["Env"]
    assert not any(one.startswith("PATH=") for one in asked["Env"])  # nothing of the host's environment
    assert {*asked["Labels"]} == {
        containers.TOOL,
        containers.FOLDER,
        containers.CONFIGURATION,
        containers.REPEAT,
        containers.ATTEMPT,
    }


def test_secrets_of_the_container_never_reach_its_stored_log(
    tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = DOCKER_PLAN.replace("version: 0.27.0", 'version: 0.27.0\n  environment: {HF_TOKEN: "${MY_TOKEN}"}')
    script = tmp_path / "tells.py"
    script.write_text("import os, sys\nprint('token', os.environ['HF_TOKEN'], flush=True)\nsys.exit(3)\n")
    bench = bench_of(tmp_path, engine, plan, MY_TOKEN="a-secret-of-mine", FAKE_VLLM=str(script))
    assert swept(bench, monkeypatch) == 1
    assert log_of(bench) == "token [hidden]\n"
    assert [(one["exit_code"], one["oom_killed"]) for one in bench.failures()] == [("3", "false")]


def test_an_image_is_pulled_with_its_progress_told(
    tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("collector.measure.engines.images.TELL_EVERY_S", 0.0)
    engine.images, engine.pulled = {}, {"digest": DIGEST}
    bench = bench_of(tmp_path, engine)
    swept(bench, monkeypatch)
    told = capsys.readouterr().out
    assert told.index(f"pulling {IMAGE}\n") < told.index("[1/1]")
    assert "1.00 of 4.00 GB" in told
    assert len(bench.rows()) == 2


# --- what fails ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "status", "words", "category", "fix"),
    [
        ("start", 500, "Bind for 127.0.0.1:8000 failed: port is already allocated", "port_in_use", "free it"),
        ("start", 500, "listen tcp4 127.0.0.1:8000: bind: address already in use", "port_in_use", "free it"),
        ("start", 500, 'could not select device driver "" with capabilities: [[gpu]]', "container", "toolkit"),
        ("start", 500, "nvidia-container-cli: nvml error: driver not loaded", "container", "nvidia-smi works"),
        ("start", 400, 'exec: "vllm": executable file not found in $PATH', "container", "see engine.command"),
        ("create", 400, "invalid mount: bind source path does not exist: /x", "container", "the daemon answers 400"),
        ("create", 500, "write /var/lib/docker/tmp: no space left on device", "container", "free disk space"),
        ("image", 500, "server error", "container", "the daemon answers 500: server error"),
    ],
)  # fmt: skip
def test_an_error_of_the_api_is_a_failure_with_its_cause_and_fix(
    tmp_path: Path,
    engine: Daemon,
    monkeypatch: pytest.MonkeyPatch,
    request_: str,
    status: int,
    words: str,
    category: str,
    fix: str,
) -> None:
    engine.refusals[request_] = (status, words)
    bench = bench_of(tmp_path, engine)
    assert swept(bench, monkeypatch) == 1
    (failure,) = bench.failures()
    assert (failure["category"], failure["phase"], failure["retryable"]) == (category, "launch", "true")
    assert words[-30:] in failure["cause"]
    assert fix in failure["cause"]
    assert engine.containers == {}


def test_what_was_mended_is_measured_when_it_is_asked_for_again(
    tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.refusals["start"] = (500, "port is already allocated")
    bench = bench_of(tmp_path, engine)
    assert swept(bench, monkeypatch) == 1
    engine.refusals.clear()
    swept(bench, monkeypatch, "--retry-failed")
    assert len(bench.rows()) == 2


def test_an_image_that_cannot_be_had_is_told_at_once_and_fails_its_configuration_alone(
    tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = DOCKER_PLAN.replace("[{speculation: off}]", "[{image: 'other:1'}, {speculation: off}]")
    bench = bench_of(tmp_path, engine, plan)
    assert swept(bench, monkeypatch) == 1
    told = capsys.readouterr().out
    assert told.index("cannot pull the image other:1: manifest unknown") < told.index("[1/2]")
    assert [(one["category"], one["retryable"]) for one in bench.failures()] == [("container", "true")]
    assert len(bench.rows()) == 2
    assert "pull" in engine.asked


def test_an_image_is_not_pulled_where_the_plan_says_never(
    tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.images = {}
    bench = bench_of(tmp_path, engine, DOCKER_PLAN.replace("gpus: none", "gpus: none, pull: never"))
    assert swept(bench, monkeypatch) == 1
    assert f"no such image: {IMAGE} is not on this host" in bench.failures()[0]["cause"]
    assert "pull" not in engine.asked


def test_a_daemon_that_does_not_answer_in_time_is_a_failure(
    tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "API_TIMEOUT_S", 1)
    engine.hangs.add("create")
    bench = bench_of(tmp_path, engine)
    assert swept(bench, monkeypatch) == 1
    engine.hangs.clear()
    (failure,) = bench.failures()
    assert failure["category"] == "container"
    assert "did not answer within 1 s" in failure["cause"]


def test_a_container_killed_for_its_memory_is_told_as_the_daemon_tells_it(
    tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "dies.py"
    script.write_text("import os, signal, time\ntime.sleep(0.3)\nos.kill(os.getpid(), signal.SIGKILL)\n")
    bench = bench_of(tmp_path, engine, FAKE_VLLM=str(script))
    create = engine.make
    monkeypatch.setattr(engine, "make", lambda *a: _killed_for_memory(create(*a)))
    assert swept(bench, monkeypatch) == 1
    (failure,) = bench.failures()
    assert (failure["category"], failure["exit_code"], failure["exit_signal"], failure["oom_killed"]) == (
        "oom_host", "137", "9", "true",
    )  # fmt: skip


def _killed_for_memory(one: Any) -> Any:
    one.oom_killed = True
    return one
