"""What a proposal holds, and the campaign that makes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from collector.analysis.compared import Pair
from collector.analysis.cost import Cost, cost_of
from collector.analysis.planned import Planned
from collector.analysis.quantity import Quantity
from collector.analysis.schedule import Ranges
from collector.analysis.study import Study
from collector.core.follow_up import Wanted

Kind = Literal["withheld", "partner", "bracket", "repeat", "schedule", "acceptance"]
#: A verdict that is missing, a ratio, the place of a break-even, how sure an effect is, then what is only predicted.
KINDS: tuple[Kind, ...] = ("withheld", "partner", "bracket", "repeat", "schedule", "acceptance")


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """What to measure and why. Which of those with a default are known depends on the kind."""

    kind: Kind
    pair: Pair  # the comparison that it would decide
    cells: tuple[Wanted, ...]
    row_ids: tuple[str, ...]
    cost: Cost
    concurrencies: tuple[int, ...] = ()
    prompt_sets: tuple[str, ...] = ()
    bracket: tuple[int, int] | None = None
    value: Quantity | None = None  # acceptance when withheld, the effect as a gain, or the tokens a step needed
    ranges: Ranges = ()
    turns: tuple[tuple[int, int], ...] = ()  # of the schedule: concurrencies between which its place is not known
    noise: float | None = None  # per cent
    measured_in: str | None = None  # another campaign that has what this asks for


@dataclass(frozen=True, kw_only=True)
class Campaign(Planned):
    """A campaign that makes its proposals. `others`: the campaigns beside it."""

    others: Sequence[Study] = ()

    def proposal(
        self, kind: Kind, pair: Pair, cells: Sequence[Wanted], ids: Iterable[str], **facts: object
    ) -> Proposal:
        return Proposal(
            kind=kind,
            pair=pair,
            cells=tuple(cells),
            row_ids=tuple(dict.fromkeys(ids)),
            cost=cost_of(cells, self.study.rows),
            **facts,  # type: ignore[arg-type]  # the fields of a proposal
        )
