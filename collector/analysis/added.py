"""What was added to a campaign after its first plan: by plans that continue it, or by a sweep that narrowed a turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collector.analysis.narrowing import cells_of
from collector.analysis.study import Study
from collector.core.configuration import Plan
from collector.core.rows import Row


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """Cells beyond the first plan's. `plan` is the digest of the plan that asks for them; None: a sweep chose them."""

    plan: str | None
    cells: int | None  # that the plan asks for; None without a plan
    rows: tuple[Row, ...]

    @property
    def file(self) -> str | None:
        """Return what its plan is called among the campaign's files."""
        return None if self.plan is None else f"plan-{self.plan}.yaml"

    @property
    def stages(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Return (model, prompt set, concurrencies) of the rows."""
        found: dict[tuple[str, str], set[int]] = {}
        for row in self.rows:
            found.setdefault((row.model, row.prompt_set), set()).add(row.concurrency)
        return [(*key, tuple(sorted(found[key]))) for key in sorted(found)]


def added(study: Study) -> tuple[Added, ...]:
    """Return what was added, in the order in which it was measured; what was not begun yet comes last."""
    if not study.plans:
        return ()
    known = {name for plan in study.plans for name in cells_of(plan)}
    found = [_by_plan(plan, study.rows) for plan in study.plans if plan.continues]
    digests = {plan.digest for plan in study.plans}
    chosen = tuple(row for row in study.rows if row.row_id not in known and row.plan_digest in digests)
    if chosen:
        found.append(Added(plan=None, cells=None, rows=chosen))
    return tuple(sorted(found, key=_order))


def _by_plan(plan: Plan, rows: Iterable[Row]) -> Added:
    cells = cells_of(plan)
    own: Sequence[Row] = [row for row in rows if row.plan_digest == plan.digest and row.row_id in cells]
    return Added(plan=plan.digest, cells=len(cells), rows=tuple(own))


def _order(one: Added) -> tuple[bool, str, str]:
    return (not one.rows, min((row.measured_at for row in one.rows), default=""), one.plan or "")
