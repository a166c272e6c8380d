"""One stage inside a running engine: warm up, scrape, load, scrape, confirm.

The window of a whole stage lies between the returns of the scrape before the first request and the first scrape
sent after the last response; a further scrape confirms that nothing moved since. A steady window lies between two
scrapes inside the load, and the further one confirms what the whole load came to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collector.core.configuration import Stage
from collector.core.plan_schema import Limits
from collector.core.telemetry import GpuWatch
from collector.core.window import STEADY, Request, Sample, Telemetry
from collector.measure.client import Client
from collector.measure.clock import Clock
from collector.measure.engines.interface import Running
from collector.measure.load import drive, lanes
from collector.measure.scrape import Scrape, scrape
from collector.measure.sensor import Sensed, Sensor, sensing
from collector.measure.steady import Steady, from_opening, inside
from collector.measure.watch import Watch
from collector.measure.workload import Workload, prepare

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
    idle: str | None = None  # before the load of a steady window
    requests_sent: int
    requests: tuple[Request, ...]
    samples: tuple[Sample, ...]
    tokenized: tuple[int, ...] | None
    telemetry: Telemetry
    gpus: GpuWatch | None
    prompt_set_digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Edge:
    """What is read at an edge of the window."""

    scrape: Scrape
    telemetry: Telemetry
    cpu: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Loaded:
    """A load with the edges of its window; `idle`: the scrape before it, where that is no edge."""

    opened: _Edge
    closed: _Edge
    idle: Scrape | None = None
    sent: int
    requests: Sequence[Request]
    samples: Sequence[Sample]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bench:
    """What a load works with."""

    engine: Running
    clock: Clock
    observer: Client
    lanes: Sequence[Client]
    stall_s: float
    sensed: Sensed

    def watch(self) -> Watch:
        return Watch(self.engine.target, self.clock, self.stall_s)

    async def edge(self) -> _Edge:
        found = await scrape(self.observer, self.clock)
        self.sensed.edge()
        return _Edge(scrape=found, telemetry=self.engine.telemetry(), cpu=self.clock.cpu())


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
        async with sensing(sensor, clock) as sensed:
            bench = _Bench(
                engine=engine, clock=clock, observer=observer, lanes=ours, stall_s=limits.stage_stall_s, sensed=sensed
            )
            load = await (_steady if stage.window == STEADY else _whole_stage)(bench, work, stage)
        await clock.sleep(CONFIRM_AFTER_S)
        confirm = await scrape(observer, clock)
    opened, closed = load.opened, load.closed
    return Measured(
        method=stage.window,
        window_s=closed.scrape.returned_at - opened.scrape.returned_at,
        scrape_s=closed.scrape.took_s,
        client_cpu_s=_difference(closed.cpu, opened.cpu),
        before=opened.scrape.text,
        after=closed.scrape.text,
        confirm=confirm.text,
        idle=load.idle.text if load.idle else None,
        requests_sent=load.sent,
        requests=tuple(load.requests),
        samples=tuple(load.samples),
        tokenized=work.tokenized,
        telemetry=_between(opened.telemetry, closed.telemetry),
        gpus=await sensed.watch(opened.scrape.returned_at, closed.scrape.returned_at),
        prompt_set_digest=work.prompt_set_digest,
    )


async def _whole_stage(bench: _Bench, work: Workload, stage: Stage) -> _Loaded:
    opened, watch = await bench.edge(), bench.watch()
    tally = await watch.during(
        lambda began: drive(bench.lanes, work.measured, bench.clock, began), opened.scrape.returned_at
    )
    closed = await bench.edge()
    return _Loaded(opened=opened, closed=closed, sent=tally.sent, requests=tally.requests, samples=watch.samples)


async def _steady(bench: _Bench, work: Workload, stage: Stage) -> _Loaded:
    idle, watch = await scrape(bench.observer, bench.clock), bench.watch()
    load = Steady(bench.edge, bench.clock, requests=stage.requests)
    began = idle.returned_at
    tally = await watch.during(lambda began: load.drive(bench.lanes, work.ramp, work.measured, began), began)
    opened, closed = load.edges
    opened_s = opened.scrape.returned_at - began
    return _Loaded(
        opened=opened,
        closed=closed,
        idle=idle,
        sent=tally.sent,
        requests=from_opening(tally, opened_s),
        samples=inside(watch.samples, opened_s, closed.scrape.returned_at - opened.scrape.returned_at),
    )


def _between(began: Telemetry, ended: Telemetry) -> Telemetry:
    """Return what was counted between two readings."""
    if began.nvlink_bytes is None or ended.nvlink_bytes is None:
        return Telemetry()
    return Telemetry(nvlink_bytes=ended.nvlink_bytes - began.nvlink_bytes)


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before
