"""host.json: what a machine with two GPUs and one without tell of themselves, and that it names nobody."""

from __future__ import annotations

import getpass
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collector.measure.host import read_boot_id, read_host
from tests.fakes.nvml import GpuHost, build
from tests.measure.machine import Machine

READ = "import json, sys; from pathlib import Path; from collector.measure.host import read_host; "
READ += "print(json.dumps(read_host(Path(sys.argv[1])).as_json()))"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


@pytest.fixture
def gpus(tmp_path: Path, library: Path) -> GpuHost:
    return GpuHost(tmp_path, library)


def read(machine: Machine, gpus: GpuHost) -> dict[str, Any]:
    """Read the host in a process of its own: the binding looks for the driver's library once."""
    command = [sys.executable, "-c", READ, str(machine.root)]
    done = subprocess.run(command, env=os.environ | gpus.environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_host_of_two_gpus_tells_all_of_itself(machine: Machine, gpus: GpuHost) -> None:
    machine.device(1, "current_link_width", "4")
    machine.slot(1, "max_link_width", "4")
    gpus.set(1, power_limit_mw=280000, nvlinks="1101")
    found = read(machine, gpus)
    here = {name: found.pop(name) for name in ("cpu_count", "python", "kernel", "libc")}
    assert here["python"] == platform.python_version()
    assert here["kernel"] == f"Linux {platform.release()}"
    card = {
        "name": "NVIDIA GeForce RTX 3090",
        "memory_gib": 24.0,
        "link_width": 8,
        "link_width_max": 16,
        "slot_width_max": 8,
        "link_generation_max": 4,
        "power_limit_w": 350.0,
        "power_limit_default_w": 350.0,
        "persistence": True,
        "display": False,
        "nvlinks": 4,
    }
    second = {"link_width": 4, "slot_width_max": 4, "power_limit_w": 280.0, "nvlinks": 3}
    assert found == {
        "host_id": "eb2ec32a",
        "cpu_model": "AMD Ryzen 9 5950X 16-Core Processor",
        "memory_gib": 62.7,
        "gpu_model": "NVIDIA GeForce RTX 3090",
        "gpu_count": 2,
        "driver_version": "580.95.05",
        "cuda_version": "13.0",
        "p2p_driver": True,
        "gpus": [{"pci_address": "0000:01:00.0"} | card, {"pci_address": "0000:02:00.0"} | card | second],
        "os": "Ubuntu 24.04.1 LTS",
        "board": "ASUSTeK COMPUTER INC. ProArt X570-CREATOR WIFI",
        "swap_gib": 8.0,
        "iommu": "passthrough",
        "cpu_governor": "performance",
        "transparent_hugepages": "madvise",
    }


@pytest.mark.parametrize(("state", "granted"), [(0, True), (2, False), (None, None)])
def test_p2p_is_granted_refused_or_not_told(
    machine: Machine, gpus: GpuHost, state: int | None, granted: bool | None
) -> None:
    gpus.say(**{"p2p.0": state})
    assert read(machine, gpus)["p2p_driver"] is granted


def test_what_a_card_does_not_tell_stays_unknown(machine: Machine, gpus: GpuHost) -> None:
    gpus.set(0, nvlinks=None, display=None, persistence=None, power_limit_mw=None, pcie_generation_max=None)
    machine.remove("sys/bus/pci/devices/0000:01:00.0/max_link_width")
    first = read(machine, gpus)["gpus"][0]
    names = ("nvlinks", "display", "persistence", "power_limit_w", "link_generation_max")
    assert [first[name] for name in names] == [None] * 5
    assert first["link_width_max"] == 16  # which NVML knows too


def test_a_host_without_gpus_has_none_and_says_so(machine: Machine) -> None:
    found = read_host(machine.root)
    if found.gpu_count:
        pytest.skip("this machine has GPUs of its own")
    assert (found.gpus, found.gpu_model, found.driver_version, found.p2p_driver) == ((), None, None, None)
    assert found.iommu == "passthrough"


def test_nothing_names_the_machine_its_user_or_its_folders(machine: Machine, gpus: GpuHost) -> None:
    text = json.dumps(read(machine, gpus))
    names = {platform.node(), getpass.getuser(), str(Path.home()), str(machine.root), "GPU-0", "0123456789abcdef"}
    assert [name for name in names if name and name in text] == []


def test_two_machines_have_two_pseudonyms_and_a_boot_its_id(machine: Machine) -> None:
    before = read_host(machine.root).host_id
    assert read_boot_id(machine.root) == "6b0c2a1e-0000-4000-8000-000000000001"
    machine.write("etc/machine-id", "f" * 32)
    assert read_host(machine.root).host_id != before
    machine.remove("proc/sys/kernel/random/boot_id")
    assert read_boot_id(machine.root) == "unknown"
