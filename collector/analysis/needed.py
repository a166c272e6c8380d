"""Break-even acceptance: how many tokens a step would have to yield for speculation to pay, against what prompts give.

In system throughput (step_time.py), on ÷ off = tokens per step ÷ step time × requests decoding. The last two, step
time and waiting, hardly depend on how many drafts are accepted: the same positions are verified whatever comes of
them. So speculation breaks even at

    tokens per step needed = step time (on ÷ off) ÷ requests decoding (on ÷ off)
                           = tokens per step (on) ÷ ratio of system throughputs

since without speculation a step yields exactly one token; and the acceptance needed, of the drafted tokens, is
(tokens per step needed − 1) ÷ k. It is a prediction as far as it leaves the measured acceptance behind; a run with
synthetic acceptance (rejection_sample_method) measures it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collector.analysis.compared import THROUGHPUT, Pair
from collector.analysis.formula import formula_of, formula_ratio
from collector.analysis.pairing import SAME_ENGINE, SPECULATING, key
from collector.analysis.quantity import By, Quantity
from collector.analysis.step_time import TOKENS
from collector.core.rows import Row, comparable

#: Tokens per step on ÷ the ratio of throughputs, since tokens per step off is 1.
NEEDED = f"{TOKENS}/{THROUGHPUT}"
#: Of the same expression: (its ratio − 1) ÷ k.
BY_ACCEPTANCE: By = "acceptance"


@dataclass(frozen=True, kw_only=True, slots=True)
class At:
    """One concurrency of a pair: what a step would have to yield, and what it yields on the pair's own prompts."""

    concurrency: int
    needed: Quantity  # tokens a step
    acceptance: Quantity | None  # the same as a share of the drafted tokens; above 1: no acceptance is enough
    delivered: Quantity
    pays: tuple[str, ...]  # prompt sets that deliver as much, here or at another concurrency

    @property
    def possible(self) -> bool:
        return self.acceptance is None or self.acceptance.value <= 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Needed:
    """A pair's break-even acceptance by concurrency. `kinds`: tokens per step by prompt set, concurrencies pooled."""

    pair: Pair
    stages: tuple[At, ...]
    kinds: dict[str, Quantity]

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the rows behind all of it."""
        of = [one.needed for one in self.stages] + list(self.kinds.values())
        return tuple(dict.fromkeys(name for one in of for name in (*one.ids, *one.base)))


def needed(pair: Pair, rows: Iterable[Row]) -> Needed | None:
    """Return what a pair's speculation would need at each concurrency; None where its steps were not counted."""
    known = {row.row_id: row for row in rows}
    kinds = _kinds(pair, known)
    stages = []
    for point in pair.measured:
        on, off = ([known[one] for one in ids if one in known] for ids in (point.row_ids_on, point.row_ids_off))
        wanted, delivered = formula_ratio(on, off, NEEDED), formula_of(on, TOKENS)
        if wanted is None or delivered is None:
            continue
        stages.append(
            At(
                concurrency=point.concurrency,
                needed=wanted,
                acceptance=_acceptance(wanted, pair.num_speculative_tokens),
                delivered=delivered,
                pays=tuple(name for name, one in kinds.items() if one.value >= wanted.value),
            )
        )
    return Needed(pair=pair, stages=tuple(stages), kinds=kinds) if stages else None


def _acceptance(wanted: Quantity, k: int | None) -> Quantity | None:
    if not k:
        return None
    return Quantity(value=(wanted.value - 1) / k, by=BY_ACCEPTANCE, of=wanted.of, ids=wanted.ids, base=wanted.base)


def _kinds(pair: Pair, rows: dict[str, Row]) -> dict[str, Quantity]:
    """Return the tokens per step of the pair's own configuration by prompt set, in the order of their names."""
    own = {name for point in pair.points for name in point.row_ids_on}
    like = {key(rows[one], (*SAME_ENGINE, *SPECULATING)) for one in own if one in rows}
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows.values():
        if comparable(row) and key(row, (*SAME_ENGINE, *SPECULATING)) in like:
            found[row.prompt_set].append(row)
    made = ((name, formula_of(_ordered(found[name]), TOKENS)) for name in sorted(found))
    return {name: one for name, one in made if one}


def _ordered(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row.row_id)
