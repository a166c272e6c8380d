"""What is known of a host before a sweep, and what a plan needs of it. Plain records, gathered elsewhere.

None means: not known, or not readable here. A check of something unknown says so and never guesses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from collector.core.configuration import Plan

#: A limit of the operating system that is not set.
UNLIMITED = inf


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """A GPU and the slot it sits in."""

    pci_address: str
    name: str | None = None
    memory_gib: float | None = None
    link_width: int | None = None  # lanes in use; an idle link keeps its width, but not its generation
    link_width_max: int | None = None  # lanes of the card
    slot_width_max: int | None = None  # lanes of the port above it
    link_generation_max: int | None = None  # that card and board can run
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    persistence: bool | None = None
    display: bool | None = None  # a screen is drawn on it
    nvlinks: int | None = None  # links that are up; None where the card has none or does not say


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """Free space where something is kept; equal `device` is one and the same disk."""

    holds: str  # data, cache, models or images
    free_gib: float
    device: int


@dataclass(frozen=True, kw_only=True, slots=True)
class P2pCache:
    """A file in which vLLM keeps whether GPUs reach each other."""

    path: str
    grants: bool | None  # what it says of every pair of two GPUs; None where it cannot be read or says both
    before_boot: bool | None  # written before this boot


@dataclass(frozen=True, kw_only=True, slots=True)
class Docker:
    """What the daemon says; `error` is why it says nothing."""

    error: str | None = None
    host: str | None = None  # DOCKER_HOST where it is set, without its secrets
    version: str | None = None
    gpu_runtime: bool | None = None  # NVIDIA's runtime, or its devices through CDI
    missing_images: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A host as `collector doctor` finds it."""

    gpus: tuple[Gpu, ...] = ()
    gpu_error: str | None = None  # why NVML says nothing; None where it answers
    driver_version: str | None = None
    cuda_version: str | None = None  # the newest that the driver runs
    foreign: tuple[str, ...] | None = None  # processes that compute on the GPUs, a phrase each
    drawing: tuple[str, ...] = ()  # processes that draw on them, without a screen too
    p2p: bool | None = None  # the driver grants it between every two GPUs
    iommu: str | None = None  # off, passthrough or translated
    governor: str | None = None
    cpu_count: int | None = None
    load_1min: float | None = None
    memory_gib: float | None = None
    swap_used_gib: float | None = None
    shm_gib: float | None = None
    transparent_hugepages: str | None = None
    nofile: float | None = None  # hard limit of open files
    memlock_gib: float | None = None  # soft limit of locked memory
    clock_synchronised: bool | None = None
    disks: tuple[Disk, ...] = ()
    missing_models: tuple[str, ...] = ()
    p2p_caches: tuple[P2pCache, ...] = ()
    docker: Docker | None = None  # None where no container is wanted
    engine_refusal: str | None = None  # what the engine kind already says against this plan


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What a plan needs; without a plan, what any sweep on one GPU needs."""

    kind: str | None = None
    gpus: int = 1
    needs_gpu: bool = True
    nvlink_on: bool = False
    nvlink_off: bool = False
    rows: int = 0
    requests: int = 0

    @property
    def ours(self) -> bool:
        """Whether collector starts the engine on this host."""
        return self.kind != "url"


def needs_of(plan: Plan, kind: str) -> Needs:
    """Return what a plan needs when it is run by an engine kind."""
    links = {configuration.nvlink for configuration in plan.configurations}
    return Needs(
        kind=kind,
        gpus=max(configuration.tensor_parallel for configuration in plan.configurations),
        needs_gpu=kind != "emulated" and not all(_on_cpu(dict(one.environment)) for one in plan.configurations),
        nvlink_on="on" in links,
        nvlink_off="off" in links,
        rows=sum(len(run.stages) for run in plan.runs),
        requests=sum(stage.requests for run in plan.runs for stage in run.stages),
    )


def _on_cpu(environment: Mapping[str, str]) -> bool:
    """vLLM's build for the CPU has settings of its own; a plan that sets one means that build."""
    return any(name.startswith("VLLM_CPU_") for name in environment)
