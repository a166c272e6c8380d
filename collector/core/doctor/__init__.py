"""Is a host fit to measure? One pure function a check, in a plain dict; `examine` runs them all.

A new check is a function (facts, needs) -> Finding and a line here. Thresholds are named constants beside
their check, with their reason.
"""

from __future__ import annotations

from collections.abc import Callable

from collector.core.doctor import engine_checks, gpu_checks, host_checks
from collector.core.doctor.facts import Facts, Needs
from collector.core.doctor.finding import Finding

Check = Callable[[Facts, Needs], Finding]

CHECKS: dict[str, Check] = {
    "driver": gpu_checks.driver,
    "foreign_processes": gpu_checks.foreign_processes,
    "display": gpu_checks.display,
    "power_cap": gpu_checks.power_cap,
    "persistence": gpu_checks.persistence,
    "link_width": gpu_checks.link_width,
    "link_generation": gpu_checks.link_generation,
    "nvlink": gpu_checks.nvlink,
    "p2p": gpu_checks.p2p,
    "p2p_cache": engine_checks.p2p_cache,
    "iommu": host_checks.iommu,
    "governor": host_checks.governor,
    "cpu_load": host_checks.cpu_load,
    "memory": host_checks.memory,
    "swap": host_checks.swap,
    "shared_memory": host_checks.shared_memory,
    "transparent_hugepages": host_checks.transparent_hugepages,
    "open_files": host_checks.open_files,
    "locked_memory": host_checks.locked_memory,
    "clock": host_checks.clock,
    "disk": engine_checks.disk,
    "docker": engine_checks.docker,
    "models": engine_checks.models,
    "engine": engine_checks.engine,
}


def examine(facts: Facts, needs: Needs) -> dict[str, Finding]:
    """Return each check's finding by its name, in the order of the table."""
    return {name: check(facts, needs) for name, check in CHECKS.items()}
