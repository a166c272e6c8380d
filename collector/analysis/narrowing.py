"""Which concurrencies to measure next, so that the bracket of a break-even gets as narrow as it can: one step.

A bracket is halved where its estimate says, as long as halving can still finish it within the stages that are left.
What was tried and cannot be compared is not tried again, so this ends whatever the curve or its noise do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

from collector.analysis.brackets import Bracket
from collector.analysis.break_even import break_even
from collector.analysis.compared import Pair, compared
from collector.analysis.pairing import SPECULATION
from collector.core.configuration import Configuration, Plan, Stage, row_id
from collector.core.rows import Failure, Row
from collector.core.speculative import schedule_of

#: Concurrencies added to a pair. Four halve 16 steps to one, the width between 16 and 32.
MOST_EXTRA = 4
#: Why a concurrency that was measured on both sides has no ratio. What one side lacks is still under way.
TRIED = ("checks", "no_throughput", "ambiguous")

Cell = tuple[Configuration, Stage]


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrowing:
    """What would narrow one bracket of a pair: concurrencies, as stages of the configurations on both sides."""

    pair: Pair
    bracket: Bracket
    estimate: float
    concurrencies: tuple[int, ...]
    cells: tuple[Cell, ...]
    row_ids: tuple[str, ...]


def places(low: int, high: int, estimate: float, left: int, tried: Iterable[int] = ()) -> tuple[int, ...]:
    """Return the concurrencies within a bracket to measure next: those around the estimate, or the nearest one.

    Two at once spare an engine start of each side where they narrow it to one step. `left`: how many more there may
    be; none is chosen after which halving could not finish within them, where that is possible at all.
    """
    free = sorted(set(range(low + 1, high)) - set(tried))
    if not free or left < 1:
        return ()
    around = [at for at in dict.fromkeys((floor(estimate), ceil(estimate))) if at in free]
    if len(around) == 2 and left > 1 and _finishes(around[0] - low, left - 2) and _finishes(high - around[1], left - 2):
        return tuple(around)
    good = [at for at in free if _finishes(at - low, left - 1) and _finishes(high - at, left - 1)]
    if good:
        return (min(good, key=lambda at: (abs(at - estimate), at)),)
    return (min(free, key=lambda at: (abs(2 * at - low - high), at)),)


def _finishes(width: int, left: int) -> bool:
    """Whether halving makes one step of this width."""
    return width <= 1 << left


def narrowings(
    plan: Plan, rows: Sequence[Row], failures: Iterable[Failure] = (), most: int = MOST_EXTRA
) -> list[Narrowing]:
    """Return what to measure next for every on/off pair of a plan whose first open bracket can be narrowed."""
    planned = cells_of(plan)
    pairs = [pair for pair in compared(SPECULATION, rows, failures) if not schedule_of(pair["speculative_config"])]
    return [found for pair in pairs if (found := narrowing(pair, planned, most))]


def cells_of(plan: Plan) -> dict[str, Cell]:
    """Return the configuration and the stage of each row that a plan asks for."""
    return {
        row_id(run.configuration, stage, run.repeat): (run.configuration, stage)
        for run in plan.runs
        for stage in run.stages
    }


def narrowing(pair: Pair, planned: dict[str, Cell], most: int = MOST_EXTRA) -> Narrowing | None:
    """Return what to measure next for one pair; None where nothing would narrow it, or `most` were added already."""
    found = break_even(pair)
    if found is None:
        return None
    ids = [one for point in pair.points for one in (*point.row_ids_on, *point.row_ids_off, *point.row_ids_left_out)]
    listed = [planned[one] for one in ids if one in planned]
    tried = {point.concurrency for point in pair.points if point.reason is None or point.reason.kind in TRIED}
    left = most - len(tried - {stage.concurrency for _, stage in listed})
    for crossing in found.crossings:
        low, high = crossing.bracket
        chosen = places(low, high, crossing.estimate, left, tried)
        cells = _added(chosen, listed)
        if cells:
            bracket = Bracket(low, high, falls=crossing.falls)
            return Narrowing(
                pair=pair,
                bracket=bracket,
                estimate=crossing.estimate,
                concurrencies=chosen,
                cells=cells,
                row_ids=crossing.row_ids,
            )
    return None


def _added(concurrencies: Sequence[int], known: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return these concurrencies as stages of each configuration that the pair has."""
    by_configuration: dict[str, list[Cell]] = {}
    for configuration, stage in known:
        by_configuration.setdefault(configuration.configuration_id, []).append((configuration, stage))
    return tuple(
        (own[0][0], stage_at(at, [stage for _, stage in own]))
        for own in by_configuration.values()
        for at in concurrencies
    )


def stage_at(concurrency: int, stages: Sequence[Stage]) -> Stage:
    """Return the stage that a plan with these would have at another concurrency.

    As many rounds as the next higher stage has, but no fewer requests than the next lower one.
    """
    ordered = sorted(stages, key=lambda stage: stage.concurrency)
    below = [stage for stage in ordered if stage.concurrency <= concurrency] or ordered[:1]
    above = [stage for stage in ordered if stage.concurrency >= concurrency] or ordered[-1:]
    rounds = max(above[0].requests / above[0].concurrency, below[-1].requests / concurrency)
    warm_up = above[0].warmup_requests // above[0].concurrency
    return replace(
        above[0],
        concurrency=concurrency,
        requests=ceil(rounds) * concurrency,
        warmup_requests=warm_up * concurrency,
    )


def with_cells(plan: Plan, cells: Iterable[Cell]) -> Plan:
    """Return the plan with more stages in every repeat of the configurations that they are for."""
    more: dict[str, dict[Stage, None]] = {}
    for configuration, stage in cells:
        more.setdefault(configuration.configuration_id, {})[stage] = None
    runs = (
        replace(run, stages=tuple(dict.fromkeys((*run.stages, *more.get(run.configuration.configuration_id, ())))))
        for run in plan.runs
    )
    return replace(plan, runs=tuple(runs))
