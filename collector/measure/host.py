"""Facts of the machine that measures, without its name or its paths."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


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

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def read_host() -> Host:
    return Host(
        host_id=hashlib.sha256(f"collector/{_machine_id()}".encode()).hexdigest()[:8],
        cpu_model=_match("/proc/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.processor() or None,
        cpu_count=os.cpu_count(),
        memory_gib=_memory_gib(),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
    )


def read_boot_id() -> str:
    """Return the kernel's id of this boot: another one at resume means that the host went down."""
    return _read("/proc/sys/kernel/random/boot_id").strip() or "unknown"


def _machine_id() -> str:
    return _read("/etc/machine-id").strip() or platform.node()


def _memory_gib() -> float | None:
    kib = _match("/proc/meminfo", r"^MemTotal:\s*(\d+) kB$")
    return round(int(kib) / 2**20, 1) if kib else None


def _match(path: str, pattern: str) -> str | None:
    found = re.search(pattern, _read(path), re.MULTILINE)
    return found.group(1).strip() if found else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
