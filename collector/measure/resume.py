"""What earlier calls left of a sweep: how often an engine was started, what was under way, whether the host went down.

An attempt that collector itself cut short has no verdict: it is made again under its number. One in which the host
went down (the boot id is another one now) is a failure like any other, so that it cannot be repeated for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

from collector.core.configuration import Run, Stage, row_id
from collector.core.due import HOST_DOWN, due
from collector.core.rows import Failure
from collector.measure import telling
from collector.measure.campaign import read_plans
from collector.measure.clock import stamp
from collector.measure.engines.interface import End
from collector.measure.failed import MeasurementError
from collector.measure.job import Job
from collector.measure.journal import HOST_WENT_DOWN, Attempt

#: Lines of the log that stand in the cause of a host that went down: what it did last.
LAST_LINES = 3
#: Characters of a boot id that tell one from another.
BOOT_DIGITS = 8
#: Where the kernel tells no boot id, nothing can be said of the host.
UNKNOWN_BOOT = "unknown"


def due_now(job: Job, run: Run, past: Sequence[Attempt]) -> tuple[tuple[Stage, ...], str]:
    """Return the stages to measure now, and why others are not.

    What an emulated engine does follows from its start alone. So that the same plan gives the same rows wherever a
    sweep was cut, such an engine goes through all stages of its start again; what is there is not written twice.
    """
    store = job.store
    found = due(run, store.row_ids, store.failures, job.plan.limits, retry_failed=job.retry_failed)
    if not job.replays:
        return found.stages, found.held_back
    again = _again(run, past)
    written = again and any(
        one.attempt == again.number and one.category != HOST_DOWN for one in store.failures if _is_of(one, run)
    )
    if again and (written or not found.held_back):
        return run.stages, ""
    have = [one for one in run.stages if row_id(run.configuration, one, run.repeat) in store.row_ids]
    both = (*found.stages, *have) if found.stages else ()
    return tuple(one for one in run.stages if one in both), found.held_back


def number_of(job: Job, run: Run, past: Sequence[Attempt]) -> int:
    """Return the number of the next start of an engine: those that came to an end, and one."""
    again = _again(run, past) if job.replays else None
    if again and not again.end:
        return again.number
    ended = [one.number for one in past if one.end and _is_of(one, run)]
    failed = [one.attempt for one in job.store.failures if _is_of(one, run)]
    return max((*ended, *failed), default=0) + 1


def _again(run: Run, past: Sequence[Attempt]) -> Attempt | None:
    """Return the attempt at this run that did not come to its own end, if it was the last of all."""
    last = past[-1] if past else None
    return last if last and last.end in ("", HOST_WENT_DOWN) and _is_of(last, run) else None


def _is_of(one: Failure | Attempt, run: Run) -> bool:
    return (one.configuration_id, one.repeat) == (run.configuration.configuration_id, run.repeat)


def put_aside(log: Path) -> None:
    """Keep the log of an attempt that was cut short: the next one has the same number, and rows may follow from it."""
    if log.exists():
        names = (log.with_name(f"{log.stem}-cut{number}.log") for number in count(1))
        log.replace(next(one for one in names if not one.exists()))


def record_host_down(job: Job, past: Sequence[Attempt]) -> None:
    """Record the attempt in which the host went down, if one did."""
    down = host_went_down(past, job.journal.boot_id)
    plans = (job.plan, *read_plans(job.store.folder)) if down else ()  # the campaign may be continued by another plan
    run = next((run for plan in plans for run in plan.runs if down and _is_of(down, run)), None)
    if down is None or run is None:
        return
    from collector.measure.verdict import failure_of  # the rules of the logs, where one has to be judged

    log = job.log(run, down.number)
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    failure = failure_of(
        host_down_error(down, job.journal.boot_id, text),
        run,
        end=End(),
        stopped_at=len(text),
        stored_log=(text, f"logs/{log.name}" if log.exists() else None),
        secrets=job.secrets,
        was_ready=down.ready,
        campaign=job.plan.campaign,
        provenance=job.provenance(None, text),
        failed_at=stamp(job.clock.utc_now()),
        engine_kind=job.kind_name,
        engine_version=run.configuration.version,
        row_id=down.row_id,
        attempt=down.number,
        alive_s=None,
    )
    job.store.append_failure(failure)
    identity = {"configuration_id": down.configuration_id, "repeat": down.repeat, "attempt": down.number}
    job.journal.note(HOST_WENT_DOWN, **identity, row_id=down.row_id, phase=failure.phase)
    job.tell(f"the host went down in attempt {down.number} of {telling.run(run)}")
    job.tell(telling.failure(failure))


def host_went_down(past: Sequence[Attempt], boot_id: str) -> Attempt | None:
    """Return the attempt in which the host went down, if it did: the last one, with another boot id and no end."""
    last = past[-1] if past else None
    if last is None or last.end or last.cut or UNKNOWN_BOOT in (last.boot_id, boot_id):
        return None
    return last if last.boot_id != boot_id else None


def host_down_error(attempt: Attempt, boot_id: str, log: str) -> MeasurementError:
    """Say of such an attempt how far it came, by the journal and by what of its log reached the disk."""
    from collector.core.failures import diagnose

    text = log.replace("\0", "")  # what a file system may leave of a block that was not written
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = " || ".join(lines[-LAST_LINES:])
    cause = (
        f"the host went down: boot id {attempt.boot_id[:BOOT_DIGITS]} at the start, {boot_id[:BOOT_DIGITS]} now; "
        + (f"the log ends with: {last}" if last else "nothing of its log reached the disk")
    )
    phase = "ready" if attempt.ready else diagnose(text, was_ready=False, stopped_at=len(text)).phase
    return MeasurementError(category=HOST_DOWN, phase=phase, cause=cause, retryable=True)


def unfinished(job: Job) -> tuple[Failure, ...]:
    """Return the failures of the plan's starts that no later attempt made good."""
    have = job.store.row_ids
    planned = {(run.configuration.configuration_id, run.repeat) for run in job.plan.runs}
    whole = {
        (run.configuration.configuration_id, run.repeat)
        for run in job.plan.runs
        if all(row_id(run.configuration, stage, run.repeat) in have for stage in run.stages)
    }
    return tuple(one for one in job.store.failures if (one.configuration_id, one.repeat) in planned - whole)
