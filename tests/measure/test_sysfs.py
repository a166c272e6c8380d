"""The kernel's files: what each says, and that what is not there is not made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.measure import sysfs
from collector.measure.sysfs import Link
from tests.measure.machine import ADDRESSES, Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_machine_tells_its_board_system_and_settings(machine: Machine) -> None:
    root = machine.root
    assert sysfs.board(root) == "ASUSTeK COMPUTER INC. ProArt X570-CREATOR WIFI"
    assert sysfs.os_name(root) == "Ubuntu 24.04.1 LTS"
    assert sysfs.governor(root) == "performance"
    assert sysfs.transparent_hugepages(root) == "madvise"
    assert sysfs.load_1min(root) == 0.10
    assert sysfs.gibibytes(root, "SwapTotal") == pytest.approx(8.0, abs=0.01)


def test_an_empty_machine_tells_nothing(tmp_path: Path) -> None:
    asked = (sysfs.board, sysfs.os_name, sysfs.governor, sysfs.transparent_hugepages, sysfs.load_1min, sysfs.iommu)
    assert [one(tmp_path) for one in asked] == [None] * len(asked)
    assert sysfs.gpu_links(tmp_path) == ()
    assert sysfs.gibibytes(tmp_path, "MemTotal") is None


@pytest.mark.parametrize("unset", ["To be filled by O.E.M.", "Default string", "", "System Product Name", "N/A"])
def test_a_board_that_its_maker_left_unnamed_has_no_name(machine: Machine, unset: str) -> None:
    machine.write("sys/class/dmi/id/board_name", unset)
    assert sysfs.board(machine.root) == "ASUSTeK COMPUTER INC."


def test_governors_that_differ_are_all_told(machine: Machine) -> None:
    machine.write("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave")
    assert sysfs.governor(machine.root) == "performance and powersave"


def test_a_gpu_s_link_is_told_with_its_slot_and_other_devices_are_not(machine: Machine) -> None:
    machine.device(1, "current_link_width", "4")
    machine.slot(1, "max_link_width", "4")
    assert sysfs.gpu_links(machine.root) == (
        Link(pci_address=ADDRESSES[0], width=8, width_max=16, slot_width_max=8),
        Link(pci_address=ADDRESSES[1], width=4, width_max=16, slot_width_max=4),
    )


@pytest.mark.parametrize("text", ["0", "255", "", "Unknown"])
def test_a_width_that_the_kernel_does_not_know_is_unknown(machine: Machine, text: str) -> None:
    machine.device(0, "current_link_width", text)
    assert sysfs.gpu_links(machine.root)[0].width is None


@pytest.mark.parametrize(
    ("kind", "command", "mode"),
    [
        ("identity", "", "passthrough"),
        ("DMA", "", "translated"),
        ("DMA-FQ", "iommu=pt", "translated"),
        ("auto", "quiet iommu=pt", "passthrough"),
        ("auto", "iommu.passthrough=1", "passthrough"),
        ("auto", "amd_iommu=on", None),
        ("auto", "xiommu=ptx", None),
    ],
)
def test_the_mode_of_the_iommu_is_that_of_the_gpus_groups(
    machine: Machine, kind: str, command: str, mode: str | None
) -> None:
    machine.iommu(kind)
    machine.write("sys/kernel/iommu_groups/9/type", "DMA")  # of a disk, which does not concern us
    machine.write("proc/cmdline", command)
    assert sysfs.iommu(machine.root) == mode


def test_one_translated_gpu_is_enough(machine: Machine) -> None:
    machine.write("sys/kernel/iommu_groups/1/type", "DMA")
    assert sysfs.iommu(machine.root) == "translated"


def test_without_a_unit_the_iommu_is_off(machine: Machine) -> None:
    (machine.root / "sys/class/iommu/ivhd0/devices").unlink()
    (machine.root / "sys/class/iommu/ivhd0").rmdir()
    assert sysfs.iommu(machine.root) == "off"
