"""What the kernel's files say of a machine. Every path is taken below `root`, so that a test brings its own tree.

What cannot be read is None. Nothing here names the machine, its users or its folders.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
#: PCI's number of NVIDIA, and the classes of its display and 3D controllers.
NVIDIA = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")
#: What an IOMMU group's type means for a device in it.
GROUP_TYPES = {"identity": "passthrough", "DMA": "translated", "DMA-FQ": "translated"}
#: Firmware's way of leaving a field of DMI unset.
_UNSET = re.compile(r"^(?:to be filled.*|default string|system .*|not .*|none|n/?a|unknown|0+)?$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """The PCIe link of a GPU: lanes in use, lanes of the card, lanes of the port above it."""

    pci_address: str
    width: int | None
    width_max: int | None
    slot_width_max: int | None


def read(path: Path) -> str | None:
    """Return a file's text without the white space around it, or None where it is not to be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def match(path: Path, pattern: str) -> str | None:
    """Return the first group of the first line that matches."""
    found = re.search(pattern, read(path) or "", re.MULTILINE)
    return found.group(1).strip() if found else None


def gibibytes(path: Path, name: str) -> float | None:
    """Return a line of /proc/meminfo in GiB."""
    kib = match(path / "proc/meminfo", rf"^{name}:\s*(\d+) kB$")
    return None if kib is None else int(kib) / 2**20


def load_1min(root: Path = ROOT) -> float | None:
    """Return how many processes ran or waited to run, averaged over a minute."""
    said = match(root / "proc/loadavg", r"^(\d+\.\d+) ")
    return None if said is None else float(said)


def os_name(root: Path = ROOT) -> str | None:
    return match(root / "etc/os-release", r'^PRETTY_NAME="?([^"\n]*)"?$')


def board(root: Path = ROOT) -> str | None:
    """Return vendor and name of the main board, as its firmware states them."""
    dmi = root / "sys/class/dmi/id"
    parts = [read(dmi / name) or "" for name in ("board_vendor", "board_name")]
    return " ".join(one for one in parts if not _UNSET.match(one)) or None


def governor(root: Path = ROOT) -> str | None:
    """Return how the processors' clock is governed; several words where they differ."""
    found = {read(one) for one in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return " and ".join(sorted(one for one in found if one)) or None


def transparent_hugepages(root: Path = ROOT) -> str | None:
    return match(root / "sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]")


def gpu_links(root: Path = ROOT) -> tuple[Link, ...]:
    """Return the links of NVIDIA's GPUs, in the order of their PCI addresses (that of NVML)."""
    return tuple(
        Link(
            pci_address=one.name.lower(),
            width=_lanes(one / "current_link_width"),
            width_max=_lanes(one / "max_link_width"),
            slot_width_max=_lanes(one.resolve().parent / "max_link_width"),
        )
        for one in _gpus(root)
    )


def iommu(root: Path = ROOT) -> str | None:
    """Return off, passthrough or translated, of the GPUs' groups or, without a GPU, of all; None if it is not said.

    A group without a readable type follows the kernel's command line.
    """
    try:
        units = list((root / "sys/class/iommu").iterdir())
    except OSError:
        return None
    if not units:
        return "off"
    groups = [one / "iommu_group/type" for one in _gpus(root)]
    groups = groups or list((root / "sys/kernel/iommu_groups").glob("*/type"))
    modes = {GROUP_TYPES.get(read(one) or "") for one in groups}
    if "translated" in modes:
        return "translated"
    if "passthrough" in modes:
        return "passthrough"
    asked = read(root / "proc/cmdline") or ""
    return "passthrough" if re.search(r"(?:^|\s)(?:iommu=pt|iommu\.passthrough=1)(?:\s|$)", asked) else None


def _gpus(root: Path) -> list[Path]:
    try:
        devices = sorted((root / "sys/bus/pci/devices").iterdir())
    except OSError:
        return []
    return [
        one
        for one in devices
        if read(one / "vendor") == NVIDIA and (read(one / "class") or "").startswith(DISPLAY_CLASSES)
    ]


def _lanes(path: Path) -> int | None:
    """Return a number of lanes; the kernel writes 0 or 255 where the port does not say."""
    text = read(path) or ""
    return int(text) if text.isdigit() and 0 < int(text) < 255 else None
