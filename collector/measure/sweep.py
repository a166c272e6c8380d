"""The sweep: for each engine start of the plan, measure its stages and append a row after each.

What is done is in rows.csv and failures.csv; a sweep on an existing campaign goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx

from collector import __version__
from collector.core.configuration import Run, Stage, row_id
from collector.core.engine_log import read_engine_log
from collector.core.errors import DataError, EngineError
from collector.core.record import Context, make_row
from collector.core.rows import Failure, Row
from collector.core.secrets import redact
from collector.core.series import missing_series
from collector.measure import evidence, journal, resume, telling
from collector.measure.clock import stamp
from collector.measure.engines.interface import End, Launch, Running
from collector.measure.failed import CellRefusedError, MeasurementError
from collector.measure.job import Attempt, Job
from collector.measure.models import commits
from collector.measure.ready import unless_ended, wait_ready
from collector.measure.scrape import parse
from collector.measure.stage import Measured, measure_stage

#: The engine's word that a request does not fit it; known before where it counts tokens for us.
TOO_LONG = "maximum context length"
#: Kinds whose models lie on this host.
STARTED_HERE = ("process", "docker")
#: After a request failed, the time in which the death of the engine must have been noticed.
NOTICE_DEATH_S = 1.0


async def sweep(job: Job) -> None:
    """Measure what the plan asks for and the campaign does not have yet.

    Raises NoMoreEnginesError where no further start is possible.
    """
    past = job.journal.attempts()
    job.journal.note(journal.SWEEP_STARTED, collector_version=__version__, plan_digest=job.plan.digest)
    wanted = [run for run in job.plan.runs if resume.due_now(job, run, past)[0]]
    await job.kind.prepare(job.store.folder, job.plan, wanted, job.variables, job.tell)
    resume.record_host_down(job, past)  # by the log, which a container may have kept until now
    left = [run for run in job.plan.runs if any(resume.due_now(job, run, past))]
    if 0 < len(left) < len(job.plan.runs):
        job.tell(telling.left(len(left), len(job.plan.runs)))
    for number, run in enumerate(left, start=1):
        stages, held_back = resume.due_now(job, run, past)
        title = f"[{number}/{len(left)}] {telling.run(run)}"
        if held_back:
            job.tell(f"{title}: left out, {held_back}; --retry-failed tries it")
        if stages and (run.configuration.configuration_id, run.repeat) in job.failed:
            job.tell(f"{title}: left out, it failed above")
        elif stages:
            job.tell(title)
            await _measure_run(job, run, stages, resume.number_of(job, run, past))
    job.journal.note(journal.SWEEP_FINISHED)


async def _measure_run(job: Job, run: Run, stages: tuple[Stage, ...], number: int) -> None:
    """Start an engine, measure its stages, end it; a failure becomes a line and the sweep goes on."""
    log = job.log(run, number)
    resume.put_aside(log)
    attempt = Attempt(run=run, number=number, log=log, began=job.clock.monotonic())
    job.journal.note(journal.START_ATTEMPTED, **attempt.identity, attempt=number, **job.moment())
    launch = Launch(
        configuration=run.configuration,
        repeat=run.repeat,
        attempt=number,
        engine=job.plan.engine,
        log=log,
        variables=job.variables,
    )
    engine: Running | None = None
    error: MeasurementError | None = None
    stopped_at, end = 0, End()
    try:
        sensor_for = await job.bay.made_ready(launch, job.plan.limits.gpu_free_s) if job.bay else None
        engine = await job.kind.start(launch)
        attempt.sensor = sensor_for(engine.owns) if sensor_for else None
        await _stages(job, attempt, stages, engine)
    except MeasurementError as one:
        error = one
    finally:
        if engine:
            stopped_at = len(engine.log_text())
            end = await _stop(job, engine)
    if error:
        failure = _record_failure(job, attempt, error, engine, end, stopped_at)
        job.failed.add((failure.configuration_id, failure.repeat))
        facts = {"attempt": number, "category": failure.category}
        job.journal.note(journal.FAILED, **attempt.identity, **facts, **job.moment())
    else:
        job.journal.note(journal.ENGINE_ENDED, **attempt.identity, exit_code=end.exit_code, **job.moment())


async def _stop(job: Job, engine: Running) -> End:
    """End the engine, whatever happens meanwhile; with another signal its time to end by itself is over."""
    stopping = asyncio.ensure_future(engine.stop(0 if job.signals.at_once else job.plan.limits.stop_s))
    try:
        return await asyncio.shield(stopping)
    except asyncio.CancelledError:
        await asyncio.shield(engine.stop(0))
        raise


async def _stages(job: Job, attempt: Attempt, stages: tuple[Stage, ...], engine: Running) -> None:
    """Measure the stages of a started engine. Raises MeasurementError; UserError for rows of another provenance."""
    try:
        attempt.ready = await wait_ready(engine, attempt.run, job.plan.limits, job.clock, began=attempt.began)
        job.store.refuse_other(provenance := job.provenance(attempt.ready, engine.log_text()))
        attempt.sensor = None if provenance == "emulated" else attempt.sensor  # the host's GPUs have no part in it
        job.tell(telling.ready(attempt.ready))
        job.journal.note(journal.START_FINISHED, **attempt.identity)
        for stage in stages:
            attempt.stage = stage
            job.journal.note(journal.STAGE_ATTEMPTED, **attempt.identity, row_id=attempt.row_id())
            try:
                row = await _measure_cell(job, attempt, stage, engine)
            except CellRefusedError as refusal:
                _record_failure(job, attempt, refusal, engine, End(), len(engine.log_text()))
                job.journal.note(journal.STAGE_REFUSED, **attempt.identity, row_id=attempt.row_id())
                continue
            job.journal.note(journal.STAGE_FINISHED, **attempt.identity, row_id=row.row_id, checks=row.checks)
            job.tell(telling.row(row))
    except EngineError as error:
        attempt.died = await _has_ended(engine)
        if attempt.died:
            raise MeasurementError(category=None, phase="", cause="the engine ended") from error
        if isinstance(error, MeasurementError):
            raise
        category = "crashed_serving" if attempt.ready else None
        raise MeasurementError(category=category, phase="serving", cause=str(error), retryable=True) from error


async def _has_ended(engine: Running) -> bool:
    try:
        async with asyncio.timeout(NOTICE_DEATH_S):
            await engine.ended()
    except TimeoutError:
        return False
    return True


async def _measure_cell(job: Job, attempt: Attempt, stage: Stage, engine: Running) -> Row:
    """Measure one cell and commit its row: evidence first, then positions, then the row."""
    configuration = attempt.run.configuration
    name = row_id(configuration, stage, attempt.run.repeat)
    measuring = measure_stage(
        engine,
        stage,
        job.plan.limits,
        job.clock,
        model=configuration.model,
        salt=f"{job.salt}/{name}",
        max_model_len=attempt.ready.max_model_len if attempt.ready else None,
        sensor=attempt.sensor,
    )
    measured = _without_secrets(await unless_ended(engine, measuring), job.secrets)
    await _see_that_it_answers(engine, measured)
    if name in job.store.row_ids:
        return next(row for row in job.store.rows if row.row_id == name)
    context = _context(job, attempt, engine, measured)
    evidence.store(job.store.raw, name, context, (configuration, stage), measured)
    try:
        row, positions = make_row(*evidence.load(job.store.raw, name))
    except DataError as error:
        raise MeasurementError(category="environment", phase="serving", cause=str(error)) from error
    job.store.append_row(row, positions)
    if "missing_series" in row.checks:
        job.tell(telling.missing(missing_series(parse(measured.after))))
    return row


def _without_secrets(measured: Measured, secrets: tuple[str, ...]) -> Measured:
    """An error's text is whatever the engine answered; it may repeat what it was sent."""
    requests = (replace(one, error=one.error and redact(one.error, secrets)) for one in measured.requests)
    return replace(measured, requests=tuple(requests))


async def _see_that_it_answers(engine: Running, measured: Measured) -> None:
    """Failed requests are a marked row, unless the engine died of them or answered nothing else."""
    failed = [one for one in measured.requests if not one.done]
    if failed and await _has_ended(engine):
        raise MeasurementError(category=None, phase="", cause="the engine ended")
    if len(failed) == len(measured.requests):
        if all(one.status == httpx.codes.BAD_REQUEST and TOO_LONG in (one.error or "") for one in failed):
            cause = f"every request was refused, the first with: {failed[0].error}"
            raise CellRefusedError(category="max_model_len", phase="ready", cause=cause)
        cause = f"every request failed, the first with: {failed[0].status or 'no answer'} {failed[0].error}"
        raise MeasurementError(category="crashed_serving", phase="serving", cause=cause)


def _context(job: Job, attempt: Attempt, engine: Running, measured: Measured) -> Context:
    ready, log = attempt.ready, engine.log_text()
    return Context(
        campaign=job.plan.campaign,
        repeat=attempt.run.repeat,
        provenance=job.provenance(ready, log),
        measured_at=stamp(job.clock.utc_now()),
        collector_version=__version__,
        plan_digest=job.plan.digest,
        host_id=job.host.host_id,
        cpu_model=job.host.cpu_model,
        gpu_model=job.host.gpu_model,
        gpu_count=len(attempt.sensor.cards) if attempt.sensor else job.host.gpu_count,
        driver_version=job.host.driver_version,
        engine_kind=job.kind_name,
        engine_version=ready.version if ready else "",
        max_model_len=ready.max_model_len if ready else None,
        start_s=ready.start_s if ready else None,
        prompt_set_digest=measured.prompt_set_digest,
        facts=read_engine_log(log),
        p2p_driver=job.host.p2p_driver,
        image_digest=engine.image_digest,
        **(commits(attempt.run.configuration, job.variables) if job.kind_name in STARTED_HERE else {}),
    )


def _record_failure(
    job: Job, attempt: Attempt, error: MeasurementError, engine: Running | None, end: End, stopped_at: int
) -> Failure:
    from collector.measure.verdict import failure_of  # the rules of the logs, where one has to be judged

    ready, log = attempt.ready, engine.log_text() if engine else ""
    failure = failure_of(
        error,
        attempt.run,
        # An engine that collector itself ended has no exit code of its own, and its last words do not count.
        end=end if attempt.died else End(),
        stopped_at=None if attempt.died else stopped_at,
        stored_log=(log, f"logs/{attempt.log.name}" if attempt.log.exists() else None),
        secrets=job.secrets,
        was_ready=ready is not None,
        campaign=job.plan.campaign,
        provenance=job.provenance(ready, log),
        failed_at=stamp(job.clock.utc_now()),
        engine_kind=job.kind_name,
        engine_version=ready.version if ready else attempt.run.configuration.version,
        row_id=attempt.row_id(),
        attempt=attempt.number,
        alive_s=job.clock.monotonic() - attempt.began,
    )
    job.store.append_failure(failure)
    job.tell(telling.failure(failure))
    return failure
