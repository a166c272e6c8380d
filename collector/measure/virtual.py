"""Virtual time: a clock that jumps whenever everybody waits, on the event loop of the library looptime.

The embedded engine, the load and the scrapes run in one loop; nothing sleeps, so a sweep of hours takes
seconds, and since the clock starts at a fixed moment the same plan gives the same rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import looptime

#: When every emulated sweep begins. A date of its own: nothing was measured then.
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """The loop's own time. Meaningful only inside `run`."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def utc_now(self) -> datetime:
        try:
            return EPOCH + timedelta(seconds=self.monotonic())
        except RuntimeError:  # before or after the loop
            return EPOCH

    def cpu(self) -> float | None:
        return None  # what the emulation costs says nothing about a client

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


#: Idle turns of the loop before time moves on. The library's default of 42 leaves room for threads and
#: sockets; here everything is a task of the loop, which is idle only when all of them wait for time.
NOOP_CYCLES = 0


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=_loop) as runner:
        runner.run(work)


def _loop() -> asyncio.AbstractEventLoop:
    return looptime.patch_event_loop(asyncio.SelectorEventLoop(), start=0, noop_cycles=NOOP_CYCLES)
