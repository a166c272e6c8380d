"""A small profile, a simple step time, and embedded engines in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from collector.core.series import Samples
from collector.core.step import StepLoad
from collector.emulator.engine import EmbeddedEngine
from collector.emulator.faults import parse_faults
from collector.emulator.profile import Profile
from collector.emulator.request import Request
from collector.emulator.setup import Setup
from collector.measure.scrape import parse
from collector.measure.virtual import VirtualClock
from collector.measure.virtual import run as run_virtually

GIB = 1 << 30
#: One layer's keys and values of a token take 1 KiB, so a block of 16 tokens of 8 layers takes 128 KiB.
PROFILE: dict[str, Any] = {
    "profile": 1,
    "name": "test host",
    "memory": {"gpu_bytes": 24 * GIB, "non_torch_bytes": GIB, "activation_bytes": GIB, "graph_bytes": GIB // 2},
    "models": {
        "plain": {"weights_bytes": 8 * GIB, "layers": 8, "kv_bytes_per_token_layer": 1024, "load_s": 30},
        "sliding": {
            "weights_bytes": 8 * GIB,
            "layers": 12,
            "sliding_layers": 10,
            "sliding_window": 64,
            "kv_bytes_per_token_layer": 1024,
            "attention_backends": {"auto": ["TRITON_ATTN", "FLEX_ATTENTION"], "fp8_e5m2": ["FLASHINFER"]},
            "drafters": {"dflash": {"weights_bytes": 2 * GIB, "layers": 2}},
        },
    },
    "acceptance": {
        "plain": {
            "mtp": {"4": {"synthetic": [0.9, 0.8, 0.7, 0.6], "code": [0.95, 0.9, 0.9, 0.9], "korean": [0.4, 0.3]}}
        },
        "sliding": {"dflash": {"7": {"synthetic": [0.9, 0.8, 0.7]}}},
    },
}

#: Every scenario runs on this clock unless it says otherwise.
CLOCK = VirtualClock()


def profile(**changes: Any) -> Profile:
    """Return the test profile with some of its entries replaced."""
    return Profile.model_validate(PROFILE | changes)


def step_time(load: StepLoad) -> float:
    """Return 10 ms a step and 10 µs a position."""
    return 0.01 + 1e-5 * (load.prefill_positions + load.decode_positions)


def setup(**facts: Any) -> Setup:
    defaults: dict[str, Any] = {"model": "plain", "max_model_len": 2048, "max_num_seqs": 32}
    return Setup(**(defaults | facts))


def make(
    facts: Mapping[str, Any] | None = None,
    faults: Mapping[str, Any] | None = None,
    seen: list[StepLoad] | None = None,
    of: Profile | None = None,
) -> EmbeddedEngine:
    """Return an engine that has not been started; `seen` gets the load of each step."""

    def timed(load: StepLoad) -> float:
        if seen is not None:
            seen.append(load)
        return step_time(load)

    return EmbeddedEngine(
        of or profile(),
        setup(**(facts or {})),
        clock=CLOCK,
        step_time=timed,
        faults=parse_faults(faults) if faults else None,
    )


@asynccontextmanager
async def started(engine: EmbeddedEngine) -> AsyncIterator[EmbeddedEngine]:
    """Run an engine that is expected to start."""
    engine.start()
    try:
        assert await engine.ready(), engine.log.text()
        yield engine
    finally:
        await engine.stop()


def prompt(index: int, size: int = 50) -> list[int]:
    """Return a prompt of its own from the first token on."""
    return [(index * 7919 + place * 104_729) % 100_000 for place in range(size)]


async def answer(engine: EmbeddedEngine, index: int, size: int, tokens: int, **more: Any) -> Request:
    defaults: dict[str, Any] = {"kind": "synthetic", "arrived": engine.clock.monotonic()}
    given = defaults | more
    return await engine.generate(prompt(index, size), tokens, **given)


async def drive(
    engine: EmbeddedEngine, requests: Sequence[tuple[int, int]], concurrency: int, **more: Any
) -> list[Request]:
    """Send requests, each of a prompt length and an answer length, so many at once; return them in order."""
    done: dict[int, Request] = {}
    waiting = iter(enumerate(requests))

    async def lane() -> None:
        for index, (size, tokens) in waiting:
            done[index] = await answer(engine, index, size, tokens, **more)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(lane())
    return [done[index] for index in range(len(requests))]


def scenario(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine in virtual time."""
    run_virtually(work())


def samples(engine: EmbeddedEngine) -> Samples:
    return parse(engine.metrics.text())


def total(found: Samples, name: str, **labels: str) -> float:
    """Return the sum of a series over the label sets that have these labels."""
    wanted = set(labels.items())
    return sum(value for own, value in found[f"vllm:{name}"].items() if wanted <= set(own))
