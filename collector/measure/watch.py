"""Watches a load from the side: samples the gauges, and ends a load under which no token comes any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from collector.core.errors import EngineError
from collector.core.window import Sample
from collector.measure.client import Client
from collector.measure.clock import Clock
from collector.measure.failed import MeasurementError
from collector.measure.load import Tally
from collector.measure.scrape import gauges, scrape
from collector.measure.target import QUICK_S, Target

#: A scrape costs the API server about 5 ms; one a second is half a percent of one core.
SAMPLE_EVERY_S = 1.0
#: The first sample comes early, so that a short window has one.
FIRST_SAMPLE_S = 0.25


class Watch:
    """Samples of one load, over a connection of its own. Made anew for each load.

    The last sample is cancelled under way, after which httpx may not give its connection back (seen on a
    busy machine: PoolTimeout): the scrapes that end the window must not wait for it.
    """

    def __init__(self, target: Target, clock: Clock, stall_s: float) -> None:
        self.samples: list[Sample] = []
        self._target = target
        self._clock = clock
        self._stall_s = stall_s

    async def during(self, load: Callable[[float], Awaitable[Tally]], began: float) -> Tally:
        """Run the load to its end. Raises MeasurementError when it stalls; the load is then cancelled."""
        loading = asyncio.ensure_future(load(began))
        sampling = asyncio.ensure_future(self._sample(began))
        try:
            await asyncio.wait({loading, sampling}, return_when=asyncio.FIRST_COMPLETED)
            if not loading.done():
                await sampling
            return await loading
        finally:
            for task in (loading, sampling):
                task.cancel()
            await asyncio.gather(loading, sampling, return_exceptions=True)

    async def _sample(self, began: float) -> None:
        async with self._target.client(QUICK_S) as client:
            await self._sample_with(client, began)

    async def _sample_with(self, client: Client, began: float) -> None:
        tokens, moved = None, self._clock.monotonic()
        await self._clock.sleep(FIRST_SAMPLE_S)
        while True:
            now = self._clock.monotonic()
            try:
                found = gauges((await scrape(client, self._clock)).text)
            except EngineError:
                pass  # a busy frontend; the limit below judges it
            else:
                self.samples.append(Sample(at_s=now - began, **found))
                # An engine that does not expose the counter cannot be judged by it.
                if found["generation_tokens"] is None or found["generation_tokens"] != tokens:
                    tokens, moved = found["generation_tokens"], now
            if now - moved > self._stall_s:
                cause = f"no new token for stage_stall_s = {self._stall_s:g} s while requests were waiting for one"
                raise MeasurementError(category="timeout", phase="serving", cause=cause, retryable=True)
            await self._clock.sleep(SAMPLE_EVERY_S)
