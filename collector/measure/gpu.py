"""The host's GPUs: what they are, do and count. A host without driver or library has none, which is no error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any, TypeVar

from collector.core.telemetry import Card, Pair, Reading
from collector.measure import nvml

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuProcess:
    """A process that holds memory of a GPU. `pid` is that of the host, also for one inside a container."""

    gpu: int
    pid: int
    name: str  # of its program, without the folder; ? where the system does not tell
    memory_mib: float | None
    graphics: bool  # it draws and does not compute

    @property
    def told(self) -> str:
        memory = "" if self.memory_mib is None else f", {self.memory_mib:.0f} MiB"
        return f"{self.name} (pid {self.pid}{memory})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """All that NVML tells of the host at one moment."""

    driver_version: str | None
    cuda_version: str | None  # the newest that the driver runs
    cards: tuple[Card, ...]
    readings: tuple[Reading, ...]
    processes: tuple[GpuProcess, ...]
    pairs: tuple[Pair, ...]  # both ways


def open_gpus() -> Gpus | None:
    """Return the host's GPUs, or None where there are none or no driver."""
    handles = nvml.open_handles()
    return Gpus(handles) if handles else None


class Gpus:
    """The GPUs of this host. Calls may be made from any thread; each takes about a millisecond."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles

    @property
    def count(self) -> int:
        return len(self._handles)

    @property
    def driver_version(self) -> str | None:
        return nvml.driver_version()

    def snapshot(self) -> Snapshot:
        """Return everything; meant for looking at the host, not for the window of a measurement."""
        every = range(self.count)
        return Snapshot(
            driver_version=nvml.driver_version(),
            cuda_version=nvml.cuda_version(),
            cards=tuple(map(self.card, every)),
            readings=tuple(map(self.reading, every)),
            processes=tuple(process for index in every for process in self.processes(index)),
            pairs=tuple(self.pair(*both) for both in permutations(every, 2)),
        )

    def card(self, index: int) -> Card:
        """Return what a GPU is; a lost one has nothing but its index."""
        facts = self._facts(nvml.card_facts, index)
        return Card(index=index, **(facts or dict.fromkeys(set(Card.__dataclass_fields__) - {"index"})))

    def reading(self, index: int, at_s: float = 0.0) -> Reading:
        """Return what a GPU does now. `at_s`: when that is."""
        return Reading(index=index, at_s=at_s, **(self._facts(nvml.reading_facts, index) or {"lost": True}))

    def processes(self, index: int) -> tuple[GpuProcess, ...]:
        """Return who holds memory of a GPU; empty where NVML does not say, as inside some containers."""
        return tuple(GpuProcess(gpu=index, **facts) for facts in self._facts(nvml.process_facts, index) or ())

    def pcie_bytes_per_s(self, index: int) -> int | None:
        """Return what goes over PCIe both ways, averaged over 20 ms each way, for which the driver waits."""
        return self._facts(nvml.pcie_bytes_per_s, index)

    def pair(self, first: int, second: int) -> Pair:
        read, write, nvlink = self._facts(nvml.p2p_states, first, second) or (None, None, None)
        return Pair(first=first, second=second, read=read, write=write, nvlink=nvlink)

    def _facts(self, ask: Callable[..., Value], *indices: int) -> Value | None:
        """Return what is asked of one or two GPUs, None where one of them is lost."""
        handles = [self._handles[index] for index in indices]
        try:
            return None if None in handles else ask(*handles)
        except nvml.GpuLostError:
            return None
