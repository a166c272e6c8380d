"""The daemon that is not there or goes, what a killed sweep leaves, and which kind `auto` takes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.measure.engines import containers, daemon, docker
from tests.fakes import VLLM
from tests.fakes.docker_daemon import Daemon
from tests.measure.contained import DOCKER_PLAN, IMAGE, bench_of, daemon_in, swept
from tests.measure.sweeping import Bench, kill


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as one:
        yield one


# --- a daemon that is not there, or goes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("tcp://127.0.0.1:2375", "DOCKER_HOST: found tcp://127.0.0.1:2375, which may be another machine"),
        ("ssh://gpu-box", "DOCKER_HOST: found ssh://gpu-box, which may be another machine"),
        ("unix:///no/such.sock", "no socket is there; install and start Docker"),
    ],
)
def test_no_daemon_of_this_machine_is_wrong_use(
    tmp_path: Path,
    engine: Daemon,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    address: str,
    told: str,
) -> None:
    bench = bench_of(tmp_path, engine)
    bench.environment["DOCKER_HOST"] = address
    assert swept(bench, monkeypatch) == 2
    assert told in capsys.readouterr().err
    assert not bench.campaign.exists()


def test_a_socket_without_permission_says_what_to_do(tmp_path: Path) -> None:
    error = PermissionError(13, "Permission denied")
    with (
        pytest.raises(daemon.DaemonGoneError, match="permission denied; join the group docker"),
        daemon.translated("x"),
    ):
        raise ConnectionError("Connection aborted.", error)


def test_a_socket_that_nobody_serves_any_more_says_so(
    tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = bench_of(tmp_path, engine)
    engine._server.shutdown()
    engine._server.server_close()
    assert swept(bench, monkeypatch) == 2
    assert "no daemon answers there; start it" in capsys.readouterr().err
    engine.socket.unlink()


def test_a_plan_without_an_image_is_wrong_use(
    tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = bench_of(tmp_path, engine, DOCKER_PLAN.replace(f"  image: {IMAGE}\n", ""))
    assert swept(bench, monkeypatch) == 2
    assert "names no image; name one such as vllm/vllm-openai" in capsys.readouterr().err


def test_a_model_folder_that_is_not_there_is_wrong_use(
    tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = bench_of(tmp_path, engine, DOCKER_PLAN.replace("${MODEL}", "/no/such/model"))
    assert swept(bench, monkeypatch) == 2
    assert "/no/such/model is not there" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket")  # the package leaves one that it could not connect
def test_a_daemon_that_goes_in_mid_sweep_ends_it_with_all_rows_kept(
    tmp_path: Path, engine: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docker, "RETURN_S", 0.5)
    plan = DOCKER_PLAN.replace("[{speculation: off}]", "[{speculation: off}, {speculation: ngram-4}]")
    bench = bench_of(tmp_path, engine, plan)
    going = threading.Thread(target=_vanish_in_the_second_stage, args=(engine, bench), daemon=True)
    going.start()
    assert swept(bench, monkeypatch) == 1
    going.join()
    told = capsys.readouterr().out
    assert "ended early: cannot reach the Docker daemon" in told
    assert "The same command goes on from here." in told
    (failure,) = bench.failures()
    assert (failure["category"], failure["retryable"]) == ("container", "true")
    kept = len(bench.rows())
    assert kept >= 1
    # It is back, with the container that lived on: that is removed, and the sweep goes on.
    lived_on = dict(engine.containers)
    assert len(lived_on) == 1
    with Daemon(socket=engine.socket, images=engine.images, containers=lived_on) as back:
        swept(bench, monkeypatch, "--retry-failed")
        assert back.containers == {}
    assert len(bench.rows()) == 4


def _vanish_in_the_second_stage(engine: Daemon, bench: Bench) -> None:
    deadline = time.monotonic() + 60
    while '"stage_finished"' not in bench.journal() and time.monotonic() < deadline:
        time.sleep(0.002)
    engine.vanish()


# --- what a killed sweep leaves -------------------------------------------------------------------------------------


def test_a_killed_sweep_leaves_a_container_that_the_next_one_removes_and_no_other(
    tmp_path: Path, engine: Daemon
) -> None:
    bench = bench_of(tmp_path, engine)
    foreign = [engine.foreign(), engine.foreign(**{containers.TOOL: "small", containers.FOLDER: "another folder"})]
    with bench.sweeping() as process:
        bench.wait_until(lambda: '"stage_attempted"' in bench.journal(), "a stage under way")
        kill(process)
    ours = [one for one in engine.containers.values() if one not in foreign]
    assert [one.running for one in ours] == [True]
    done = bench.sweep()
    assert "removed a container that an earlier sweep left: collector-small-" in done.stdout
    assert not ours[0].running
    assert [one.running for one in foreign] == [True, True]
    assert [*engine.containers.values()] == foreign
    assert [row["concurrency"] for row in bench.rows()] == ["1", "4"]
    cut, whole = sorted(bench.campaign.glob("logs/*.log"))
    assert (cut.name.partition("-")[2], whole.name.partition("-")[2]) == ("r1-a1-cut1.log", "r1-a1.log")
    assert "Application startup complete." in cut.read_text()


def test_an_interrupted_sweep_ends_and_removes_its_container(tmp_path: Path, engine: Daemon) -> None:
    bench = bench_of(tmp_path, engine)
    with bench.sweeping() as process:
        bench.wait_until(lambda: '"stage_attempted"' in bench.journal(), "a stage under way")
        process.terminate()
        assert process.wait(timeout=30) == 130
    assert engine.containers == {}


@pytest.mark.parametrize("moment", ["create", "start", "logs", "wait"])
def test_an_interruption_while_a_container_is_made_leaves_none(tmp_path: Path, engine: Daemon, moment: str) -> None:
    bench = bench_of(tmp_path, engine)
    engine.hangs.add(moment)
    with bench.sweeping() as process:
        bench.wait_until(lambda: moment in engine.asked, moment)
        process.terminate()
        time.sleep(0.3)
        engine.hangs.clear()
        assert process.wait(timeout=30) == 130
    assert engine.containers == {}


# --- which kind `auto` takes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "image", "socket", "program", "chosen", "told"),
    [
        (False, True, True, True, "emulated", "NO GPU HERE"),
        (True, True, True, True, "docker", "each configuration runs in a container"),
        (True, False, True, True, "process", "names no engine.image"),
        (True, True, False, True, "process", "no socket is there"),
        (True, True, False, False, "emulated", "no program '/no/vllm'"),
    ],
)
def test_auto_takes_the_best_that_is_here_and_says_why(
    tmp_path: Path,
    engine: Daemon,
    monkeypatch: pytest.MonkeyPatch,
    gpu: bool,
    image: bool,
    socket: bool,
    program: bool,
    chosen: str,
    told: str,
) -> None:
    from collector.core.plan import parse_plan
    from collector.measure import setting

    monkeypatch.setattr(setting, "GPU_TRACES", (tmp_path if gpu else tmp_path / "none",))
    text = DOCKER_PLAN if image else DOCKER_PLAN.replace(f"  image: {IMAGE}\n", "")
    variables = {
        "PYTHON": sys.executable if program else "/no/vllm",
        "FAKE_VLLM": str(VLLM),
        "PATH": os.environ["PATH"],
        "DOCKER_HOST": f"unix://{engine.socket if socket else '/no/such.sock'}",
    }
    kind, words = setting.chosen_kind("auto", parse_plan(text, "p.yaml"), variables)
    assert kind == chosen
    assert words is not None
    assert told in words
