"""What NVML tells, through the vendor's own binding and a library of our making."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pynvml
import pytest

from collector.core.telemetry import Pair
from collector.measure.gpu import GpuProcess, Gpus, open_gpus
from tests.fakes.nvml import LIBRARY, GpuHost


@pytest.fixture
def gpus(here: GpuHost) -> Gpus:
    found = open_gpus()
    assert found is not None
    return found


def test_units_are_ours_and_fields_those_of_the_header(here: GpuHost, gpus: Gpus) -> None:
    here.set(0, energy_mj_s=0, nvlink_tx_kib=3, nvlink_rx_kib=5, utilisation=42)
    one = gpus.reading(0, 1.5)
    assert (one.index, one.at_s, one.lost) == (0, 1.5, False)
    assert (one.power_w, one.energy_j) == (320.0, 5000.0)
    assert (one.sm_clock_mhz, one.memory_clock_mhz, one.temperature_c) == (1800, 9501, 66)
    assert (one.utilisation, one.memory_used_mib) == (0.42, 300.0)
    assert (one.nvlink_tx_bytes, one.nvlink_rx_bytes) == (3 * 1024, 5 * 1024)
    assert (one.pcie_generation, one.pcie_width) == (4, 8)
    assert gpus.pcie_bytes_per_s(0) == 4000 * 1024


def test_a_card_says_what_it_is(here: GpuHost, gpus: Gpus) -> None:
    here.set(1, nvlinks="1101", display=1, power_limit_mw=280000)
    card = gpus.card(1)
    assert (card.name, card.uuid, card.pci_bus_id) == ("NVIDIA GeForce RTX 3090", "GPU-1", "00000000:02:00.0")
    assert (card.architecture, card.memory_total_mib) == ("ampere", 24576.0)
    assert (card.power_limit_w, card.power_default_limit_w) == (280.0, 350.0)
    assert (card.display_active, card.persistence) == (True, True)
    assert card.nvlinks == (True, True, False, True)
    assert (card.pcie_generation_max, card.pcie_width_max) == (4, 16)


def test_traffic_is_asked_of_all_links_and_not_of_the_first(here: GpuHost) -> None:
    """Scope 0 would be link 0, a quarter of it: the stand-in knows the difference, as the driver does."""
    here.set(0, nvlink_tx_kib=4000)
    open_gpus()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    tx = pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX
    assert [one.value.ullVal for one in pynvml.nvmlDeviceGetFieldValues(handle, [tx, (tx, 0xFFFFFFFF)])] == [1000, 4000]


def test_a_field_that_the_driver_does_not_know_is_not_told(here: GpuHost) -> None:
    open_gpus()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetFieldValues(handle, [9999])[0].nvmlReturn == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_cards_without_nvlink_have_neither_links_nor_traffic(here: GpuHost, gpus: Gpus) -> None:
    here.set(0, nvlinks=None)
    one = gpus.reading(0)
    assert gpus.card(0).nvlinks is None
    assert (one.nvlink_tx_bytes, one.nvlink_rx_bytes) == (None, None)


def test_cards_without_a_bridge_have_links_that_are_down(here: GpuHost, gpus: Gpus) -> None:
    here.set(0, nvlinks="0000", nvlink_tx_kib=0, nvlink_rx_kib=0)
    assert gpus.card(0).nvlinks == (False,) * 4
    assert gpus.reading(0).nvlink_tx_bytes == 0


@pytest.mark.parametrize(("name", "figure"), [
    ("power_mw", "power_w"),
    ("energy_mj", "energy_j"),
    ("sm_mhz", "sm_clock_mhz"),
    ("temperature", "temperature_c"),
    ("utilisation", "utilisation"),
    ("memory_mib", "memory_used_mib"),
    ("nvlink_tx_kib", "nvlink_tx_bytes"),
    ("pcie_width", "pcie_width"),
])  # fmt: skip
@pytest.mark.parametrize("error", [None, "!2", "!4", "!13", "!999"])
def test_what_is_not_supported_not_allowed_or_fails_is_none_and_nothing_else_is(
    here: GpuHost, gpus: Gpus, name: str, figure: str, error: str | None
) -> None:
    here.set(0, **{name: error})
    found = gpus.reading(0)
    empty = [field for field in found.__dataclass_fields__ if getattr(found, field) is None]
    assert empty == [figure, "pcie_bytes_per_s"]


@pytest.mark.parametrize(("bits", "names"), [
    ("0x0", ()),
    ("0x1", ("gpu_idle",)),
    ("0x4", ("sw_power_cap",)),
    ("0x28", ("hw_slowdown", "sw_thermal_slowdown")),
    ("0xc0", ("hw_thermal_slowdown", "hw_power_brake")),
    ("0x400", ("reason_0x400",)),
])  # fmt: skip
def test_throttle_reasons_have_names(here: GpuHost, gpus: Gpus, bits: str, names: tuple[str, ...]) -> None:
    here.set(0, event_reasons=bits)
    assert gpus.reading(0).throttle_reasons == names


def test_an_older_driver_knows_throttle_reasons_by_their_old_name(here: GpuHost, gpus: Gpus) -> None:
    here.set(0, event_reasons="!13", throttle_reasons="0x20")
    assert gpus.reading(0).throttle_reasons == ("sw_thermal_slowdown",)
    here.set(0, throttle_reasons=None)
    assert gpus.reading(0).throttle_reasons is None


def test_counters_grow(here: GpuHost, gpus: Gpus) -> None:
    here.set(0, energy_mj_s=1_000_000)
    before, began = gpus.reading(0).energy_j or 0, time.monotonic()
    time.sleep(0.05)
    grown, took = (gpus.reading(0).energy_j or 0) - before, time.monotonic() - began
    assert 50 <= grown <= 1000 * took + 1


def test_a_lost_card_says_nothing_and_the_other_goes_on(here: GpuHost, gpus: Gpus) -> None:
    here.set(1, lost=1)
    lost = gpus.reading(1, 2.0)
    assert (lost.index, lost.at_s, lost.lost, lost.power_w) == (1, 2.0, True, None)
    assert gpus.reading(0).power_w == 320.0
    assert (gpus.card(1).index, gpus.card(1).name) == (1, None)
    assert (gpus.processes(1), gpus.pcie_bytes_per_s(1)) == ((), None)


def test_a_card_that_was_lost_before_is_counted(here: GpuHost) -> None:
    here.set(0, lost=1)
    found = open_gpus()
    assert found is not None
    assert found.count == 2
    assert (found.reading(0).lost, found.reading(1).lost) == (True, False)
    assert found.pair(0, 1) == Pair(first=0, second=1, read=None, write=None, nvlink=None)


def test_processes_have_a_name_and_draw_or_compute(here: GpuHost, gpus: Gpus) -> None:
    here.set(0, compute="4711:512 4712", graphics="99:64 4712:7")
    here.set("name", **{"4711": "/opt/run me/trainer", "4712": "/usr/bin/blender", "99": "/usr/lib/xorg/Xorg"})
    assert gpus.processes(0) == (
        GpuProcess(gpu=0, pid=4711, name="trainer", memory_mib=512.0, graphics=False),
        GpuProcess(gpu=0, pid=4712, name="blender", memory_mib=None, graphics=False),
        GpuProcess(gpu=0, pid=99, name="Xorg", memory_mib=64.0, graphics=True),
    )
    assert [one.told for one in gpus.processes(0)][:2] == ["trainer (pid 4711, 512 MiB)", "blender (pid 4712)"]
    assert gpus.reading(0).memory_used_mib == 300 + 512


def test_a_process_that_has_gone_or_has_an_unreadable_name_has_none(here: GpuHost, gpus: Gpus) -> None:
    here.set(0, compute="4194305:1")
    assert [one.name for one in gpus.processes(0)] == ["?"]


@pytest.mark.parametrize(("status", "word"), [
    (0, "ok"), (1, "chipset_not_supported"), (3, "topology_not_supported"), (5, "not_supported"), (77, "unknown"),
])  # fmt: skip
def test_whether_one_card_reaches_the_other_is_said_in_words(here: GpuHost, gpus: Gpus, status: int, word: str) -> None:
    here.set("p2p", **{"0": status, "2": None})
    assert gpus.pair(0, 1) == Pair(first=0, second=1, read=word, write="ok", nvlink=None)


def test_a_snapshot_has_everything(gpus: Gpus) -> None:
    found = gpus.snapshot()
    assert (found.driver_version, found.cuda_version) == ("580.95.05", "13.0")
    assert [card.index for card in found.cards] == [one.index for one in found.readings] == [0, 1]
    assert [(pair.first, pair.second) for pair in found.pairs] == [(0, 1), (1, 0)]


def test_without_a_driver_or_without_its_library_there_are_no_gpus(
    here: GpuHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FAKE_NVML_STATE")
    assert open_gpus() is None
    here.say(count=0)
    monkeypatch.setenv("FAKE_NVML_STATE", here.environment["FAKE_NVML_STATE"])
    assert open_gpus() is None
    program = "from collector.measure.gpu import open_gpus; print(open_gpus())"
    (tmp_path / LIBRARY).write_text("no library")  # stands before a real one, should this machine have it
    alone = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert alone.stdout == "None\n"
