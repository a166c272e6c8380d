"""Virtual time: an event loop whose clock jumps whenever everybody waits.

The embedded engine, the load and the scrapes run in one loop; nothing sleeps, so a sweep of hours takes
seconds, and since the clock starts at a fixed moment the same plan gives the same rows.
"""

from __future__ import annotations

import asyncio
import gc
import math
import selectors
from collections import deque
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

Result = TypeVar("Result")

#: When every emulated sweep begins. A date of its own: nothing was measured then.
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
#: Time moves in whole microseconds: sums of seconds then do not differ by how they were added.
TICKS_PER_S = 1_000_000
#: New objects between two searches for garbage in cycles, of which there is little; Python's 700 take 5 % of a sweep.
GARBAGE_EVERY = 100_000
#: Timers so close behind a moment may be due together with it: two ticks, one for each that is rounded up.
_TOGETHER_S = 2 / TICKS_PER_S
#: A thousandth of a tick, which is a float's error and not a wish to wait for the next one.
_NOISE = 1e-3


class _Loop(asyncio.SelectorEventLoop):
    """Waiting takes no time. Signals and pipes are looked at whenever time would pass."""

    # asyncio's own: what runs next, and a heap of timers.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, start_s: float = 0.0) -> None:
        self._ticks = round(start_s * TICKS_PER_S)
        self._now = self._ticks / TICKS_PER_S
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        """Move the clock on, to the first tick that does not lie before the time that is waited for."""
        self._ticks += max(0, math.ceil(seconds * TICKS_PER_S - _NOISE))
        self._now = self._ticks / TICKS_PER_S

    def pass_alone(self, seconds: float) -> bool:
        """Move the clock on where nothing else would happen until then; return whether that was so."""
        if self._ready or (self._scheduled and self._scheduled[0].when() <= self._now + seconds + _TOGETHER_S):
            return False
        self.jump(seconds)
        return True


class _Selector(selectors.DefaultSelector):
    """What a loop waits with: here the one thing to wait for is the next timer, and it is there at once."""

    def __init__(self, loop: _Loop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not timeout:  # something is ready, or nothing but a signal can come
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self._loop.jump(timeout)
        return ready


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
        """Wait, letting others work. Most steps of an engine end before anybody has work: that needs no loop."""
        loop = asyncio.get_running_loop()
        if not (isinstance(loop, _Loop) and loop.pass_alone(seconds)):
            await asyncio.sleep(seconds)


def run(work: Coroutine[Any, Any, Result], start_s: float = 0.0) -> Result:
    """Run a coroutine in virtual time, from `start_s` on, and return what it returns."""
    often = gc.get_threshold()
    gc.set_threshold(GARBAGE_EVERY)
    try:
        with asyncio.Runner(loop_factory=lambda: _Loop(start_s)) as runner:
            return runner.run(work)
    finally:
        gc.set_threshold(*often)
