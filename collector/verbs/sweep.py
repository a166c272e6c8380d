"""`collector sweep PLAN`: measure what the plan asks for, into data/<campaign>/."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from collector.core.configuration import Plan, row_id
from collector.core.errors import UserError
from collector.core.plan import parse_plan
from collector.core.plan_schema import ENGINE_KINDS
from collector.core.secrets import secret_values
from collector.measure.bay import open_bay
from collector.measure.engines import kind_of
from collector.measure.failed import NoMoreEnginesError
from collector.measure.job import Job
from collector.measure.journal import INTERRUPTED, ROWS_REPLACED, open_journal
from collector.measure.resume import unfinished
from collector.measure.setting import chosen_kind, setting_of
from collector.measure.store import open_store
from collector.measure.sweep import sweep
from collector.verbs.files import read_text

INTERRUPTED_EXIT = 130
BREAK_EVEN = "break-even"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("sweep", help="measure what a plan asks for; goes on where it stopped")
    parser.add_argument("plan", type=Path, help="plan file (YAML)")
    parser.add_argument("--engine", choices=ENGINE_KINDS, help="engine kind instead of the plan's")
    parser.add_argument("--out", type=Path, default=Path("data"), help="folder of campaigns (default: data)")
    parser.add_argument(
        "--retry-failed",
        action="store_true",
        help="try again whatever failed; without it only faults of the moment are, as often as the plan's limits say",
    )
    parser.add_argument(
        "--remeasure",
        choices=("marked",),
        help="measure rows with a failed check once more; the old ones are kept in the campaign's folder replaced/",
    )
    parser.add_argument(
        "--until", choices=[BREAK_EVEN], help="add stages until every break-even lies within one step of concurrency"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    text = read_text(args.plan)
    plan = parse_plan(text, str(args.plan))
    kind_name, loudly = chosen_kind(args.engine or plan.engine.kind, plan, os.environ)
    kind = kind_of(kind_name)
    kind.preflight(plan, os.environ)
    setting = setting_of(kind_name, plan)
    console = _Console(highlight=False, soft_wrap=True, markup=False)
    tell = console.tell
    if loudly:
        tell(loudly)
    with open_store(args.out, plan, text, setting.host, kind_name) as store:
        log = open_journal(store.folder / "journal.jsonl", setting.clock, setting.boot_id)
        job = Job(
            plan=plan,
            store=store,
            journal=log,
            clock=setting.clock,
            host=setting.host,
            kind_name=kind_name,
            kind=kind,
            variables=dict(os.environ),
            secrets=_secrets(plan),
            salt=setting.salt,
            tell=tell,
            retry_failed=args.retry_failed,
            bay=open_bay(kind_name, setting.clock, tell),
        )
        try:
            if args.remeasure:
                _remeasure(job)
            with _told(console, job) as told:
                job = replace(job, plan=setting.run(_interruptible(told, args.until), log.clock_s()))
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):  # what is measured does not depend on it
                log.note(INTERRUPTED)
            tell(f"interrupted; {_summary(job)}. The same command goes on from here.")
            return INTERRUPTED_EXIT
        except NoMoreEnginesError as error:
            log.note(INTERRUPTED, cause=str(error))
            tell(f"ended early: {error}\n{_summary(job)}. The same command goes on from here.")
            return 1
        except OSError as error:
            with contextlib.suppress(OSError):  # by the same disk
                log.note(INTERRUPTED)
            raise UserError(
                f"{store.folder}: {_disk(error)}; {_summary(job)} stay, and the same command goes on"
            ) from error
        tell(f"done: {_summary(job)}")
        return 1 if unfinished(job) or any(row.checks for row in store.rows) else 0


def _disk(error: OSError) -> str:
    """Return what the disk said, and what to do about it."""
    said = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{said}: make room"
    return f"{said}: make it writable" if error.errno in (errno.EROFS, errno.EACCES) else str(error)


class _Console(Console):
    """Prints as long as anybody reads. A sweep does not end because its terminal or the reader of its pipe is gone."""

    def on_broken_pipe(self) -> None:  # rich would end the program
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)

    def tell(self, text: str) -> None:
        try:
            self.print(text)
        except OSError:
            self.on_broken_pipe()


def _remeasure(job: Job) -> None:
    marked = [row for row in job.store.rows if row.checks]
    job.store.replace(marked)
    job.journal.note(ROWS_REPLACED, row_ids=[row.row_id for row in marked])
    job.tell(f"{len(marked)} rows with failed checks are measured once more; the old ones are in {job.store.replaced}")


def _secrets(plan: Plan) -> tuple[str, ...]:
    """Return what must not be stored: the environment's secrets, and the key that the plan names."""
    key = os.environ.get(plan.engine.api_key_variable or "", "")
    return (*((key,) if key else ()), *secret_values(os.environ))


@contextmanager
def _told(console: _Console, job: Job) -> Iterator[Job]:
    """Let the job tell what it does: plain lines, and on a terminal a last line that shows what is under way."""
    if not console.is_terminal:
        yield job
        return
    with console.status("starting") as status:

        def tell(text: str) -> None:
            job.tell(text)
            status.update(f"{len(job.store.rows)} of {_cells(job.plan)} rows; after:{text}")

        yield replace(job, tell=tell)


async def _interruptible(job: Job, until: str | None) -> Plan:
    """Sweep until done, or until Ctrl-C, SIGTERM or a closed terminal: then the engine is ended, rows stay.

    The engine may take limits.stop_s to end by itself; at a second signal it is killed. Return the plan with the
    stages that were added to it.
    """
    task = asyncio.current_task()

    def stop() -> None:
        job.signals.count += 1
        job.tell("killing the engine" if job.signals.at_once else "ending the engine; a second signal kills it")
        if task is not None:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    if until:
        from collector.measure.until import sweep_until_break_even  # the findings, which no other sweep asks

        return await sweep_until_break_even(job)
    await sweep(job)
    return job.plan


def _summary(job: Job) -> str:
    marked = sum(bool(row.checks) for row in job.store.rows)
    cells = {row_id(run.configuration, stage, run.repeat) for run in job.plan.runs for stage in run.stages}
    have = len(cells & job.store.row_ids)
    parts = [f"{have} of {len(cells)} rows in {job.store.folder}"]
    parts += (
        [f"{len(job.store.rows) - have} more that this plan does not ask for"] if len(job.store.rows) > have else []
    )
    parts += [f"{marked} with failed checks"] if marked else []
    failures = len(unfinished(job))
    parts += [f"{failures} configuration{'s' if failures > 1 else ''} failed"] if failures else []
    return ", ".join(parts)


def _cells(plan: Plan) -> int:
    return sum(len(run.stages) for run in plan.runs)
