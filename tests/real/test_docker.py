"""Sweeps through a real Docker Engine: of the embedded engine in a small image, and of a real vLLM 0.27.0."""

from __future__ import annotations

import csv
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.measure.engines import containers
from collector.measure.engines.daemon import connect
from tests.measure.sweeping import Bench, kill
from tests.real import image
from tests.real.docker_engine import Daemon, Relay, daemon
from tests.real.environment import ensure as ensure_vllm

pytestmark = pytest.mark.docker

#: Each of these sweeps takes a minute at most on a machine that does nothing else.
SLOWLY_S = 600

LIMITS = "limits: {ready_s: 900, start_stall_s: 600, stage_stall_s: 60, request_s: 120, stop_s: 10}\n"
HEAD = """\
plan: 1
campaign: small
about: The emulated plan in real containers.
engine:
  kind: docker
  version: 0.27.0
  image: IMAGE
  container: {gpus: none, memory: 400m, volumes: []}
  environment: {EMULATE_SPEED: TIMES}
models:
  muse-glimmer-30b: {path: org/muse, drafter: org/drafter}
  gemma-4-31b: {path: org/gemma}
speculation:
  dflash-15: {method: dflash, model: "{drafter}", num_speculative_tokens: 15}
defaults: {model: muse-glimmer-30b, tensor_parallel: 2, max_model_len: 16384, max_num_seqs: 32}
"""
STAGES = "stages: {concurrency: {1: 2, 4: 8}, prompt_tokens: 100, output_tokens: 64, warm_up: {output_tokens: 4}}\n"
MATRIX = """\
matrix: {speculation: dflash-15, nvlink: [on, off]}
extra:
  - {model: gemma-4-31b, kv_cache_dtype: fp8_e5m2}
  - {series: eats, environment: {EMULATE_EAT_MIB: 2000}}
  - {series: exits, environment: {EMULATE_EXIT: 7}}
  - {series: no-image, image: "collector-tests/none:1"}
"""
#: The reference's plan, and what is another in a container of the embedded engine.
ROOT = Path(__file__).resolve().parents[2]
WHOLE = ROOT / "plans" / "dual-3090.yaml"
STORED = ROOT / "data" / "dual-3090"
WHOLE_HERE = {
    "campaign: dual-3090": "campaign: small",
    "kind: auto": "kind: docker\n  image: IMAGE\n  container: {gpus: none, volumes: []}",
    "HF_HUB_OFFLINE: 1": "EMULATE_SPEED: TIMES",
}
#: An hour and a half of the engine's time in one minute.
WHOLE_AT = 80
ENGINE = ("model", "series", "kv_cache_dtype", "speculation", "num_speculative_tokens", "nvlink")
ROW, FAILURE = (*ENGINE, "prompt_set", "concurrency", "requests"), (*ENGINE, "category", "phase", "cause", "exit_code")
TWO = "matrix: {speculation: [off, dflash-15]}\n"
VLLM_PLAN = """\
plan: 1
campaign: small
about: A real vLLM in a container.
engine:
  kind: docker
  version: 0.27.0
  image: IMAGE
  command: ["${COLLECTOR_VLLM}"]
  container: {gpus: none, volumes: ["${COLLECTOR_ENVIRONMENT}:${COLLECTOR_ENVIRONMENT}:ro"]}
  environment: {HF_HUB_OFFLINE: 1}
models: {tiny-a: {path: "${COLLECTOR_ENVIRONMENT}/models/tiny-a"}}
defaults:
  model: tiny-a
  max_num_seqs: 8
  flags: {enforce-eager: true, kv-cache-memory-bytes: 67108864}
extra:
  - {series: runs, max_model_len: 1024, speculation: {method: ngram, num_speculative_tokens: 4, prompt_lookup_max: 4}}
  - {series: refused, max_model_len: 500000}
stages: {concurrency: {1: 3, 2: 6}, prompt_tokens: 120, output_tokens: 128}
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon | None]:
    with daemon(tmp_path_factory.mktemp("dockerd")) as one:
        yield one


@pytest.fixture(scope="module")
def address(own: Daemon | None) -> str:
    return own.address if own else "unix:///var/run/docker.sock"


@pytest.fixture(scope="module")
def api(address: str) -> Iterator[Any]:
    client = connect({"DOCKER_HOST": address})
    yield client
    client.close()


@pytest.fixture(scope="module")
def engine_image(api: Any) -> str:
    site = next(ensure_vllm().glob("lib/python3*/site-packages"))
    return image.ensure(api, [site / "torch/lib/libtorch_cpu.so", *site.glob("vllm/_C*.so")])


def bench_of(
    folder: Path, plan: str, address: str, name: str, *, speed: int = 20, variables: Mapping[str, str] = {}
) -> Bench:
    text = plan.replace("IMAGE", name).replace("TIMES", str(speed))
    return Bench(folder, text, DOCKER_HOST=address, **variables)


def ours(api: Any, bench: Bench) -> list[Mapping[str, Any]]:
    labels = [f"{name}={value}" for name, value in containers.labels_of(bench.campaign).items()]
    found: list[Mapping[str, Any]] = api.containers(all=True, filters={"label": labels})
    return found


@pytest.fixture
def foreign(api: Any, engine_image: str) -> Iterator[str]:
    """A running container of somebody else, who uses collector for a campaign of the same name."""
    waits = [str(Path(sys.executable).resolve()), "-c", "import time; time.sleep(600)"]
    labels = {containers.TOOL: "small", containers.FOLDER: "another"}
    made = api.create_container(engine_image, entrypoint=waits, labels=labels)["Id"]
    api.start(made)
    yield made
    assert api.inspect_container(made)["State"]["Running"], "a container that is not ours was touched"
    api.remove_container(made, force=True)


def test_the_emulated_plan_runs_through_containers_failing_starts_included(
    tmp_path: Path, address: str, api: Any, engine_image: str, foreign: str
) -> None:
    bench = bench_of(tmp_path, HEAD + MATRIX + STAGES + LIMITS, address, engine_image)
    done = bench.sweep(timeout=SLOWLY_S)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = bench.rows()
    assert [(row["speculation"], row["nvlink"], row["concurrency"]) for row in rows] == [
        ("dflash", nvlink, concurrency) for nvlink in ("on", "off") for concurrency in ("1", "4")
    ]
    assert {row["provenance"] for row in rows} == {"emulated"}
    assert {row["engine_kind"] for row in rows} == {"docker"}
    assert {row["attention_backend"] for row in rows} == {"FLASH_ATTN"}  # read from the container's log
    failed = {one["series"]: one for one in bench.failures()}
    assert {name: (one["category"], one["exit_code"], one["oom_killed"]) for name, one in failed.items()} == {
        "main": ("kv_dtype", "1", "false"),
        "eats": ("oom_host", "137", "true"),
        "exits": ("other", "7", "false"),
        "no-image": ("container", "", ""),
    }
    assert {one["provenance"] for one in failed.values()} == {"emulated"}
    assert "told to end at once" in (bench.campaign / failed["exits"]["log"]).read_text()
    assert ours(api, bench) == []


def test_the_whole_plan_dual_3090_runs_through_containers(
    tmp_path: Path, address: str, api: Any, engine_image: str
) -> None:
    plan = WHOLE.read_text()
    for words, instead in WHOLE_HERE.items():
        assert words in plan
        plan = plan.replace(words, instead)
    bench = bench_of(tmp_path, plan, address, engine_image, speed=WHOLE_AT, variables={"MODELS": "org"})
    done = bench.sweep(timeout=SLOWLY_S)
    assert done.returncode == 1, done.stdout + done.stderr
    for table, columns in {"rows.csv": ROW, "failures.csv": FAILURE}.items():
        stored = list(csv.DictReader((STORED / table).read_text().splitlines()))
        found = bench.table(table)
        assert [[one[name] for name in columns] for one in found] == [[one[name] for name in columns] for one in stored]
    # So fast that two cores do not always keep up.
    assert {name for row in bench.rows() for name in row["checks"].split()} <= {"client_bound"}
    assert ours(api, bench) == []


def test_a_port_that_is_taken_is_a_failure_and_measured_when_it_is_free(
    tmp_path: Path, address: str, api: Any, engine_image: str
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        head = HEAD.replace("kind: docker", f"kind: docker\n  port: {port}")
        bench = bench_of(tmp_path, head + "extra: [{}]\n" + STAGES + LIMITS, address, engine_image)
        bench.sweep(timeout=SLOWLY_S)
    assert [(one["category"], one["retryable"]) for one in bench.failures()] == [("port_in_use", "true")]
    bench.sweep("--retry-failed", timeout=SLOWLY_S)
    assert len(bench.rows()) == 2
    assert ours(api, bench) == []


def test_a_sweep_killed_in_mid_stage_is_resumed_and_its_container_removed(
    tmp_path: Path, address: str, api: Any, engine_image: str, foreign: str
) -> None:
    bench = bench_of(tmp_path, HEAD + TWO + STAGES + LIMITS, address, engine_image, speed=5)
    with bench.sweeping() as process:
        bench.wait_until(lambda: bench.journal().count('"stage_attempted"') >= 2, "the second stage", seconds=SLOWLY_S)
        kill(process)
    (left,) = ours(api, bench)
    assert left["State"] == "running"
    done = bench.sweep(timeout=SLOWLY_S)
    assert "removed a container that an earlier sweep left" in done.stdout
    rows = bench.rows()
    assert [(row["speculation"], row["concurrency"]) for row in rows] == [
        ("off", "1"),
        ("off", "4"),
        ("dflash", "1"),
        ("dflash", "4"),
    ]
    assert ours(api, bench) == []
    assert "emulates vLLM" in next(bench.campaign.glob("logs/*-a1.log")).read_text()


def test_a_daemon_that_goes_in_mid_sweep_costs_no_row(
    tmp_path: Path, own: Daemon | None, address: str, api: Any, engine_image: str
) -> None:
    relay = Relay(tmp_path / "relay.sock", address)
    bench = bench_of(tmp_path, HEAD + TWO + STAGES + LIMITS, relay.address, engine_image, speed=5)
    with bench.sweeping() as process:
        bench.wait_until(lambda: bench.journal().count('"stage_attempted"') >= 2, "the second stage", seconds=SLOWLY_S)
        if own:  # a daemon of this machine is not ours to kill: there only its socket is cut
            own.kill()
        relay.cut()
        time.sleep(3)
        if own:
            own.start()
        back = Relay(tmp_path / "relay.sock", address)  # restarted, as by an update
        told, _ = process.communicate(timeout=SLOWLY_S)
    assert [(one["category"], one["retryable"]) for one in bench.failures()] == [("container", "true")], told
    assert process.returncode == 1, told
    assert ours(api, bench) == []
    assert [row["speculation"] for row in bench.rows()][-2:] == ["dflash", "dflash"]
    bench.sweep("--retry-failed", timeout=SLOWLY_S)
    assert len(bench.rows()) == 4
    back.cut()


def test_a_real_vllm_is_measured_in_a_container_and_a_refused_start_is_named(
    tmp_path: Path, address: str, api: Any, engine_image: str
) -> None:
    folder = ensure_vllm()
    variables = {"COLLECTOR_ENVIRONMENT": str(folder), "COLLECTOR_VLLM": str(folder / "bin" / "vllm")}
    bench = bench_of(tmp_path, VLLM_PLAN + LIMITS, address, engine_image, variables=variables)
    done = bench.sweep(timeout=SLOWLY_S)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = bench.rows()
    assert [(row["concurrency"], row["provenance"]) for row in rows] == [("1", "measured"), ("2", "measured")]
    # On two cores whatever else runs starves the front end of so small a model, and its check says so; no other may.
    assert {row["checks"] for row in rows} <= {"", "client_bound"}, done.stdout
    assert {row["engine_version"] for row in rows} == {"0.27.0"}
    assert [(one["series"], one["category"], one["exit_code"]) for one in bench.failures()] == [
        ("refused", "max_model_len", "1")
    ]
    assert ours(api, bench) == []
