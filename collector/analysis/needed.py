"""Break-even acceptance: how many tokens a step would have to yield for speculation to pay, against what prompts give.

By step_time.py, on ÷ off of system throughput = tokens per step ÷ step time × requests decoding, and without
speculation a step yields one token. So speculation breaks even at

    tokens per step needed = step time (on ÷ off) ÷ requests decoding (on ÷ off, at break-even)

Step time hardly depends on how many drafts are accepted: the same positions are verified whatever comes of them. The
factor of waiting does: a request that decodes faster spends a larger share of its time before its first token. What
is kept as measured is therefore the time of a request outside of decoding, with C requests in flight, L output tokens
each, throughput X and step time s:

    outside = C L / X(on) − (L − 1) s(on) / tokens per step (on)
    tokens per step needed = (L − 1) s(on) / (C L / X(off) − outside)

and the acceptance needed, of the drafted tokens, is (tokens per step needed − 1) ÷ k. It is a lower bound, the lower
the farther it leaves the measured acceptance behind: the fewer the steps, the larger the share of them that carry
somebody else's prefill, which gets no rarer. A run with synthetic acceptance (rejection_sample_method) measures it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from collector.analysis.compared import THROUGHPUT, Pair
from collector.analysis.formula import columns_of, formula_of
from collector.analysis.pairing import SAME_ENGINE, SPECULATING, key
from collector.analysis.quantity import Quantity, usable
from collector.analysis.speculation import side
from collector.analysis.step_time import STEP, TOKENS
from collector.core.rows import Row, comparable

#: Seconds of a request in all, and those in which it decodes.
WHOLE = f"concurrency*output_tokens/{THROUGHPUT}"
DECODES = f"(output_tokens-1)*{STEP}/{TOKENS}"
#: Halvings of a share between 0 and 1, and the digits of a rate in a plan.
BISECTIONS = 40
RATE_DIGITS = 4
OUTSIDE = f"{WHOLE}-{DECODES}"


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

    @property
    def rates(self) -> list[float]:
        """Return the acceptance by position, unconditional, that would yield as much; [] where none would.

        Each position is as likely as the one before. Giving the engine the mean length alone would have all requests
        proceed alike, end at once and wait for each other's prefill, as those with real drafts do not.
        """
        if self.acceptance is None or not self.possible:
            return []
        return geometric(self.needed.value - 1, round((self.needed.value - 1) / self.acceptance.value))


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
        wanted, delivered = _needed(on, off), formula_of(on, TOKENS)
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


def _needed(on: Sequence[Row], off: Sequence[Row]) -> Quantity | None:
    kept = usable(on, *columns_of(OUTSIDE))
    whole, outside = formula_of(off, WHOLE), formula_of(kept, OUTSIDE)
    step = formula_of(kept, f"(output_tokens-1)*{STEP}")
    if whole is None or outside is None or step is None or whole.value <= outside.value:
        return None
    value = step.value / (whole.value - outside.value)
    return Quantity(value=value, by="needed", of=OUTSIDE, ids=outside.ids, base=whole.ids)


def _acceptance(wanted: Quantity, k: int | None) -> Quantity | None:
    return replace(wanted, value=(wanted.value - 1) / k, by="needed_acceptance") if k else None


def geometric(accepted: float, k: int) -> list[float]:
    """Return k rates, each the same share of the one before, that add up to `accepted` tokens a draft."""
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        share = (low + high) / 2
        low, high = (share, high) if sum(share**position for position in range(1, k + 1)) < accepted else (low, share)
    return [round(low**position, RATE_DIGITS) for position in range(1, k + 1)]


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


def loses(pair: Pair) -> bool:
    """Whether there is a loss at any concurrency: elsewhere nobody asks what speculation would need."""
    return any(side(point.ratio) < 0 for point in pair.measured if point.ratio is not None)
