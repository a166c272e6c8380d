"""A window inside a running load: it opens when every lane is busy and closes while every lane still is.

Each lane sends ramp requests until the window is open, then measured ones until it is closed; what is under way
then is answered outside the window. The measured prompts were not seen before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from collector.core.window import Request, Sample
from collector.measure.client import Client
from collector.measure.clock import Clock
from collector.measure.load import Body, Tally, send

Edge = TypeVar("Edge")


class Steady(Generic[Edge]):
    """One steady load, whose window closes when so many measured requests are answered.

    `edge` reads what is needed at an edge of the window; `edges` has both once the load is done.
    """

    def __init__(self, edge: Callable[[], Awaitable[Edge]], clock: Clock, *, requests: int) -> None:
        self._edge = edge
        self._clock = clock
        self._wanted = requests
        self._answered = 0
        self._ramping: set[int] = set()  # lanes whose first request is not answered yet
        self._open = self._closed = False
        self._full, self._enough = asyncio.Event(), asyncio.Event()
        self.edges: tuple[Edge, Edge]

    async def drive(
        self, clients: Sequence[Client], ramp: Sequence[Body], measured: Sequence[Body], began: float
    ) -> Tally:
        """Run the load to its end. Times of the requests are from `began` on. Raises what `edge` raises."""
        tally = Tally(sent=0, requests=[])
        queues = ((-1 - number, body) for number, body in enumerate(ramp)), iter(enumerate(measured))
        self._ramping = set(range(len(clients)))
        lanes = [
            asyncio.ensure_future(self._lane(lane, client, queues, tally, began)) for lane, client in enumerate(clients)
        ]
        try:
            await self._full.wait()
            opened = await self._edge()
            self._open = True
            await self._enough.wait()
            self.edges = opened, await self._edge()
            self._closed = True
            await asyncio.gather(*lanes)
        finally:
            for one in lanes:
                one.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)
        return tally

    async def _lane(
        self,
        lane: int,
        client: Client,
        queues: tuple[Iterator[tuple[int, Body]], Iterator[tuple[int, Body]]],
        tally: Tally,
        began: float,
    ) -> None:
        try:
            while not self._closed and (following := next(queues[self._open], None)):
                tally.sent += 1
                tally.requests.append(await send(lane, client, *following, self._clock, began))
                self._note(lane, following[0])
        finally:  # a lane that has nothing left to send, or that broke, must not be waited for
            self._full.set()
            self._enough.set()

    def _note(self, lane: int, index: int) -> None:
        self._ramping.discard(lane)
        if not self._ramping:
            self._full.set()
        self._answered += index >= 0
        if self._answered >= self._wanted:
            self._enough.set()


def from_opening(tally: Tally, opened_s: float) -> tuple[Request, ...]:
    """Return the requests with times since the window opened, in the order of their index."""
    moved = (replace(one, sent_s=one.sent_s - opened_s, ended_s=one.ended_s - opened_s) for one in tally.requests)
    return tuple(sorted(moved, key=lambda one: one.index))


def inside(samples: Sequence[Sample], opened_s: float, window_s: float) -> tuple[Sample, ...]:
    """Return the samples taken inside the window, with times since it opened."""
    moved = (replace(one, at_s=one.at_s - opened_s) for one in samples)
    return tuple(one for one in moved if 0 <= one.at_s <= window_s)
