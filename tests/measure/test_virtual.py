"""Virtual time: no waiting, everything in its order, and still open to Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from collector.measure.virtual import TICKS_PER_S, VirtualClock, run

CLOCK = VirtualClock()


def test_a_day_takes_no_time() -> None:
    async def work() -> None:
        assert CLOCK.monotonic() == 0
        await CLOCK.sleep(86_400)
        await asyncio.sleep(86_400)
        assert CLOCK.monotonic() == 172_800

    began = time.monotonic()
    run(work())
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("seconds", [0.1, 1 / 3, 1e-7, 0.029999999999999999, 12.3456785, 0.0])
def test_time_moves_in_whole_ticks_and_nobody_wakes_too_early(seconds: float, alone: bool) -> None:
    async def work() -> None:
        await CLOCK.sleep(1000)
        other = asyncio.ensure_future(asyncio.sleep(0)) if not alone else None
        await CLOCK.sleep(seconds)
        passed = (CLOCK.monotonic() - 1000) * TICKS_PER_S
        assert passed == pytest.approx(round(passed), abs=1e-3)
        assert -1e-2 <= passed - seconds * TICKS_PER_S < 1
        if other:
            await other

    run(work())


def test_who_sleeps_alone_for_many_steps_does_not_pass_the_others_by() -> None:
    seen: list[str] = []

    async def steps() -> None:
        for number in range(10):
            await CLOCK.sleep(0.3)
            seen.append(f"step {number} at {CLOCK.monotonic():.1f}")

    async def observer() -> None:
        while len(seen) < 10:
            await CLOCK.sleep(1)
            seen.append(f"look at {CLOCK.monotonic():.1f}")

    async def work() -> None:
        await asyncio.gather(steps(), observer())

    run(work())
    assert [one for one in seen if "look" in one] == ["look at 1.0", "look at 2.0", "look at 3.0"]
    assert seen.index("look at 1.0") == 3
    assert sorted(seen, key=lambda one: float(one.split()[-1])) == seen


def test_what_is_ready_runs_before_time_moves() -> None:
    async def work() -> None:
        at: list[float] = []

        async def other() -> None:
            at.append(CLOCK.monotonic())

        task = asyncio.ensure_future(other())
        await CLOCK.sleep(5)
        assert at == [0]
        await task

    run(work())


def test_a_time_that_is_over_does_not_turn_the_clock_back() -> None:
    async def work() -> None:
        await CLOCK.sleep(2)
        await CLOCK.sleep(-1)
        assert CLOCK.monotonic() == 2

    run(work())


def test_a_signal_is_noticed_although_nothing_ever_waits() -> None:
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        asyncio.get_running_loop().call_later(100, os.kill, os.getpid(), signal.SIGTERM)
        while True:
            await asyncio.sleep(1)

    with pytest.raises(asyncio.CancelledError):
        run(work())
