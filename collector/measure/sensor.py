"""Watches the GPUs that an engine uses while a stage runs, beside the load and never in its way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from collector.core.telemetry import Card, GpuWatch, Reading
from collector.measure.aside import aside
from collector.measure.clock import Clock
from collector.measure.gpu import GpuProcess, Gpus
from collector.measure.watch import FIRST_SAMPLE_S, SAMPLE_EVERY_S

#: The driver waits 40 ms a card for the PCIe traffic; even if it waited busily, this is below 1 % of a core.
PCIE_EVERY = 10

#: Says whether a process belongs to the engine; None where that cannot be told.
Owns = Callable[[int], bool | None]


@dataclass(slots=True)
class Sensed:
    """What a window's sensor found; None as long as the window is open, or where there is no sensor."""

    watch: GpuWatch | None = None


@asynccontextmanager
async def sensing(sensor: Sensor | None, clock: Clock, began: float) -> AsyncIterator[Sensed]:
    """Watch during the block, its first and last moments included. `began`: the window's start on `clock`."""
    sensed = Sensed()
    if sensor is None:
        yield sensed
        return
    found = _Found()
    sampling = asyncio.ensure_future(sensor.sample(found, clock, began))
    try:
        yield sensed
    finally:
        sampling.cancel()
        await asyncio.wait({sampling})
    if not sampling.cancelled():
        sampling.result()  # it never ends by itself: a fault of ours
    await sensor.read(found, clock.monotonic() - began)
    sensed.watch = sensor.watch(found)


@dataclass(slots=True)
class _Found:
    readings: list[Reading] = field(default_factory=list)
    owners: dict[int, bool | None] = field(default_factory=dict)
    processes: dict[int, GpuProcess] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sensor:
    """The GPUs that an engine uses. `idle`: each without it; `owns`: says which processes are the engine's."""

    gpus: Gpus
    cards: tuple[Card, ...]
    idle: tuple[Reading, ...]
    owns: Owns

    async def sample(self, found: _Found, clock: Clock, began: float) -> None:
        """Read now, soon after, then once a second, until cancelled."""
        await self.read(found, clock.monotonic() - began)
        await clock.sleep(FIRST_SAMPLE_S)
        count = 0
        while True:
            await self.read(found, clock.monotonic() - began, with_pcie=count % PCIE_EVERY == 0)
            count += 1
            await clock.sleep(SAMPLE_EVERY_S)

    async def read(self, found: _Found, at_s: float, *, with_pcie: bool = False) -> None:
        """Add one moment. A driver that does not answer has lost its cards."""
        try:
            readings, processes = await aside(lambda: self._ask(at_s, with_pcie=with_pcie))
        except TimeoutError:
            readings, processes = [Reading(index=card.index, at_s=at_s, lost=True) for card in self.cards], []
        found.readings += readings
        for one in processes:
            if found.owners.get(one.pid) is None:
                found.owners[one.pid] = self.owns(one.pid)
            found.processes.setdefault(one.pid, one)

    def watch(self, found: _Found) -> GpuWatch:
        """Return what was found. Where none of the engine's own processes shows, as in a container, nobody's may."""
        known = True in found.owners.values()
        others = (one for one in found.processes.values() if found.owners[one.pid] is not True)
        # One that nobody could be asked about was gone at once, which the engine's own are not.
        foreign = tuple(one.told for one in others if known or found.owners[one.pid] is False)
        return GpuWatch(
            cards=self.cards,
            idle=self.idle,
            readings=tuple(found.readings),
            foreign=foreign if known or foreign else None,
        )

    def _ask(self, at_s: float, *, with_pcie: bool) -> tuple[list[Reading], list[GpuProcess]]:
        readings = [self.gpus.reading(card.index, at_s) for card in self.cards]
        if with_pcie:
            readings = [replace(one, pcie_bytes_per_s=self.gpus.pcie_bytes_per_s(one.index)) for one in readings]
        computing = [one for card in self.cards for one in self.gpus.processes(card.index) if not one.graphics]
        return readings, computing
