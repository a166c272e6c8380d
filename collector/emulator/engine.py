"""The embedded engine's life: start, step after step on the clock it is given, end.

Nothing here asks the system for the time. In virtual time a sleep costs nothing; in real time the same
engine serves real clients. How long a step takes is the step-time model's word.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress

from collector.core.step import StepTime
from collector.emulator.faults import Faults
from collector.emulator.launch import Clock, launch
from collector.emulator.log import Log
from collector.emulator.memory import RefusedStartError
from collector.emulator.profile import Profile
from collector.emulator.request import Acceptance, Request
from collector.emulator.scheduler import Outputs
from collector.emulator.setup import Setup
from collector.emulator.start_log import StartLog, died
from collector.emulator.tokens import seed_of

KILLED = -9
BROKEN = 70


class EngineDeadError(Exception):
    """The engine died while a request was in it."""


class EmbeddedEngine:
    """One engine of one configuration.

    `faults` None: those that the profile scripts. `started_at`: the Unix time of its launch, for what is dated.
    """

    def __init__(
        self,
        profile: Profile,
        setup: Setup,
        *,
        clock: Clock,
        step_time: StepTime,
        faults: Faults | None = None,
        started_at: float = 0.0,
    ) -> None:
        self.profile = profile
        self.setup = setup
        self.clock = clock
        self.model = profile.model(setup.model)
        scripted = profile.outcome(setup)
        self.faults = faults or (scripted and scripted.faults) or Faults()
        if setup.speculates and not (scripted and scripted.log):  # a profile that knows no such drafts says so now
            self._conditional(profile.default_kind)
        self._lone = {} if setup.synthetic else profile.lone_acceptance(setup)
        self.log = Log(self.unix)
        self.exit_code: int | None = None
        self.completions = 0  # asked for, over all ways to the engine
        self._step_time = step_time
        self._began = clock.monotonic()
        self._started_at = started_at
        self._life: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._ended = asyncio.Event()
        self._wake = asyncio.Event()
        self._waiters: dict[Request, asyncio.Future[None]] = {}
        self._gone = False

    def unix(self) -> float:
        return self._started_at + self.clock.monotonic() - self._began

    @property
    def listening(self) -> bool:
        """Whether a connection would be accepted."""
        return self._ready.is_set() and not self._ended.is_set()

    def start(self) -> None:
        """Launch the engine; its life goes on in a task of its own."""
        self._life = asyncio.create_task(self._live())

    async def ready(self) -> bool:
        """Wait until the engine serves, or has ended without; return whether it serves."""
        waits = [asyncio.ensure_future(one.wait()) for one in (self._ready, self._ended)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()
        return self.listening

    async def ended(self) -> int:
        """Wait until the engine has ended by itself or was stopped; return its exit code."""
        await self._ended.wait()
        return self.exit_code or 0

    async def stop(self) -> int:
        """End the engine; requests that are still in it fail."""
        if self.exit_code is None:
            self._end(0)
        if self._life is not None:
            self._life.cancel()
            with suppress(asyncio.CancelledError):
                await self._life
        return self.exit_code or 0

    async def _live(self) -> None:
        told = StartLog(self.log, self.profile, self.setup)
        try:
            parts = await launch(self.profile, self.setup, self.faults, self.clock, told, self.unix)
            self.kv, self.scheduler, self.metrics = parts.kv, parts.scheduler, parts.metrics
            self._ready.set()
            self._end(await self._serve())
        except RefusedStartError as refusal:
            told.refused(refusal)
            self._end(refusal.exit_code)
        finally:
            self._end(BROKEN)  # where nothing of the above did: a fault of ours, which `stop` raises

    def _end(self, exit_code: int) -> None:
        if not self._ended.is_set():
            self.exit_code = exit_code
            self._ended.set()
        for future in self._waiters.values():
            if not future.done():
                future.set_exception(EngineDeadError())
                future.exception()  # nobody may be left to fetch it
        self._waiters.clear()

    async def _serve(self) -> int:
        """Step while there is something to do, wait without a tick while there is not; return the exit code."""
        scheduler, clock, faults = self.scheduler, self.clock, self.faults
        produced = 0
        while True:
            if self._gone:
                self._gone = False
                scheduler.drop_gone()
                self.metrics.gauges(scheduler)
            began = clock.monotonic()
            step = scheduler.schedule(began) if scheduler.busy else None
            if step is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            until = began + self._step_time(step.load)
            await clock.sleep(max(0.0, until - clock.monotonic()))
            done = scheduler.finish(step)
            before, produced = produced, produced + done.tokens
            if before < (faults.die_after_tokens or 0) <= produced:
                return self._die()
            self.metrics.step(step, done, scheduler, clock.monotonic())
            if before < (faults.reset_after_tokens or 0) <= produced:
                self.metrics.begin(self.unix())
            self._deliver(done)
            if faults.hang_after_tokens and produced >= faults.hang_after_tokens:
                await asyncio.Event().wait()

    def _deliver(self, done: Outputs) -> None:
        for request in done.requests:
            if request.deliver is not None:
                request.deliver(request.output, request.finish_reason)
        for request in done.ended:
            future = self._waiters.pop(request, None)
            if future is not None and not future.done():
                future.set_result(None)

    def _die(self) -> int:
        if self.faults.die_silently:
            return KILLED
        died(self.log, self.setup.tensor_parallel)
        return self.faults.die_exit_code

    async def generate(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        *,
        kind: str,
        arrived: float,
        may_stop: bool = False,
        deliver: Callable[[int, str | None], None] | None = None,
    ) -> Request:
        """Answer a prompt and return the finished request. Raises EngineDeadError when the engine dies.

        `deliver` is called after every step that gave the request tokens, with their number and, at the last,
        the reason to end. Cancelled, the request is dropped as that of a client that has gone.
        """
        if not self.listening:
            raise EngineDeadError
        request = self._request(prompt, max_tokens, kind, arrived, may_stop)
        request.deliver = deliver
        future = self._waiters[request] = asyncio.get_running_loop().create_future()
        self.scheduler.add(request)
        self._wake.set()
        try:
            await future
        finally:
            if request.finish_reason is None:
                request.gone = self._gone = True
                self._waiters.pop(request, None)
                self._wake.set()
        return request

    def _request(self, prompt: Sequence[int], max_tokens: int, kind: str, arrived: float, may_stop: bool) -> Request:
        setup = self.setup
        seed = seed_of(setup.model, prompt, self.profile.seed)
        lone = kind in self._lone and not self._waiters
        accept = Acceptance(seed, self._lone[kind] if lone else self._conditional(kind)) if setup.speculates else None
        mean = self.model.answer_tokens
        stop_at = None
        if may_stop and mean:  # an exponential length, drawn from the prompt alone
            stop_at = 1 + int(-mean * math.log(1 - (seed >> 11) / (1 << 53)))
        return Request(
            prompt,
            max_tokens,
            seed=seed,
            arrived=arrived,
            accept=accept,
            stop_at=stop_at,
        )

    def _conditional(self, kind: str) -> tuple[float, ...]:
        s = self.setup
        return s.synthetic or self.profile.conditional(s.model, s.speculation, s.num_speculative_tokens, kind)
