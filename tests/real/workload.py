"""The requests that a real vLLM and the embedded engine both get, series by series and part by part."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from collector.core.window import Request
from collector.measure.client import Client, encoded
from collector.measure.clock import Clock
from collector.measure.engines.interface import Running
from collector.measure.load import Body, drive, lanes
from collector.measure.scrape import gauges, scrape

MODEL = "tiny-a"
REQUEST_S = 300.0
SAMPLE_S = 0.02
#: Requests sent at a time where more are sent than the engine runs.
LANES = 8

#: Why some figures of a part cannot be equal; test_differential says which.
TOGETHER = "which requests share a step, and how many steps there are, depends on when each request arrives"
PREEMPTS = "when each request arrives decides which of them is preempted, and how often"
WRITES = "what n-grams draft, and so how many steps there are, depends on the text that the model writes"
LEAVES = "how far an answer is when its client goes depends on how fast the engine is"

Send = Callable[[Running, Clock], Awaitable[tuple[Request, ...]]]
#: A prompt and how many tokens are asked for.
Ask = tuple[list[int], int]


@dataclass(frozen=True)
class Part:
    send: Send
    unequal: tuple[str, ...] = ()


def prompt(seed: int, size: int, head: Sequence[int] = ()) -> list[int]:
    """Return a head and token ids of one's own; the first two ids of the vocabulary begin and end a text."""
    dice = random.Random(seed)
    return [*head, *(dice.randrange(2, 512) for _ in range(size))]


def load(concurrency: int, asks: Sequence[Ask], *unequal: str, **changes: object) -> Part:
    """Send every request once, so many at a time."""
    common = {"model": MODEL, "ignore_eos": True, "temperature": 0}
    wanted = [common | {"prompt": prompt, "max_tokens": tokens} | changes for prompt, tokens in asks]
    bodies = [Body(path="/v1/completions", content=json.dumps(body).encode()) for body in wanted]

    async def send(engine: Running, clock: Clock) -> tuple[Request, ...]:
        async with lanes(engine.target, concurrency, REQUEST_S) as ours:
            return tuple((await drive(ours, bodies, clock, clock.monotonic())).requests)

    return Part(send, unequal)


async def _routes(engine: Running, clock: Clock) -> tuple[Request, ...]:
    """Ask for what collector or a monitor asks for, for what is not there, and with a body that is not JSON."""
    async with engine.target.client(REQUEST_S) as client:
        for path in ("/health", "/ping", "/version", "/metrics", "/v1/models", "/absent"):
            await client.get(path)
        await client.post("/tokenize", encoded({"model": MODEL, "prompt": "a b c"}))
        await client.post("/v1/completions", b"{")
    return ()


async def _leave(engine: Running, clock: Clock) -> tuple[Request, ...]:
    """Ask for a long answer, go away in the middle of it, and wait until the engine is idle again."""
    async with engine.target.client(REQUEST_S) as client, engine.target.client(REQUEST_S) as observer:
        begun = (await _gauges(observer, clock))["generation_tokens"]
        body = {"model": MODEL, "ignore_eos": True, "prompt": prompt(900, 200), "max_tokens": 800}
        asking = asyncio.ensure_future(client.post("/v1/completions", encoded(body)))
        while (await _gauges(observer, clock))["generation_tokens"] < begun + 5:
            assert not asking.done()
            await clock.sleep(SAMPLE_S)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        while (await _gauges(observer, clock))["running"]:
            await clock.sleep(SAMPLE_S)
    return ()


async def _gauges(client: Client, clock: Clock) -> dict[str, float]:
    return {name: value or 0.0 for name, value in gauges((await scrape(client, clock)).text).items()}


async def watched(engine: Running, send: Send, clock: Clock) -> tuple[tuple[Request, ...], Mapping[str, float]]:
    """Send a part; return its requests and the highest value that was seen of each gauge."""
    peaks: dict[str, float] = {}

    async def watch() -> None:
        async with engine.target.client(REQUEST_S) as observer:
            while True:
                for name, value in (await _gauges(observer, clock)).items():
                    peaks[name] = max(value, peaks.get(name, 0.0))
                await clock.sleep(SAMPLE_S)

    watching = asyncio.ensure_future(watch())
    try:
        return await send(engine, clock), peaks
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


HEAD = prompt(1, 300)
FOUR: list[Ask] = [(prompt(10, 1), 1), (prompt(11, 127), 2), (prompt(12, 128), 17), (prompt(13, 600), 64)]
TWELVE: list[Ask] = [(prompt(100 + n, 30 + 41 * n), 20 + 3 * n) for n in range(12)]
SHORTEST: list[Ask] = [(prompt(600 + n, 70), 1) for n in range(4)]
#: A whole repeat, a shared head of two blocks, and prompts that end with a block or just after.
REPEATS: list[Ask] = [
    (prompt(200, 50, HEAD), 8),
    (prompt(200, 50, HEAD), 8),
    (prompt(201, 200, HEAD), 8),
    (HEAD[:256], 8),
    (HEAD, 8),
    (HEAD[:129], 8),
    (HEAD[:128], 8),
]
#: Each prompt twice, all with the same head.
PAIRS: list[Ask] = [(prompt(300 + n // 2, 20 + 30 * (n // 2), HEAD), 96) for n in range(16)]
#: Three prompts of one, one and two blocks come back again and again, with answers of up to two blocks more.
RETURNING: list[Ask] = [(prompt(800 + n * n % 5, 180 + 50 * (n * n % 5)), 5 + 60 * (n % 4)) for n in range(24)]
GROWING: list[Ask] = [(prompt(400 + n, 50), 330) for n in range(4)]

PARTS: dict[str, dict[str, Part]] = {
    "ample": {
        "one by one": load(1, FOUR),
        "repeats": load(1, REPEATS),
        "four at once": load(4, TWELVE, TOGETHER),
        "more than fit": load(LANES, PAIRS, TOGETHER),
        "default length": load(1, FOUR[:2], max_tokens=None),
        "too long": load(1, [(prompt(500, 1000), 25)]),
        "another model": load(1, FOUR, model="absent"),
        "routes": Part(_routes),
        "client gone": Part(_leave, (LEAVES,)),
    },
    "small-cache": {
        "evicted": load(1, RETURNING),
        "preempted": load(4, GROWING, TOGETHER, PREEMPTS),
    },
    "twin": {
        "one token": load(2, SHORTEST, TOGETHER),
        "one by one": load(1, FOUR),
        "repeats": load(1, REPEATS),
        "four at once": load(4, TWELVE, TOGETHER),
    },
    "ngram": {
        "one token": load(2, SHORTEST, TOGETHER),
        "one by one": load(1, FOUR, WRITES),
        "four at once": load(4, TWELVE + TWELVE[:4], WRITES),
    },
}
