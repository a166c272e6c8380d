"""The GPUs of a sweep: whether they are free for the next engine, and what they are like without one.

An engine that starts on a GPU that is not empty gets a smaller KV cache, or dies of it; its rows would say
nothing of its configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean

from collector.core.command import engine_environment, expander
from collector.core.configuration import Configuration
from collector.core.telemetry import Reading
from collector.measure.aside import aside
from collector.measure.clock import Clock
from collector.measure.engines.interface import Launch
from collector.measure.failed import MeasurementError
from collector.measure.gpu import Gpus, open_gpus
from collector.measure.sensor import Owns, Sensor

#: Kinds whose engines run on this host's GPUs. An emulated one runs nowhere; of a url nobody knows where.
KINDS_HERE = ("process", "docker")
POLL_S = 1.0
#: The idle state is the mean of this many readings, POLL_S apart; a sweep pays for it once.
IDLE_READINGS = 4
#: A driver may list an engine that has just ended for another moment: it is not refused for that.
JUST_ENDED_S = 5.0
#: What a desktop's memory moves by; the smallest engine holds more.
DRAINED_WITHIN_MIB = 256.0
_WORLD_FLAGS = ("pipeline-parallel-size", "data-parallel-size")


def open_bay(kind_name: str, clock: Clock, tell: Callable[[str], None]) -> Bay | None:
    """Return the GPUs for a sweep of this kind, None where it has none of this host's."""
    gpus = open_gpus() if kind_name in KINDS_HERE else None
    return Bay(kind_name=kind_name, gpus=gpus, clock=clock, tell=tell) if gpus else None


@dataclass(kw_only=True, slots=True)
class Bay:
    kind_name: str
    gpus: Gpus
    clock: Clock
    tell: Callable[[str], None]
    idle: dict[int, Reading] = field(default_factory=dict)

    async def made_ready(self, launch: Launch, limit_s: float) -> Callable[[Owns], Sensor] | None:
        """Wait until the launch's GPUs are free. Raises MeasurementError where they are not.

        Returns what makes their sensor once the engine is there to say which processes are its own; None where
        the engine uses no GPU.
        """
        try:
            cards = await aside(lambda: [self.gpus.card(index) for index in range(self.gpus.count)])
            indices = used_gpus(launch.configuration, _shown(launch, self.kind_name), [card.uuid for card in cards])
            await self._wait(indices, launch.engine.gpu_busy, limit_s)
            await self._learn_idle(tuple(index for index in indices if index not in self.idle))
        except TimeoutError as error:
            raise _lost("the driver does not answer") from error
        # A UUID names one card in the world; rows and their evidence are published.
        known = tuple(replace(cards[index], uuid=None) for index in indices)
        idle = tuple(self.idle[index] for index in indices)
        return partial(Sensor, self.gpus, known, idle) if indices else None

    async def _wait(self, indices: Sequence[int], policy: str, limit_s: float) -> None:
        began, told = self.clock.monotonic(), ""
        while True:
            held, lingering = await aside(lambda: (self._held(indices), self._lingering(indices)))
            why = "" if held and policy == "ignore" else held or lingering
            if not why:
                return
            waited = self.clock.monotonic() - began
            if waited >= limit_s or (held and policy == "refuse" and waited >= JUST_ENDED_S):
                raise MeasurementError(category="gpu_busy", phase="launch", cause=why, retryable=True)
            if why != told:
                self.tell(f"  waiting up to {limit_s:g} s: {why}")
                told = why
            await self.clock.sleep(POLL_S)

    def _held(self, indices: Sequence[int]) -> str:
        """Return who computes on these GPUs, in words. A desktop only draws, and stays."""
        found = [one for index in indices for one in self.gpus.processes(index) if not one.graphics]
        return "; ".join(f"GPU {one.gpu} is held by {one.told}" for one in found)

    def _lingering(self, indices: Sequence[int]) -> str:
        """Return which GPU holds more memory than without an engine, in words. Raises MeasurementError if lost."""
        for index in indices:
            now, before = self.gpus.reading(index), self.idle.get(index)
            if now.lost:
                raise _lost(f"GPU {index} has fallen off the bus or must be reset")
            if before and now.memory_used_mib is not None and before.memory_used_mib is not None:
                more = now.memory_used_mib - before.memory_used_mib
                if more > DRAINED_WITHIN_MIB:
                    return f"GPU {index} holds {more:.0f} MiB more than before the first engine, by no known process"
        return ""

    async def _learn_idle(self, indices: Sequence[int]) -> None:
        """Read power and memory without an engine: power averaged, of memory the least that was in use."""
        readings: dict[int, list[Reading]] = {index: [] for index in indices}
        for _ in range(IDLE_READINGS if indices else 0):
            await self.clock.sleep(POLL_S)
            for one in await aside(lambda: [self.gpus.reading(index) for index in indices]):
                readings[one.index].append(one)
        for index, found in readings.items():
            power = [one.power_w for one in found if one.power_w is not None]
            memory = [one.memory_used_mib for one in found if one.memory_used_mib is not None]
            self.idle[index] = replace(
                found[-1], power_w=fmean(power) if power else None, memory_used_mib=min(memory, default=None)
            )


def used_gpus(
    configuration: Configuration, shown: Sequence[Sequence[str] | None], uuids: Sequence[str | None]
) -> tuple[int, ...]:
    """Return the GPUs that an engine will use: of those that it is shown, as many as it has ranks.

    `shown`: each a narrower choice among what is left, as numbers or UUIDs; None leaves all. CUDA numbers equal
    cards as NVML does; between unequal ones CUDA_DEVICE_ORDER=PCI_BUS_ID makes it so.
    """
    left = list(range(len(uuids)))
    for words in shown:
        left = left if words is None else _chosen(words, left, uuids)
    world = configuration.tensor_parallel
    for flag in _WORLD_FLAGS:
        size = dict(configuration.flags).get(flag, 1)
        world *= size if isinstance(size, int) else 1
    return tuple(left[:world])


def _shown(launch: Launch, kind_name: str) -> list[Sequence[str] | None]:
    """Return how the launch's choice of GPUs is narrowed: by the container's devices, then by the environment.

    A container does not inherit the environment of this host.
    """
    expand = expander(launch.variables, f"configuration {launch.configuration.label}")
    given = launch.engine.container.gpus if kind_name == "docker" else "all"
    host = {} if kind_name == "docker" else dict(launch.variables)
    visible = (host | engine_environment(launch.configuration, expand)).get("CUDA_VISIBLE_DEVICES")
    return [
        None if given == "all" else [] if given == "none" else given,
        None if visible is None else visible.split(","),
    ]


def _chosen(words: Sequence[str], left: Sequence[int], uuids: Sequence[str | None]) -> list[int]:
    chosen: list[int] = []
    for word in map(str.strip, words):
        named = (at for at, index in enumerate(left) if _names(word, uuids[index]))
        at = int(word) if word.isdecimal() else next(named, -1)
        if not 0 <= at < len(left):
            break  # CUDA, too, stops at the first that it does not know
        chosen.append(left[at])
    return chosen


def _names(word: str, uuid: str | None) -> bool:
    return bool(word) and uuid is not None and uuid.startswith(word)


def _lost(cause: str) -> MeasurementError:
    return MeasurementError(category="cuda_driver", phase="launch", cause=cause, retryable=True)
