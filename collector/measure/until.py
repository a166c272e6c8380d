"""A sweep that adds stages to its plan until every break-even lies between neighbouring concurrencies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from collector.analysis.narrowing import Cell, Narrowing, narrowings, with_cells
from collector.analysis.outcomes import blocked, outcomes
from collector.core.configuration import Plan, Stage
from collector.measure import journal, telling
from collector.measure.job import Job
from collector.measure.sweep import sweep


async def sweep_until_break_even(job: Job, measure: Callable[[Job], Awaitable[None]] = sweep) -> Plan:
    """Measure the plan, then what narrows its brackets; return the plan with all that was added.

    What to add follows from the rows, so that a sweep that was interrupted adds the same again. No cell is asked for
    twice: where it gave no row, its bracket stays as it is.
    """
    await measure(job)
    asked: dict[tuple[str, Stage], Cell] = {}
    plan = job.plan
    while True:
        found = narrowings(job.plan, job.store.rows, job.store.failures)
        new = [one for one in found if not _keyed(one).keys() <= asked.keys()]
        if not new:
            for line in _came_out(job):
                job.tell(line)
            return plan
        for one in new:
            _note(job, one)
            asked |= _keyed(one)
        plan = with_cells(job.plan, asked.values())
        await measure(replace(job, plan=plan))


def _came_out(job: Job) -> list[str]:
    """Return what came out, pair by pair: also where there was nothing to narrow, or nothing to compare."""
    rows, failures = job.store.rows, job.store.failures
    found = [telling.outcome(one) for one in outcomes(rows, failures)]
    found += [telling.blocked(one) for one in blocked(rows, failures)]
    return found or ["no break-even: the plan has no configuration with speculation on and off to compare"]


def _keyed(found: Narrowing) -> dict[tuple[str, Stage], Cell]:
    return {(cell[0].configuration_id, cell[1]): cell for cell in found.cells}


def _note(job: Job, found: Narrowing) -> None:
    low, high = found.bracket.low, found.bracket.high
    configurations = sorted({configuration.configuration_id for configuration, _ in found.cells})
    job.journal.note(
        journal.STAGES_ADDED,
        configuration_ids=configurations,
        concurrencies=list(found.concurrencies),
        bracket=[low, high],
        estimate=round(found.estimate, 2),
        because=list(found.row_ids),
    )
    job.tell(telling.narrowing(found))
