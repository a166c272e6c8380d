"""Watches the GPUs that an engine uses while a load runs, beside it and never in its way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from collector.core.telemetry import Card, GpuWatch, Reading
from collector.measure.aside import aside
from collector.measure.clock import Clock
from collector.measure.gpu import GpuProcess, Gpus
from collector.measure.watch import FIRST_SAMPLE_S, SAMPLE_EVERY_S

#: The driver waits 40 ms a card for the PCIe traffic; even if it waited busily, this is below 1 % of a core.
PCIE_EVERY = 10

#: Says whether a process belongs to the engine; None where that cannot be told.
Owns = Callable[[int], bool | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """All cards at one moment, and who computes on them. `owners`: whether each process is the engine's."""

    at: float  # on the collector's monotonic clock
    readings: tuple[Reading, ...]
    processes: tuple[GpuProcess, ...] = ()
    owners: tuple[bool | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Sensor:
    """The GPUs that an engine uses. `idle`: each without it; `owns`: says which processes are the engine's."""

    gpus: Gpus
    cards: tuple[Card, ...]
    idle: tuple[Reading, ...]
    owns: Owns

    async def read(self, at: float, *, with_pcie: bool = False) -> Moment:
        """Return one moment. A driver that does not answer has lost its cards."""
        try:
            return await aside(lambda: self._ask(at, with_pcie=with_pcie))
        except TimeoutError:
            return Moment(at=at, readings=tuple(Reading(index=card.index, lost=True) for card in self.cards))

    def _ask(self, at: float, *, with_pcie: bool) -> Moment:
        readings = tuple(self.gpus.reading(card.index) for card in self.cards)
        if with_pcie:
            readings = tuple(replace(one, pcie_bytes_per_s=self.gpus.pcie_bytes_per_s(one.index)) for one in readings)
        found = tuple(one for card in self.cards for one in self.gpus.processes(card.index) if not one.graphics)
        # Asked at once: a process that has ended belongs to nobody.
        return Moment(at=at, readings=readings, processes=found, owners=tuple(self.owns(one.pid) for one in found))


class Sensed:
    """What a sensor sees of a load; without a sensor, nothing."""

    def __init__(self, sensor: Sensor | None, clock: Clock) -> None:
        self._sensor = sensor
        self._clock = clock
        self._inside: list[Moment] = []
        self._edges: list[asyncio.Future[Moment]] = []

    def edge(self) -> None:
        """Read now, without waiting for it: the load goes on."""
        if self._sensor:
            self._edges.append(asyncio.ensure_future(self._sensor.read(self._clock.monotonic())))

    async def sample(self, sensor: Sensor) -> None:
        """Read once in a while, until cancelled."""
        await self._clock.sleep(FIRST_SAMPLE_S)
        while True:
            with_pcie = len(self._inside) % PCIE_EVERY == 0
            self._inside.append(await sensor.read(self._clock.monotonic(), with_pcie=with_pcie))
            await self._clock.sleep(SAMPLE_EVERY_S)

    async def watch(self, opened: float, closed: float) -> GpuWatch | None:
        """Return what was seen of the window between two times of the clock, after both its edges."""
        if self._sensor is None:
            return None
        first, last = await asyncio.gather(*self._edges)
        moments = [first, *(one for one in self._inside if first.at < one.at < min(closed, last.at)), last]
        readings = (replace(one, at_s=moment.at - opened) for moment in moments for one in moment.readings)
        return GpuWatch(
            cards=self._sensor.cards, idle=self._sensor.idle, readings=tuple(readings), foreign=_foreign(moments)
        )


def _foreign(moments: list[Moment]) -> tuple[str, ...] | None:
    """Return who else computed. Where none of the engine's own shows, as inside a container, nobody's may."""
    seen: dict[int, tuple[GpuProcess, bool | None]] = {}
    for moment in moments:
        for process, own in zip(moment.processes, moment.owners, strict=True):
            if process.pid not in seen or own:
                seen[process.pid] = process, own
    known = any(own for _, own in seen.values())
    # One that nobody could be asked about was gone at once, which the engine's own are not.
    foreign = tuple(one.told for one, own in seen.values() if own is False or (own is None and known))
    return foreign if known or foreign else None


@asynccontextmanager
async def sensing(sensor: Sensor | None, clock: Clock) -> AsyncIterator[Sensed]:
    """Sample during the block."""
    sensed = Sensed(sensor, clock)
    if sensor is None:
        yield sensed
        return
    sampling = asyncio.ensure_future(sensed.sample(sensor))
    try:
        yield sensed
    finally:
        sampling.cancel()
        await asyncio.wait({sampling})
    if not sampling.cancelled():
        sampling.result()  # it never ends by itself: a fault of ours
