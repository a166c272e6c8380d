"""Facts of the machine that measures, without its name, its users or its paths: what host.json holds."""

from __future__ import annotations

import hashlib
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from collector.core.doctor.facts import Gpu
from collector.measure import sysfs
from collector.measure.gpu import open_gpus
from collector.measure.slots import gpus_of, granted
from collector.measure.sysfs import ROOT


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    host_id: str  # pseudonym: a hash of the machine id
    cpu_model: str | None
    cpu_count: int | None
    memory_gib: float | None
    kernel: str
    python: str
    gpu_model: str | None = None
    gpu_count: int | None = None
    driver_version: str | None = None
    cuda_version: str | None = None  # the newest that the driver runs
    p2p_driver: bool | None = None  # granted between every two GPUs
    gpus: tuple[Gpu, ...] = ()
    os: str | None = None
    libc: str | None = None
    board: str | None = None
    swap_gib: float | None = None
    iommu: str | None = None  # off, passthrough or translated
    cpu_governor: str | None = None
    transparent_hugepages: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def read_host(root: Path = ROOT) -> Host:
    """Read this host, its GPUs through NVML. `root`: where the kernel's files are."""
    opened = open_gpus()
    found = opened.snapshot() if opened else None
    gpus = gpus_of(found, sysfs.gpu_links(root))
    libc, version = platform.libc_ver()
    return Host(
        host_id=hashlib.sha256(f"collector/{_machine_id(root)}".encode()).hexdigest()[:8],
        cpu_model=sysfs.match(root / "proc/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.processor() or None,
        cpu_count=os.cpu_count(),
        memory_gib=_rounded(sysfs.gibibytes(root, "MemTotal")),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        gpu_model=" and ".join(sorted({one.name for one in gpus if one.name})) or None,
        gpu_count=len(gpus) or None,
        driver_version=found.driver_version if found else None,
        cuda_version=found.cuda_version if found else None,
        p2p_driver=granted(found.pairs) if found else None,
        gpus=gpus,
        os=sysfs.os_name(root),
        libc=f"{libc} {version}".strip() or None,
        board=sysfs.board(root),
        swap_gib=_rounded(sysfs.gibibytes(root, "SwapTotal")),
        iommu=sysfs.iommu(root),
        cpu_governor=sysfs.governor(root),
        transparent_hugepages=sysfs.transparent_hugepages(root),
    )


def read_boot_id(root: Path = ROOT) -> str:
    """Return the kernel's id of this boot: another one at resume means that the host went down."""
    return sysfs.read(root / "proc/sys/kernel/random/boot_id") or "unknown"


def _machine_id(root: Path) -> str:
    return sysfs.read(root / "etc/machine-id") or platform.node()


def _rounded(gib: float | None) -> float | None:
    return None if gib is None else round(gib, 1)
