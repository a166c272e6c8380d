"""The sweep: for each engine start of the plan, measure its stages and append a row after each.

What is done is in rows.csv and failures.csv; a sweep on an existing campaign goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from collector import __version__
from collector.core.engine_log import read_engine_log
from collector.core.errors import DataError, EngineError
from collector.core.plan import Plan, Run, Stage, row_id
from collector.core.record import Context, make_row
from collector.core.rows import Failure, Row
from collector.core.series import missing_series
from collector.measure import evidence, journal
from collector.measure.clock import Clock, stamp
from collector.measure.engines.interface import End, Kind, Launch, Running
from collector.measure.failed import MeasurementError
from collector.measure.host import Host
from collector.measure.ready import Ready, unless_ended, wait_ready
from collector.measure.scrape import parse
from collector.measure.stage import Measured, measure_stage
from collector.measure.store import Store
from collector.measure.verdict import failure_of

#: After a request failed, the time in which the death of the engine must have been noticed.
NOTICE_DEATH_S = 1.0
#: Characters of a cause that the terminal shows; failures.csv has all of it.
TOLD_CAUSE = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Everything a sweep works with; time, engine and chance are handed in."""

    plan: Plan
    store: Store
    journal: journal.Journal
    clock: Clock
    host: Host
    kind_name: str
    kind: Kind
    variables: Mapping[str, str]
    salt: str  # makes prompts unlike those of any other sweep
    tell: Callable[[str], None]
    retry_failed: bool = False

    @property
    def provenance(self) -> str:
        return "emulated" if self.kind_name == "emulated" else "measured"


async def sweep(job: Job) -> None:
    """Measure what the plan asks for and the campaign does not have yet."""
    job.journal.note(journal.SWEEP_STARTED, collector_version=__version__, plan_digest=job.plan.digest)
    total = len(job.plan.runs)
    for number, run in enumerate(job.plan.runs, start=1):
        stages = remaining(job, run)
        if stages:
            job.tell(f"[{number}/{total}] {_name(run)}")
            await _measure_run(job, run, stages)
    job.journal.note(journal.SWEEP_FINISHED)


def remaining(job: Job, run: Run) -> tuple[Stage, ...]:
    """Return the stages of a run that have no row yet; none where its engine is known not to start."""
    identity = run.configuration.configuration_id
    have = {row.row_id for row in job.store.rows}
    stages = tuple(one for one in run.stages if row_id(run.configuration, one, run.repeat) not in have)
    failures = [one for one in job.store.failures if one.configuration_id == identity]
    if any(not one.retryable and one.row_id is None for one in failures):
        return ()  # it does not start, in this repeat or another
    if any(one.repeat == run.repeat for one in failures) and not job.retry_failed:
        return ()
    return stages


def _name(run: Run) -> str:
    repeat = f" · repeat {run.repeat}" if run.repeat > 1 else ""
    return f"{run.configuration.label}{repeat} ({run.configuration.configuration_id})"


async def _measure_run(job: Job, run: Run, stages: tuple[Stage, ...]) -> None:
    """Start an engine, measure its stages, end it; a failure becomes a line and the sweep goes on."""
    identity = {"configuration_id": run.configuration.configuration_id, "repeat": run.repeat}
    attempt = job.journal.attempts(run.configuration.configuration_id, run.repeat) + 1
    log = job.store.logs / f"{run.configuration.configuration_id}-r{run.repeat}-a{attempt}.log"
    launch = Launch(configuration=run.configuration, engine=job.plan.engine, log=log, variables=job.variables)
    job.journal.note(journal.START_ATTEMPTED, **identity, attempt=attempt)
    began = job.clock.monotonic()
    progress = _Progress()
    engine: Running | None = None
    error: MeasurementError | None = None
    try:
        engine = await job.kind.start(launch)
        await _stages(job, run, stages, engine, progress, began)
    except MeasurementError as one:
        error = one
    finally:
        stopped_at = len(engine.log_text()) if engine else 0
        end = await asyncio.shield(engine.stop(job.plan.limits.stop_s)) if engine else End()
    if error:
        alive = job.clock.monotonic() - began
        _record_failure(job, run, error, progress, (engine, end, stopped_at), log, attempt, alive)
    else:
        job.journal.note(journal.ENGINE_ENDED, **identity, exit_code=end.exit_code)


@dataclass(slots=True)
class _Progress:
    """How far a run came: needed to say what failed."""

    ready: Ready | None = None
    stage: Stage | None = None
    died: bool = False


async def _stages(
    job: Job, run: Run, stages: tuple[Stage, ...], engine: Running, progress: _Progress, began: float
) -> None:
    identity = {"configuration_id": run.configuration.configuration_id, "repeat": run.repeat}
    try:
        progress.ready = await wait_ready(engine, run, job.plan.limits, job.clock, began=began)
        job.tell(f"    ready after {progress.ready.start_s:.0f} s: vLLM {progress.ready.version}")
        job.journal.note(journal.START_FINISHED, **identity)
        for stage in stages:
            progress.stage = stage
            cell = row_id(run.configuration, stage, run.repeat)
            job.journal.note(journal.STAGE_ATTEMPTED, **identity, row_id=cell)
            row = await _measure_cell(job, run, stage, engine, progress.ready)
            job.journal.note(journal.STAGE_FINISHED, **identity, row_id=cell, checks=row.checks)
            job.tell(_told(row))
    except EngineError as error:
        progress.died = await _has_ended(engine)
        if isinstance(error, MeasurementError) and not (progress.died and error.category is None):
            raise
        if progress.died:
            raise MeasurementError(category=None, phase="", cause="the engine ended") from error
        category = "crashed_serving" if progress.ready else None
        raise MeasurementError(category=category, phase="serving", cause=str(error), retryable=True) from error


async def _has_ended(engine: Running) -> bool:
    try:
        async with asyncio.timeout(NOTICE_DEATH_S):
            await engine.ended()
    except TimeoutError:
        return False
    return True


async def _measure_cell(job: Job, run: Run, stage: Stage, engine: Running, ready: Ready) -> Row:
    """Measure one cell and commit its row: evidence first, then positions, then the row."""
    work = measure_stage(
        engine,
        stage,
        job.plan.limits,
        job.clock,
        model=run.configuration.model,
        salt=f"{job.salt}/{row_id(run.configuration, stage, run.repeat)}",
    )
    measured = await unless_ended(engine, work)
    failed = [one for one in measured.requests if not one.done]
    if failed and await _has_ended(engine):
        raise MeasurementError(category=None, phase="", cause="the engine ended")
    if len(failed) == len(measured.requests):
        cause = f"every request failed, the first with: {failed[0].status or ''} {failed[0].error}"
        raise MeasurementError(category="crashed_serving", phase="serving", cause=cause)
    context = _context(job, run, engine, ready, measured)
    name = row_id(run.configuration, stage, run.repeat)
    evidence.store(job.store.raw, name, context, (run.configuration, stage), measured)
    try:
        row, positions = make_row(*evidence.load(job.store.raw, name))
    except DataError as error:
        raise MeasurementError(category="environment", phase="serving", cause=str(error)) from error
    job.store.append_row(row, positions)
    if "missing_series" in row.checks:
        job.tell(f"    /metrics lacks {', '.join(missing_series(parse(measured.after)))}")
    return row


def _context(job: Job, run: Run, engine: Running, ready: Ready, measured: Measured) -> Context:
    return Context(
        campaign=job.plan.campaign,
        repeat=run.repeat,
        provenance=job.provenance,
        measured_at=stamp(job.clock.utc_now()),
        collector_version=__version__,
        plan_digest=job.plan.digest,
        host_id=job.host.host_id,
        cpu_model=job.host.cpu_model,
        gpu_model=job.host.gpu_model,
        gpu_count=job.host.gpu_count,
        driver_version=job.host.driver_version,
        engine_kind=job.kind_name,
        engine_version=ready.version,
        max_model_len=ready.max_model_len,
        start_s=ready.start_s,
        prompt_set_digest=measured.prompt_set_digest,
        facts=read_engine_log(engine.log_text()),
    )


def _record_failure(
    job: Job,
    run: Run,
    error: MeasurementError,
    progress: _Progress,
    ending: tuple[Running | None, End, int],
    log: Path,
    attempt: int,
    alive_s: float,
) -> None:
    engine, end, stopped_at = ending
    failure = failure_of(
        error,
        run,
        campaign=job.plan.campaign,
        provenance=job.provenance,
        failed_at=stamp(job.clock.utc_now()),
        engine_kind=job.kind_name,
        engine_version=progress.ready.version if progress.ready else run.configuration.version,
        log_text=engine.log_text() if engine else "",
        log_name=f"logs/{log.name}" if log.exists() else None,
        end=end if progress.died else End(),
        stopped_at=None if progress.died else stopped_at,
        was_ready=progress.ready is not None,
        row_id=row_id(run.configuration, progress.stage, run.repeat) if progress.stage else None,
        attempt=attempt,
        alive_s=alive_s,
    )
    job.store.append_failure(failure)
    identity = {"configuration_id": failure.configuration_id, "repeat": failure.repeat}
    job.journal.note(journal.FAILED, **identity, attempt=attempt, category=failure.category)
    job.tell(f"    failed, {failure.category} ({failure.phase}): {failure.cause[:TOLD_CAUSE] or 'no cause in the log'}")


def _told(row: Row) -> str:
    def figure(value: float | None, text: str) -> str:
        return "" if value is None else text.format(value)

    parts = [
        f"    concurrency {row.concurrency:>3} · {row.prompt_set}:",
        figure(row.system_throughput_tok_s, " {:.1f} tok/s"),
        figure(None if row.tpot_mean_s is None else row.tpot_mean_s * 1000, ", TPOT {:.2f} ms"),
        figure(row.acceptance_rate, ", acceptance {:.3f}"),
        f"; failed checks: {row.checks}" if row.checks else "",
    ]
    return "".join(parts)


def unfinished(job: Job) -> tuple[Failure, ...]:
    """Return the failures that no later attempt made good."""
    have = {row.row_id for row in job.store.rows}
    whole = {
        (run.configuration.configuration_id, run.repeat)
        for run in job.plan.runs
        if all(row_id(run.configuration, stage, run.repeat) in have for stage in run.stages)
    }
    return tuple(one for one in job.store.failures if (one.configuration_id, one.repeat) not in whole)
