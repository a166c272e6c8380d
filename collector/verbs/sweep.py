"""`collector sweep PLAN`: measure what the plan asks for, into data/<campaign>/."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
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
from collector.measure.engines import kind_of
from collector.measure.journal import INTERRUPTED, Journal
from collector.measure.setting import chosen_kind, setting_of
from collector.measure.store import open_store
from collector.measure.sweep import Job, sweep, unfinished
from collector.measure.until import BREAK_EVEN, sweep_until_break_even
from collector.verbs.files import read_text

INTERRUPTED_EXIT = 130


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("sweep", help="measure what a plan asks for; goes on where it stopped")
    parser.add_argument("plan", type=Path, help="plan file (YAML)")
    parser.add_argument("--engine", choices=ENGINE_KINDS, help="engine kind instead of the plan's")
    parser.add_argument("--out", type=Path, default=Path("data"), help="folder of campaigns (default: data)")
    parser.add_argument("--retry-failed", action="store_true", help="try again what failed by a fault of the moment")
    parser.add_argument(
        "--until", choices=[BREAK_EVEN], help="add stages until every break-even lies within one step of concurrency"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    text = read_text(args.plan)
    plan = parse_plan(text, str(args.plan))
    kind_name, loudly = chosen_kind(args.engine or plan.engine.kind)
    kind = kind_of(kind_name)
    kind.preflight(plan, os.environ)
    setting = setting_of(kind_name, plan)
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if loudly:
        console.print(loudly, style="bold")
    with open_store(args.out, plan, text, setting.host) as store:
        log = Journal(path=store.folder / "journal.jsonl", clock=setting.clock, boot_id=setting.boot_id)
        log.mend()
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
            tell=console.print,
            retry_failed=args.retry_failed,
        )
        try:
            with _told(console, job) as told:
                job = replace(job, plan=setting.run(_interruptible(told, args.until)))
        except asyncio.CancelledError:
            log.note(INTERRUPTED)
            console.print(f"interrupted; {_summary(job)}. The same command goes on from here.")
            return INTERRUPTED_EXIT
        except OSError as error:
            raise UserError(f"{store.folder}: {error}; {_summary(job)} stay, and the same command goes on") from error
        console.print(f"done: {_summary(job)}")
        return 1 if unfinished(job) or any(row.checks for row in store.rows) else 0


def _secrets(plan: Plan) -> tuple[str, ...]:
    """Return what must not be stored: the environment's secrets, and the key that the plan names."""
    key = os.environ.get(plan.engine.api_key_variable or "", "")
    return (*((key,) if key else ()), *secret_values(os.environ))


@contextmanager
def _told(console: Console, job: Job) -> Iterator[Job]:
    """Let the job tell what it does: plain lines, and on a terminal a last line that shows what is under way."""
    if not console.is_terminal:
        yield job
        return
    with console.status("starting") as status:

        def tell(text: str) -> None:
            console.print(text)
            status.update(f"{len(job.store.rows)} of {_cells(job.plan)} rows; after:{text}")

        yield replace(job, tell=tell)


async def _interruptible(job: Job, until: str | None) -> Plan:
    """Sweep until done, or until Ctrl-C, SIGTERM or a closed terminal: then the engine is ended, rows stay.

    Return the plan with the stages that were added to it.
    """
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    if until == BREAK_EVEN:
        return await sweep_until_break_even(job)
    await sweep(job)
    return job.plan


def _summary(job: Job) -> str:
    marked = sum(bool(row.checks) for row in job.store.rows)
    cells = {row_id(run.configuration, stage, run.repeat) for run in job.plan.runs for stage in run.stages}
    have = len(cells & job.store.row_ids)
    parts = [f"{have} of {len(cells)} rows in {job.store.folder}"]
    parts += [f"{len(job.store.rows) - have} more from other plans"] if len(job.store.rows) > have else []
    parts += [f"{marked} with failed checks"] if marked else []
    failures = len(unfinished(job))
    parts += [f"{failures} configuration{'s' if failures > 1 else ''} failed"] if failures else []
    return ", ".join(parts)


def _cells(plan: Plan) -> int:
    return sum(len(run.stages) for run in plan.runs)
