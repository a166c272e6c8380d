"""Gathers what `collector doctor` looks at: the kernel's files, NVML, the system, the daemon, the plan's models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from collector.core.command import engine_environment, expander
from collector.core.configuration import Configuration, Plan
from collector.core.doctor.facts import Disk, Docker, Facts, P2pCache
from collector.core.errors import UserError
from collector.measure import docker_host, models, p2p_cache, sysfs, system
from collector.measure.engines import kind_of
from collector.measure.gpu import GpuProcess, Snapshot, open_gpus
from collector.measure.slots import gpus_of, granted
from collector.measure.sysfs import ROOT, Link


def gather(
    plan: Plan | None, kind: str | None, variables: Mapping[str, str], *, data: Path, root: Path = ROOT
) -> Facts:
    """Look at this host. `root`: where the kernel's files are; `data`: where the campaign is to lie."""
    links = sysfs.gpu_links(root)
    opened = open_gpus()
    found = opened.snapshot() if opened else None
    configurations = plan.configurations if plan else ()
    container, images = _docker(configurations, kind, variables)
    missing = tuple(_missing_models(configurations, variables)) if kind in ("process", "docker") else ()
    return Facts(
        gpus=gpus_of(found, links),
        gpu_error=None if found else _no_driver(links),
        driver_version=found.driver_version if found else None,
        cuda_version=found.cuda_version if found else None,
        foreign=_processes(found, graphics=False) if found else None,
        drawing=_processes(found, graphics=True) if found else (),
        p2p=granted(found.pairs) if found else None,
        iommu=sysfs.iommu(root),
        governor=sysfs.governor(root),
        cpu_count=os.cpu_count(),
        load_1min=sysfs.load_1min(root),
        memory_gib=sysfs.gibibytes(root, "MemTotal"),
        swap_used_gib=_swap_used(root),
        shm_gib=system.total_gib(root / "dev/shm"),
        transparent_hugepages=sysfs.transparent_hugepages(root),
        nofile=system.open_files(),
        memlock_gib=system.locked_gib(),
        clock_synchronised=system.clock_synchronised(),
        disks=tuple(_disks(data, images, variables)),
        missing_models=missing,
        p2p_caches=_p2p_caches(configurations, variables, root),
        docker=container,
        engine_refusal=_refusal(plan, kind, variables),
    )


def _no_driver(links: tuple[Link, ...]) -> str:
    seen = f"{len(links)} NVIDIA GPU{'s' if len(links) > 1 else ''} on the PCI bus, but " if links else ""
    return f"{seen}no NVIDIA driver answers"


def _processes(found: Snapshot, *, graphics: bool) -> tuple[str, ...]:
    return tuple(_phrase(one) for one in found.processes if one.graphics == graphics)


def _phrase(one: GpuProcess) -> str:
    held = "memory" if one.memory_mib is None else f"{one.memory_mib:.0f} MiB"
    return f"{one.name} (pid {one.pid}) holds {held} of GPU {one.gpu}"


def _swap_used(root: Path) -> float | None:
    total, free = sysfs.gibibytes(root, "SwapTotal"), sysfs.gibibytes(root, "SwapFree")
    return None if total is None or free is None else total - free


def _docker(
    configurations: Iterable[Configuration], kind: str | None, variables: Mapping[str, str]
) -> tuple[Docker | None, Path | None]:
    if kind not in (None, "docker"):
        return None, None
    return docker_host.look(sorted({one.image for one in configurations if one.image}), variables)


def _environments(
    configurations: Iterable[Configuration], variables: Mapping[str, str]
) -> Iterator[tuple[Configuration, dict[str, str]]]:
    """Yield each configuration with the environment of its engine; one that names an unset variable is left out."""
    for one in configurations:
        try:
            yield one, dict(variables) | engine_environment(one, expander(variables, one.label))
        except UserError:  # preflight says so
            continue


def _missing_models(configurations: Iterable[Configuration], variables: Mapping[str, str]) -> Iterator[str]:
    told = set()
    for one, environment in _environments(configurations, variables):
        for path in (one.model_path, one.drafter):
            try:
                expanded = expander(variables, one.label)(path or "")
            except UserError:
                continue
            if path and path not in told and not models.is_here(expanded, environment):
                told.add(path)
                yield path


def _disks(data: Path, images: Path | None, variables: Mapping[str, str]) -> Iterator[Disk]:
    folders = {
        "data": data,
        "cache": p2p_cache.cache_root(variables),
        "models": models.hub_cache(variables),
        "images": images,
    }
    for holds, folder in folders.items():
        found = system.disk(holds, folder) if folder else None
        if found:
            yield found


def _p2p_caches(
    configurations: Iterable[Configuration], variables: Mapping[str, str], root: Path
) -> tuple[P2pCache, ...]:
    booted = sysfs.match(root / "proc/stat", r"^btime (\d+)$")
    roots = {p2p_cache.cache_root(environment) for _, environment in _environments(configurations, variables)}
    roots = roots or {p2p_cache.cache_root(variables)}
    found = [p2p_cache.inspect(one, float(booted) if booted else None) for one in sorted(filter(None, roots))]
    return tuple(one for files in found for one in files)


def _refusal(plan: Plan | None, kind: str | None, variables: Mapping[str, str]) -> str | None:
    if plan is None or kind is None:
        return None
    try:
        kind_of(kind).preflight(plan, variables)
    except UserError as error:
        return str(error)
    return None
