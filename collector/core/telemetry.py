"""What GPUs say of themselves: the frozen records that measuring fills and rows are computed from.

Every figure is None where the card, its driver or the link does not tell it, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """What stays the same about a GPU while a sweep runs."""

    index: int  # NVML's, in the order of the PCI bus
    uuid: str | None
    name: str | None
    pci_bus_id: str | None
    architecture: str | None  # ampere, ada, …
    memory_total_mib: float | None
    power_limit_w: float | None
    power_default_limit_w: float | None
    display_active: bool | None
    persistence: bool | None
    nvlinks: tuple[bool, ...] | None  # per link whether it is up; None: the card has none
    pcie_generation_max: int | None  # of card and slot together
    pcie_width_max: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One GPU at one moment. Energy and traffic count from some moment in the past."""

    index: int
    at_s: float = 0.0  # since the window began
    lost: bool = False  # it has fallen off the bus: nothing else is known
    power_w: float | None = None
    energy_j: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    utilisation: float | None = None  # share of the last sensor period with a kernel running
    memory_used_mib: float | None = None
    nvlink_tx_bytes: int | None = None
    nvlink_rx_bytes: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_bytes_per_s: int | None = None  # both ways; read now and then, as the driver waits 20 ms for each


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuWatch:
    """The GPUs that an engine uses, watched over one window."""

    cards: tuple[Card, ...]
    idle: tuple[Reading, ...]  # before the sweep's first engine started; power averaged
    #: In order of time: at the window's begin, once in a while, at its end; one per card at each moment.
    readings: tuple[Reading, ...]
    #: Processes that compute on these cards and are not the engine's; None: whose they are could not be told.
    foreign: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Whether the driver lets one GPU reach the memory of another: `ok`, or why not; None: not told."""

    first: int
    second: int
    read: str | None
    write: str | None
    nvlink: str | None
