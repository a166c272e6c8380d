"""One stage inside a running engine: warm up, scrape, load, scrape, confirm.

The window lies between the returns of the scrape before the first request and the first scrape sent
after the last response; a further scrape confirms that nothing moved since.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from collector.core.errors import EngineError
from collector.core.plan import Stage
from collector.core.plan_schema import Limits
from collector.core.window import WHOLE_STAGE, Request, Sample
from collector.measure.clock import Clock
from collector.measure.engines.interface import Running
from collector.measure.load import Body, Tally, drive, lanes
from collector.measure.prompts import PromptSet, load_prompt_set, repetitions_for, request_body, tokenize_body
from collector.measure.scrape import Scrape, scrape
from collector.measure.target import post_json
from collector.measure.watch import Watch

#: Long enough for counters that lag to move, short enough to cost nothing.
CONFIRM_AFTER_S = 0.2
#: Repetitions of the synthetic sentences where the engine cannot count tokens (the reference's number).
REPETITIONS_UNCOUNTED = 26
SCRAPE_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The raw evidence of a stage, as it is stored."""

    method: str
    window_s: float
    scrape_s: float
    client_cpu_s: float | None
    before: str
    after: str
    confirm: str
    requests_sent: int
    requests: tuple[Request, ...]
    samples: tuple[Sample, ...]
    prompt_set_digest: str


async def measure_stage(
    engine: Running, stage: Stage, limits: Limits, clock: Clock, *, model: str, salt: str
) -> Measured:
    """Measure a stage. Raises MeasurementError when the engine stalls, EngineError when it cannot be scraped."""
    prompt_set = load_prompt_set(stage.prompt_set)
    async with engine.target.client(SCRAPE_TIMEOUT_S) as observer:
        repetitions = await _repetitions(observer, prompt_set, stage, model)

        def bodies(count: int, output_tokens: int, part: str) -> list[Body]:
            return _bodies(prompt_set, count, model, f"{salt}/{part}", repetitions, output_tokens)

        async with lanes(engine.target, stage.concurrency, limits.request_s) as clients:
            watch = Watch(engine.target, clock, limits.stage_stall_s)
            warm = bodies(stage.warmup_requests, stage.warmup_output_tokens, "warm-up")
            await watch.during(lambda began: drive(clients, warm, clock, began), clock.monotonic())
            load = bodies(stage.requests, stage.output_tokens, "measure")
            cpu = clock.cpu()
            before = await scrape(observer, clock)
            watch = Watch(engine.target, clock, limits.stage_stall_s)
            tally = await watch.during(lambda began: drive(clients, load, clock, began), before.returned_at)
            after = await scrape(observer, clock)
            spent = clock.cpu()
            await clock.sleep(CONFIRM_AFTER_S)
            confirm = await scrape(observer, clock)
    return _measured(tally, watch.samples, (before, after, confirm), _difference(spent, cpu), prompt_set)


def _measured(
    tally: Tally, samples: list[Sample], scrapes: Sequence[Scrape], cpu: float | None, prompt_set: PromptSet
) -> Measured:
    before, after, confirm = scrapes
    return Measured(
        method=WHOLE_STAGE,
        window_s=after.returned_at - before.returned_at,
        scrape_s=after.took_s,
        client_cpu_s=cpu,
        before=before.text,
        after=after.text,
        confirm=confirm.text,
        requests_sent=tally.sent,
        requests=tuple(tally.requests),
        samples=tuple(samples),
        prompt_set_digest=prompt_set.digest,
    )


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


async def _repetitions(client: httpx.AsyncClient, prompt_set: PromptSet, stage: Stage, model: str) -> int:
    """Return how often the sentences are repeated to reach the plan's length, by the engine's own tokenizer."""
    if stage.prompt_tokens is None:
        return 1

    async def count(repetitions: int) -> int:
        body = tokenize_body(prompt_set, 0, model=model, salt="length", repetitions=repetitions)
        return int((await post_json(client, "/tokenize", body))["count"])

    try:
        return repetitions_for(stage.prompt_tokens, await count(1), await count(2))
    except (EngineError, KeyError, TypeError, ValueError):
        return REPETITIONS_UNCOUNTED


def _bodies(
    prompt_set: PromptSet, count: int, model: str, salt: str, repetitions: int, output_tokens: int
) -> list[Body]:
    made = (
        request_body(prompt_set, i, model=model, salt=salt, repetitions=repetitions, output_tokens=output_tokens)
        for i in range(count)
    )
    return [Body(path=path, content=json.dumps(body).encode()) for path, body in made]
