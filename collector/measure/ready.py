"""Is the engine ready? /health answers, version and model agree with the plan, and a real completion came right.

A dead engine is noticed at once, a stall by the log's progress and the plan's limits, never by a fixed sleep.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from collector.core.configuration import Run
from collector.core.engine_log import EMULATED_BY
from collector.core.errors import EngineError, RefusedError
from collector.core.plan_schema import Limits
from collector.core.series import cache_info
from collector.measure.client import Client
from collector.measure.clock import Clock
from collector.measure.engines.interface import Running
from collector.measure.failed import MeasurementError
from collector.measure.prompts import load_prompt_set, request_body
from collector.measure.scrape import parse, scrape
from collector.measure.target import get_json, post_json, status_of

#: /health is asked often at first, for an engine that is there at once, and each second for one that loads.
FIRST_POLL_S = 0.1
LAST_POLL_S = 1.0
SLOWER = 1.5
#: Long enough for a drafter to be asked at least once, short enough to cost nothing.
PROBE_TOKENS = 16
#: The web server's word that it answers; then a /health other than 200 is no matter of time.
STARTED = "Application startup complete."

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """What the engine says of itself."""

    version: str
    emulated: bool  # it is the embedded engine, on a port
    max_model_len: int | None
    start_s: float


async def unless_ended(engine: Running, work: Awaitable[Result]) -> Result:
    """Do some work with a living engine. Raises MeasurementError (verdict by its log) as soon as it has ended."""
    task = asyncio.ensure_future(work)
    ended = asyncio.ensure_future(engine.ended())
    try:
        await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done() and not task.done():
            ended.result()  # raises where its end cannot be seen any more
            raise MeasurementError(category=None, phase="", cause="the engine ended")
        return await task
    finally:
        for one in (task, ended):
            one.cancel()
        await asyncio.gather(task, ended, return_exceptions=True)


async def wait_ready(engine: Running, run: Run, limits: Limits, clock: Clock, *, began: float) -> Ready:
    """Wait until requests are answered. Raises MeasurementError with category and phase."""
    async with engine.target.client(limits.request_s) as client:
        await unless_ended(engine, _healthy(engine, client, limits, clock, began))
        statement, longest = await unless_ended(engine, _agrees(client, run))
        if not engine.owned:
            await unless_ended(engine, _cache_agrees(client, run, clock))
        await unless_ended(engine, _probe(client, run))
    return Ready(
        version=str(statement["version"]),
        emulated=EMULATED_BY in statement,
        max_model_len=longest,
        start_s=clock.monotonic() - began,
    )


async def _healthy(engine: Running, client: Client, limits: Limits, clock: Clock, began: float) -> None:
    size, moved, pause = engine.log_size(), clock.monotonic(), FIRST_POLL_S
    while (status := await status_of(client, "/health")) != httpx.codes.OK:
        now = clock.monotonic()
        if engine.log_size() != size:
            size, moved = engine.log_size(), now
        if now - began > limits.ready_s:
            raise _timeout(f"not ready after ready_s = {limits.ready_s:g} s", status)
        if engine.owned and now - moved > limits.start_stall_s:
            raise _timeout(f"no new log line for start_stall_s = {limits.start_stall_s:g} s", status)
        if status not in (None, httpx.codes.SERVICE_UNAVAILABLE) and _serves(engine):
            cause = f"/health answers {status}, though the engine is up"
            raise MeasurementError(category="environment", phase="ready", retryable=True, cause=cause)
        if not engine.owned and status is None:
            raise MeasurementError(
                category="environment", phase="launch", retryable=True, cause="/health: nobody answers there"
            )
        await clock.sleep(pause)
        pause = min(pause * SLOWER, LAST_POLL_S)


def _serves(engine: Running) -> bool:
    """Whether the engine says that it has started; of one that somebody else runs, that is taken for granted."""
    return not engine.owned or STARTED in engine.log_text()


def _timeout(reason: str, status: int | None) -> MeasurementError:
    health = "does not answer" if status is None else f"answers {status}"
    return MeasurementError(category="timeout", phase="", cause=f"{reason}; /health {health}", retryable=True)


async def _agrees(client: Client, run: Run) -> tuple[dict[str, Any], int | None]:
    """Return what GET /version answers and the longest sequence.

    An engine that is another than the plan says gives false rows.
    """
    wanted, model = run.configuration.version, run.configuration.model
    try:
        statement: dict[str, Any] = await get_json(client, "/version")
        version = str(statement["version"])
        served: list[dict[str, Any]] = (await get_json(client, "/v1/models"))["data"]
        names = [str(one["id"]) for one in served]
    except (EngineError, KeyError, TypeError, AttributeError) as error:
        raise MeasurementError(
            category="environment", phase="ready", retryable=True, cause=f"not the routes of vLLM: {error}"
        ) from error
    if wanted and version != wanted and not version.startswith((f"{wanted}+", f"{wanted}.post")):
        cause = f"the engine is version {version}, the plan asks for {wanted}"
        raise MeasurementError(category="environment", phase="ready", retryable=True, cause=cause)
    if model not in names:
        cause = f"the engine serves {', '.join(names)}, the plan asks for {model}"
        raise MeasurementError(category="environment", phase="ready", retryable=True, cause=cause)
    longest = served[names.index(model)].get("max_model_len")
    if longest is not None and (isinstance(longest, bool) or not isinstance(longest, int)):
        cause = f"/v1/models: found max_model_len {longest!r}, expected a whole number"
        raise MeasurementError(category="environment", phase="ready", retryable=True, cause=cause)
    asked = run.configuration.max_model_len
    if asked and longest and longest != asked:
        cause = f"the engine accepts {longest} tokens, the plan asks for max_model_len {asked}"
        raise MeasurementError(category="environment", phase="ready", retryable=True, cause=cause)
    return statement, longest


async def _cache_agrees(client: Client, run: Run, clock: Clock) -> None:
    """Compare what an engine that somebody else started says of its KV cache with what the rows would say."""
    stated = cache_info(parse((await scrape(client, clock)).text)).dtype
    wanted = run.configuration.kv_cache_dtype
    if stated is not None and stated != wanted:
        cause = f"the engine's KV cache dtype is {stated}, the plan says {wanted}"
        raise MeasurementError(category="environment", phase="ready", retryable=True, cause=cause)


async def _probe(client: Client, run: Run) -> None:
    """Send one short request of each kind that the stages send: up is not yet ready.

    A kind that the engine refuses where it answers another is the matter of its stages.
    """
    names = list(dict.fromkeys(stage.prompt_set for stage in run.stages))
    refusals = [one for name in names if (one := await _probe_one(client, run, name))]
    if len(refusals) == len(names):
        raise refusals[0]


async def _probe_one(client: Client, run: Run, name: str) -> MeasurementError | None:
    """Send one request and return its refusal. Raises MeasurementError for any other answer that is not right."""
    path, body = request_body(
        load_prompt_set(name),
        0,
        model=run.configuration.model,
        salt=f"probe/{run.configuration.configuration_id}/{run.repeat}",
        repetitions=1,
        output_tokens=PROBE_TOKENS,
    )
    try:
        answer = await post_json(client, path, body)
        tokens, reason = answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]
    except EngineError as error:
        cause = f"the first request: {error}"
        if isinstance(error, RefusedError) and httpx.codes.is_client_error(error.status):
            return MeasurementError(category="environment", phase="first_request", retryable=True, cause=cause)
        raise MeasurementError(
            category="crashed_serving", phase="first_request", retryable=True, cause=cause
        ) from error
    except (KeyError, IndexError, TypeError) as error:
        cause = f"the first request: {path} answered without usage"
        raise MeasurementError(category="environment", phase="first_request", retryable=True, cause=cause) from error
    if (tokens, reason) != (PROBE_TOKENS, "length"):
        cause = f"the first request: asked for {PROBE_TOKENS} tokens, got {tokens} ({reason})"
        raise MeasurementError(category="environment", phase="first_request", retryable=True, cause=cause)
    return None
