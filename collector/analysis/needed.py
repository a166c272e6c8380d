"""Break-even acceptance: how many tokens a step would have to yield for speculation to pay, against what prompts give.

With C requests in flight, L output tokens each and throughput X, a request takes T = C L / X. Acceptance shortens only
a part of it: the steps that decode are the fewer, the more tokens each yields. The rest is taken to stay as it is:

    tokens per step needed = tokens per step (on) × (T(on) − rest) / (T(off) − rest)

and the acceptance needed, of the drafted tokens, is (tokens per step needed − 1) ÷ k. What the rest is:

- `C × prefill`, where the pair was also measured with one request at a time, which tells how long a prompt alone takes.
  Each lane's prompt is computed once in T, in front of the request itself or in between the steps of the others,
  whatever is accepted.
- `T − (L − 1) × step time / tokens per step` of the same rows otherwise: the time outside of decoding. The prefill in
  between the steps is part of the step time then, and shrinks along with the steps, which it does not in truth: such a
  figure is a lower bound, the lower the farther it leaves the measured acceptance behind.

A run with synthetic acceptance (rejection_sample_method) measures it: analysis/asked.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from collector.analysis.compared import THROUGHPUT, Pair
from collector.analysis.formula import columns_of, formula_of
from collector.analysis.noise import Noise
from collector.analysis.pairing import DRAFTING, SAME_ENGINE, key
from collector.analysis.quantity import Quantity, usable
from collector.analysis.step_time import STEP, TOKENS
from collector.core.rows import Row, comparable

#: Seconds of a request in all, those in which it decodes, and those of a prompt that is alone.
WHOLE = f"concurrency*output_tokens/{THROUGHPUT}"
DECODES = f"(output_tokens-1)*{STEP}/{TOKENS}"
PREFILL = "prefill_mean_s"
#: Halvings of a share between 0 and 1, and the digits of a rate in a plan.
BISECTIONS = 40
RATE_DIGITS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class At:
    """One concurrency of a pair: what a step would have to yield, and what it yields on the pair's own prompts."""

    concurrency: int
    needed: Quantity  # tokens a step
    acceptance: Quantity | None  # the same as a share of the drafted tokens; above 1: no acceptance is enough
    delivered: Quantity
    pays: tuple[str, ...]  # prompt sets that deliver as much, here or at another concurrency
    bound: bool  # at least so many: how long a prompt alone takes was not measured

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
    kinds, alone = _kinds(pair, known), alone_of(pair, known)
    stages = []
    for point in pair.measured:
        on, off = ([known[one] for one in ids if one in known] for ids in (point.row_ids_on, point.row_ids_off))
        wanted, delivered = _needed(on, off, alone), formula_of(on, TOKENS)
        if wanted is None or delivered is None:
            continue
        stages.append(
            At(
                concurrency=point.concurrency,
                needed=wanted,
                acceptance=_acceptance(wanted, pair.num_speculative_tokens),
                delivered=delivered,
                pays=tuple(name for name, one in kinds.items() if one.value >= wanted.value),
                bound=not alone,
            )
        )
    return Needed(pair=pair, stages=tuple(stages), kinds=kinds) if stages else None


def alone_of(pair: Pair, rows: Mapping[str, Row]) -> list[Row]:
    """Return the rows that tell how long a prompt alone takes with a pair's speculation."""
    alone = pair.at(1)
    return usable((rows[one] for one in alone.row_ids_on if one in rows), PREFILL) if alone else []


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """What a request takes, in s: with speculation at `tokens` a step, without, and what no acceptance shortens."""

    on: Quantity
    off: Quantity
    rest: Quantity
    tokens: Quantity

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the rows of the side with speculation."""
        return tuple(dict.fromkeys((*self.on.ids, *self.rest.ids)))

    @property
    def of(self) -> str:
        return f"{WHOLE}-{self.rest.of}"

    def ratio_at(self, tokens: float) -> float:
        """Return the throughput to expect at so many tokens a step, ÷ that without speculation."""
        decodes = (self.on.value - self.rest.value) * self.tokens.value / tokens
        return self.off.value / (self.rest.value + decodes)


def times_of(on: Sequence[Row], off: Sequence[Row], alone: Sequence[Row]) -> Times | None:
    """Return the times of a request at one concurrency; `alone` are rows of the on side with one request at a time."""
    kept = usable(on, *columns_of(f"{WHOLE}-{DECODES}"))
    whole, tokens, without = formula_of(kept, WHOLE), formula_of(kept, TOKENS), formula_of(off, WHOLE)
    if whole is None or tokens is None or without is None:
        return None
    prefill = formula_of(alone, PREFILL)
    if prefill:
        of = f"{kept[0].concurrency}*{PREFILL}"
        rest = replace(prefill, value=kept[0].concurrency * prefill.value, of=of, low=None, high=None)
    else:
        outside = formula_of(kept, f"{WHOLE}-{DECODES}")
        if outside is None:
            return None
        rest = replace(outside, of=f"({outside.of})")
    return Times(on=whole, off=without, rest=rest, tokens=tokens)


def _needed(on: Sequence[Row], off: Sequence[Row], alone: Sequence[Row]) -> Quantity | None:
    times = times_of(on, off, alone)
    if times is None or times.off.value <= times.rest.value or times.on.value <= times.rest.value:
        return None
    value = times.tokens.value * (times.on.value - times.rest.value) / (times.off.value - times.rest.value)
    return Quantity(value=value, by="needed", of=times.of, ids=times.ids, base=times.off.ids)


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
    columns = (*SAME_ENGINE, *DRAFTING, "window_method")
    like = {key(rows[one], columns) for one in own if one in rows}
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows.values():
        if comparable(row) and key(row, columns) in like:
            found[row.prompt_set].append(row)
    made = ((name, formula_of(_ordered(found[name]), TOKENS)) for name in sorted(found))
    return {name: one for name, one in made if one}


def _ordered(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row.row_id)


def loses(pair: Pair, noise: Noise) -> bool:
    """Whether there is a loss at any concurrency: elsewhere nobody asks what speculation would need."""
    return any(noise.side(point.value) < 0 for point in pair.measured if point.value)
