"""What of an engine start is still to be measured, and why the rest is held back.

A fault of the moment (failures.csv says `retryable`; the reasons are in `failure_rules.RETRYABLE`) is tried again by
the next sweep, one start a call and so often as the plan's limits say. A property of the configuration is not, until
somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from collector.core.configuration import Run, Stage, row_id
from collector.core.plan_schema import Limits
from collector.core.rows import Failure, Row

HOST_DOWN = "host_down"
#: Phase of a cell that the engine could never serve: it was ready, and went on with the other cells.
REFUSED_PHASE = "ready"


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """Stages that the next sweep measures; where cells stay unmeasured, why (a sentence, for status and sweep)."""

    stages: tuple[Stage, ...] = ()
    held_back: str = ""


def due(run: Run, have: Collection[str], failures: Iterable[Failure], limits: Limits, *, retry_failed: bool) -> Due:
    """Return what is due. `have`: row ids there are; `failures`: of the campaign."""
    cells = {row_id(run.configuration, stage, run.repeat): stage for stage in run.stages}
    missing = {cell: stage for cell, stage in cells.items() if cell not in have}
    if retry_failed or not missing:
        return Due(stages=tuple(missing.values()))
    ours = [one for one in failures if one.configuration_id == run.configuration.configuration_id]
    refused = {one.row_id for one in ours if refused_cell(one) and not one.retryable}
    reason = _reason([one for one in ours if not refused_cell(one)], run, limits)
    if reason:
        return Due(held_back=reason)
    stages = tuple(stage for cell, stage in missing.items() if cell not in refused)
    held = len(missing) - len(stages)
    return Due(stages=stages, held_back=f"{held} stage{'s' if held > 1 else ''} that it refuses" if held else "")


def _reason(failures: list[Failure], run: Run, limits: Limits) -> str:
    """Return why an engine is not started again, or nothing."""
    down = sum(one.category == HOST_DOWN for one in failures)
    if down >= limits.host_down_attempts:
        return f"the host went down in {down} attempt{'s' if down > 1 else ''} of it (limits.host_down_attempts)"
    lasting = [one for one in failures if not one.retryable and (one.row_id is None or one.repeat == run.repeat)]
    if lasting:  # a start that fails does so in every repeat
        return f"{lasting[-1].category} would happen again"
    tried = sum(one.repeat == run.repeat and one.category != HOST_DOWN for one in failures)
    if tried >= limits.attempts:
        return f"failed {tried} time{'s' if tried > 1 else ''}, at last by {failures[-1].category} (limits.attempts)"
    return ""


def refused_cell(failure: Failure) -> bool:
    """Return whether a failure is one cell's alone."""
    return failure.row_id is not None and failure.phase == REFUSED_PHASE


def made_good(failure: Failure, rows: Iterable[Row]) -> bool:
    """Return whether a later attempt measured what failed."""
    return any(
        (row.configuration_id, row.repeat) == (failure.configuration_id, failure.repeat)
        and (failure.row_id == row.row_id or (failure.row_id is None and row.measured_at > failure.failed_at))
        for row in rows
    )
