"""Closed-loop load: C lanes, each sends its next request when the last one has been answered.

Non-streaming, so the client reads only usage and timing; the engine's counters supply the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from collector.core.window import Request
from collector.measure.client import Answer, Client
from collector.measure.clock import Clock
from collector.measure.target import Target


@dataclass(frozen=True, kw_only=True, slots=True)
class Body:
    """One request, encoded before the window so that encoding costs nothing inside it."""

    path: str
    content: bytes


@dataclass(slots=True)
class Tally:
    """What the load has sent and got back so far; read after the load, or after it was cut short."""

    sent: int
    requests: list[Request]


@asynccontextmanager
async def lanes(target: Target, concurrency: int, request_s: float) -> AsyncIterator[list[Client]]:
    """Give one client with one connection per lane; they are made before the window begins."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(target.client(request_s)) for _ in range(concurrency)]


async def drive(clients: Sequence[Client], bodies: Sequence[Body], clock: Clock, began: float) -> Tally:
    """Send every body once, at most one at a time per client. `began`: the window's start on `clock`."""
    tally = Tally(sent=0, requests=[])
    queue = iter(enumerate(bodies))
    async with asyncio.TaskGroup() as group:
        for lane, client in enumerate(clients):
            group.create_task(_lane(lane, client, queue, tally, clock, began))
    tally.requests.sort(key=lambda one: one.index)
    return tally


async def _lane(
    lane: int,
    client: Client,
    queue: Iterator[tuple[int, Body]],
    tally: Tally,
    clock: Clock,
    began: float,
) -> None:
    for index, body in queue:
        tally.sent += 1
        tally.requests.append(await send(lane, client, index, body, clock, began))


async def send(lane: int, client: Client, index: int, body: Body, clock: Clock, began: float) -> Request:
    """Send one request and return it as answered, whatever the answer."""
    sent = clock.monotonic()
    try:
        response = await client.post(body.path, body.content)
    except httpx.HTTPError as error:
        outcome: dict[str, Any] = _no_response(f"{type(error).__name__}: {error}")
    else:
        outcome = _read(response)
    ended = clock.monotonic()
    return Request(index=index, lane=lane, sent_s=sent - began, ended_s=ended - began, **outcome)


def _no_response(error: str, status: int | None = None) -> dict[str, Any]:
    return {
        "status": status,
        "prompt_tokens": None,
        "completion_tokens": None,
        "finish_reason": None,
        "error": error[:300],
    }


def _read(response: Answer) -> dict[str, Any]:
    """Return what counts of a response; a body of another shape is a failed request, not a crash."""
    if response.status != httpx.codes.OK:
        return _no_response(response.text, response.status)
    try:
        answer = response.json()
        usage, choice = answer["usage"], answer["choices"][0]
        return {
            "status": response.status,
            "prompt_tokens": int(usage["prompt_tokens"]),
            "completion_tokens": int(usage["completion_tokens"]),
            "finish_reason": choice.get("finish_reason"),
        }
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        return _no_response(f"no usage in the response: {type(error).__name__}: {error}", response.status)
