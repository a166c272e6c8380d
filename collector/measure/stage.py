"""One stage inside a running engine: warm up, scrape, load, scrape, confirm.

The window lies between the returns of the scrape before the first request and the first scrape sent
after the last response; a further scrape confirms that nothing moved since.
"""

from __future__ import annotations

from dataclasses import dataclass

from collector.core.configuration import Stage
from collector.core.plan_schema import Limits
from collector.core.telemetry import GpuWatch
from collector.core.window import WHOLE_STAGE, Request, Sample, Telemetry
from collector.measure.clock import Clock
from collector.measure.engines.interface import Running
from collector.measure.load import drive, lanes
from collector.measure.scrape import scrape
from collector.measure.sensor import Sensor, sensing
from collector.measure.watch import Watch
from collector.measure.workload import prepare

#: Long enough for counters that lag to move, short enough to cost nothing.
CONFIRM_AFTER_S = 0.2
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
    tokenized: tuple[int, ...] | None
    telemetry: Telemetry
    gpus: GpuWatch | None
    prompt_set_digest: str


async def measure_stage(  # noqa: PLR0913  # what is measured, how, and with what: none of it belongs together
    engine: Running,
    stage: Stage,
    limits: Limits,
    clock: Clock,
    *,
    model: str,
    salt: str,
    max_model_len: int | None = None,
    sensor: Sensor | None = None,
) -> Measured:
    """Measure a stage. Raises MeasurementError when the engine stalls, EngineError when it cannot be scraped."""
    target = engine.target
    async with target.client(SCRAPE_TIMEOUT_S) as observer, lanes(target, stage.concurrency, limits.request_s) as ours:
        work = await prepare(observer, stage, model=model, salt=salt, max_model_len=max_model_len)
        await Watch(target, clock, limits.stage_stall_s).during(
            lambda began: drive(ours, work.warm_up, clock, began), clock.monotonic()
        )
        cpu = clock.cpu()
        before, began = await scrape(observer, clock), engine.telemetry()
        watch = Watch(target, clock, limits.stage_stall_s)
        async with sensing(sensor, clock, before.returned_at) as sensed:
            tally = await watch.during(lambda began: drive(ours, work.measured, clock, began), before.returned_at)
            after, ended = await scrape(observer, clock), engine.telemetry()
        spent = clock.cpu()
        await clock.sleep(CONFIRM_AFTER_S)
        confirm = await scrape(observer, clock)
    return Measured(
        method=WHOLE_STAGE,
        window_s=after.returned_at - before.returned_at,
        scrape_s=after.took_s,
        client_cpu_s=_difference(spent, cpu),
        before=before.text,
        after=after.text,
        confirm=confirm.text,
        requests_sent=tally.sent,
        requests=tuple(tally.requests),
        samples=tuple(watch.samples),
        tokenized=work.tokenized,
        telemetry=_between(began, ended),
        gpus=sensed.watch,
        prompt_set_digest=work.prompt_set_digest,
    )


def _between(began: Telemetry, ended: Telemetry) -> Telemetry:
    """Return what was counted between two readings."""
    if began.nvlink_bytes is None or ended.nvlink_bytes is None:
        return Telemetry()
    return Telemetry(nvlink_bytes=ended.nvlink_bytes - began.nvlink_bytes)


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before
