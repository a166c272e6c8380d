"""Whole sweeps on a host whose driver is the stand-in: what the rows say of the GPUs, and what a bad one does."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.cli import main
from collector.measure import evidence
from tests.fakes import VLLM
from tests.fakes.nvml import GpuHost
from tests.measure.sweeping import PLAN, Bench, faults, with_limits

EMULATE = Path(__file__).parents[1] / "real" / "emulated_vllm.py"
ARMS = """\
plan: 1
campaign: small
engine: {kind: process, version: 0.27.0, command: ["${PYTHON}", "${PROGRAM}"]}
models: {exaone-4.5-33b: {path: "${MODEL}"}}
defaults: {model: exaone-4.5-33b, tensor_parallel: 2, max_model_len: 2048, max_num_seqs: 16}
matrix: {nvlink: [on, off]}
stages: {concurrency: {4: 8}, prompt_tokens: 60, output_tokens: 24, warm_up: {rounds: 1, output_tokens: 4}}
limits: {ready_s: 60, start_stall_s: 60, stage_stall_s: 20, request_s: 60, stop_s: 5}
"""
#: The stand-in of vLLM, slowed down so that a window has time for a second and a third reading.
SLOW = {"FAKE_STEP_S": "0.05"}
LIMITS = {"ready_s": 20, "start_stall_s": 10, "stage_stall_s": 10, "request_s": 20, "stop_s": 5, "gpu_free_s": 2}


def bench_of(folder: Path, host: GpuHost, plan: str, **environment: str) -> Bench:
    """Return a bench whose engines hold memory of both GPUs."""
    bench = Bench(folder, plan, **({"PROGRAM": str(VLLM)} | host.environment | environment))
    for index in range(2):
        host.set(index, engine=f"{folder / 'model'} 5000")  # of each of its four processes
    return bench


@contextmanager
def when(bench: Bench, event: str, change: Callable[[], None], after_s: float = 0.6) -> Iterator[None]:
    """Change the host a moment after the journal first speaks of an event."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while event not in bench.journal() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(after_s)
        change()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.fixture(scope="module")
def swept(nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Both arms of a pair; the link carries traffic all the time."""
    folder = tmp_path_factory.mktemp("arms")
    host = GpuHost(folder, nvml_library)
    for index in range(2):
        # The stand-in's cards are no Amperes here, so that a window of seconds has a figure of power.
        host.set(index, architecture=8, nvlink_tx_kib_s=500_000, nvlink_rx_kib_s=500_000)
    bench = bench_of(folder, host, ARMS, **SLOW)
    done = bench.sweep(timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr  # the off arm is marked
    assert bench.failures() == []
    return bench


def test_every_column_of_telemetry_has_its_figure(swept: Bench) -> None:
    for row in swept.rows():
        seconds, tokens = float(row["window_s"]), float(row["generation_tokens"])
        assert seconds > 1.3, "too short for a second reading"
        assert float(row["energy_j"]) == pytest.approx(2 * 300 * seconds, rel=0.05)
        assert float(row["power_mean_w"]) == pytest.approx(float(row["energy_j"]) / seconds, rel=1e-6)
        assert float(row["energy_per_token_j"]) == pytest.approx(float(row["energy_j"]) / tokens, rel=1e-6)
        assert float(row["tokens_per_joule"]) == pytest.approx(tokens / float(row["energy_j"]), rel=1e-6)
        assert float(row["nvlink_bytes"]) == pytest.approx(4 * 500_000 * 1024 * seconds, rel=0.05)
        assert float(row["pcie_bytes"]) == pytest.approx(2 * 4000 * 1024 * seconds, rel=1e-6)
        told = {
            "power_max_w": "640",
            "idle_power_w": "640",
            "power_limit_w": "350",
            "sm_clock_mean_mhz": "1800",
            "sm_clock_min_mhz": "1800",
            "gpu_temperature_max_c": "66",
            "gpu_utilisation_mean": "0.98",
            "gpu_memory_peak_mib": "20300",
            "throttle_reasons": "sw_power_cap",
            "pcie_link_width_min": "8",
            "pcie_generation_min": "4",
            "gpu_count": "2",
        }
        assert {name: row[name] for name in told} == told
        assert int(row["gpu_samples"]) >= 2


def test_the_arm_without_nvlink_is_marked_for_its_traffic(swept: Bench) -> None:
    assert {row["nvlink"]: faults(row) for row in swept.rows()} == {"on": [], "off": ["nvlink_traffic"]}
    assert {row["checks_not_run"] for row in swept.rows()} == {""}


def test_such_rows_follow_from_their_evidence(swept: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recompute", str(swept.campaign)]) == 0, capsys.readouterr().out
    row = swept.rows()[0]
    watch = evidence.load(swept.campaign / "raw", row["row_id"])[3].gpus
    assert watch is not None
    assert {card.uuid for card in watch.cards} == {None}
    assert watch.foreign == ()


@pytest.mark.parametrize("kind", ["emulated", "process"])
def test_the_embedded_engine_says_nothing_of_the_host_s_gpus(gpu_host: GpuHost, tmp_path: Path, kind: str) -> None:
    """In the process it counts its own link's bytes; over a port it has none."""
    bench = bench_of(tmp_path, gpu_host, ARMS, PROGRAM=str(EMULATE), EMULATE_SPEED="50")
    done = bench.sweep("--engine", kind)
    assert len(bench.rows()) == 2, done.stdout + done.stderr
    for row in bench.rows():
        assert row["provenance"] == "emulated"
        assert (row["energy_j"], row["sm_clock_mean_mhz"], row["pcie_link_width_min"]) == ("", "", "")
        if kind == "emulated":
            assert (int(row["nvlink_bytes"]) > 0) == (row["nvlink"] == "on")
        else:
            assert row["nvlink_bytes"] == ""


def test_what_goes_wrong_under_load_marks_the_row_and_an_ampere_s_short_window_has_no_power(
    gpu_host: GpuHost, tmp_path: Path
) -> None:
    plan = PLAN.replace("speculation: [off, ngram-4]", "speculation: off")
    bench = bench_of(tmp_path, gpu_host, with_limits(plan, LIMITS), **SLOW)

    def spoil() -> None:
        gpu_host.set(0, pcie_width=4, event_reasons="0x20", compute=f"{os.getpid()}:512")

    with when(bench, "stage_attempted", spoil):
        done = bench.sweep()
    assert done.returncode == 1, done.stdout + done.stderr
    first = bench.rows()[0]
    assert faults(first) == ["throttled", "link_width_changed", "foreign_gpu_process"]
    assert (first["pcie_link_width_min"], first["throttle_reasons"]) == ("4", "sw_power_cap sw_thermal_slowdown")
    assert (first["energy_j"], first["power_max_w"], first["gpu_count"]) == ("", "", "1")
    assert main(["recompute", str(bench.campaign)]) == 0


def test_a_gpu_lost_in_mid_window_marks_the_row_and_fails_the_next_start(gpu_host: GpuHost, tmp_path: Path) -> None:
    """The stand-in of the engine lives on, as nothing of it runs there; the sweep goes on to its end."""
    bench = bench_of(tmp_path, gpu_host, with_limits(PLAN, LIMITS), **SLOW)
    with when(bench, "stage_attempted", lambda: gpu_host.set(0, lost=1)):
        done = bench.sweep()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "gpu_lost" in faults(bench.rows()[0])
    assert (bench.rows()[0]["sm_clock_mean_mhz"], bench.rows()[0]["throttle_reasons"]) == ("", "")
    assert [(one["category"], one["phase"]) for one in bench.failures()] == [("cuda_driver", "launch")]
    assert bench.failures()[0]["cause"] == "GPU 0 has fallen off the bus or must be reset"
    assert "sweep_finished" in bench.journal()
    bench.nothing_left()


def test_a_held_gpu_is_a_failure_with_a_name_and_is_measured_when_it_is_free(gpu_host: GpuHost, tmp_path: Path) -> None:
    bench = bench_of(tmp_path, gpu_host, with_limits(PLAN, LIMITS))
    gpu_host.set(0, compute="4711:512")
    gpu_host.set("name", **{"4711": "/usr/bin/trainer"})
    assert bench.sweep().returncode == 1
    assert {(one["category"], one["cause"], one["retryable"], one["log"]) for one in bench.failures()} == {
        ("gpu_busy", "GPU 0 is held by trainer (pid 4711, 512 MiB)", "true", "")
    }
    assert len(bench.failures()) == 2
    gpu_host.set(0, compute=None)
    done = bench.sweep("--retry-failed")
    assert len(bench.rows()) == 4, done.stdout + done.stderr


def test_memory_that_stays_after_an_engine_keeps_the_next_from_starting(gpu_host: GpuHost, tmp_path: Path) -> None:
    bench = bench_of(tmp_path, gpu_host, with_limits(PLAN, LIMITS))
    with when(bench, "start_finished", lambda: gpu_host.set(0, used_mib=9000), after_s=0):
        done = bench.sweep()
    assert done.returncode == 1
    assert len(bench.rows()) == 2, done.stdout + done.stderr
    assert [one["cause"] for one in bench.failures()] == [
        "GPU 0 holds 8700 MiB more than before the first engine, by no known process"
    ]
