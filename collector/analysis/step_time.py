"""Why a gain turns into a loss: the ratio of system throughputs, taken apart into what a step does and what it costs.

By the definitions in core/counters.py, with G generated tokens, W the window, and F, N and I the number of first
tokens, the number and the sum of inter-token observations:

    request decode rate = (G - F) / I = tokens per step ((G - F) / N) / step time (I / N)
    system throughput   = G / W       = request decode rate x (I / W) x G / (G - F)

I / W is the mean number of requests that are decoding, and G / (G - F) is the same on both sides, since every request
has the same output length. So, on / off:

    system throughput = tokens per step / step time x requests decoding

exactly. What max_tokens cuts off is in none of the generated tokens, so it is in tokens per step already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, log

from collector.analysis.compared import THROUGHPUT, Pair, RatioPoint, compared
from collector.analysis.curves import OF_A_LOAD
from collector.analysis.formula import columns_of, formula_of, formula_ratio
from collector.analysis.noise import Noise
from collector.analysis.pairing import SPECULATION
from collector.analysis.quantity import Quantity, mean_of, usable
from collector.analysis.schedule import is_pure
from collector.analysis.speculation import Verdict, verdict
from collector.core.rows import Failure, Row

TOKENS, STEP = "tokens_per_step", "step_time_mean_s"
DECODE = f"{TOKENS}/{STEP}"
#: Up to G / (G - F) the mean number of requests decoding; in a ratio that factor is 1.
REST = f"{THROUGHPUT}*{STEP}/{TOKENS}"
DECODING = f"{REST}*(output_tokens-1)/output_tokens"
#: A request's step verifies every drafted position and the one after them.
POSITIONS = "num_speculative_tokens+1"
POSITIONS_PER_STEP = f"concurrency*({POSITIONS})"
#: Share of the verified positions that gave no token.
REJECTED = "(draft_tokens-accepted_tokens)/(draft_tokens+drafts)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One side at one concurrency; of a published study, what was printed."""

    tokens: Quantity | None = None
    step: Quantity | None = None  # s
    decode: Quantity | None = None  # tok/s of one request
    decoding: Quantity | None = None  # requests, mean over the window


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One concurrency of a pair. system = tokens ÷ step × rest; what was not measured or published is None."""

    point: RatioPoint
    on: Arm
    off: Arm
    tokens: Quantity | None = None  # the four factors are on ÷ off
    step: Quantity | None = None
    decode: Quantity | None = None
    rest: Quantity | None = None
    system: Quantity | None = None
    positions: Quantity | None = None  # verified per request and step, at most
    positions_per_step: Quantity | None = None  # while every request is decoding
    rejected: Quantity | None = None
    implied: tuple[Arm, Arm] | None = None  # on, off: what published figures would mean for a step
    rows_on: tuple[Row, ...] = ()
    rows_off: tuple[Row, ...] = ()

    @property
    def concurrency(self) -> int:
        return self.point.concurrency

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the rows, or published figures, behind this concurrency."""
        known = (self.system, self.point.value, self.decode, self.rest)
        sides = [(*self.point.row_ids_on, *self.point.row_ids_off)]
        sides += [(*one.ids, *one.base) for one in known if one]
        return tuple(dict.fromkeys(name for side in sides for name in side))

    @property
    def complete(self) -> bool:
        return None not in (self.tokens, self.step, self.decode, self.rest, self.system)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A pair taken apart, concurrency by concurrency."""

    pair: Pair
    verdict: Verdict
    parts: tuple[Part, ...]

    @property
    def load(self) -> tuple[object, ...]:
        """Return what pairs on one pair of axes share."""
        return tuple(self.pair.get(name) for name in OF_A_LOAD)

    @property
    def loses(self) -> bool:
        return self.verdict.loss is not None

    @property
    def turns(self) -> bool:
        """Whether there is a gain at one concurrency and a loss at another."""
        return self.loses and self.verdict.gain is not None

    @property
    def known(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.decode)

    @property
    def telling(self) -> Part | None:
        """The part that says most of what is known: at the worst concurrency of a loss, at the best of a gain."""
        known = sorted(self.known, key=lambda part: part.point.ratio or 1.0)
        return (known[0] if self.loses else known[-1]) if known else None


def cases(pairs: Iterable[Pair], part: Callable[[Pair, RatioPoint], Part], noise: Noise | None = None) -> list[Case]:
    """Return every pair with a ratio: those that turn first, then those that lose, then those that gain.

    Within these, what can be taken apart comes before what cannot, and the larger effect before the smaller.
    """
    found = []
    for pair in pairs:
        said = verdict(pair, noise)
        if said:
            found.append(Case(pair=pair, verdict=said, parts=tuple(part(pair, point) for point in pair.points)))
    return sorted(found, key=_severity)


def cases_of(rows: Iterable[Row], failures: Iterable[Failure] = (), noise: Noise | None = None) -> list[Case]:
    """Return the cases among rows. `noise`: what judges their ratios; without it their means do."""
    known = {row.row_id: row for row in rows}
    pairs = [one for one in compared(SPECULATION, known.values(), failures) if is_pure(one)]  # k in every step
    return cases(pairs, lambda _, point: part_of(point, known), noise)


def leading(found: Iterable[Case]) -> list[Case]:
    """Return one case of each load, model and way of speculating, in the order given.

    Of several settings it is the one to serve with: what can be taken apart, then the highest throughput.
    """
    by_way: dict[tuple[object, ...], Case] = {}
    for case in found:
        way = (*case.load, case.pair["model"], case.pair.speculation, case.pair.num_speculative_tokens)
        by_way[way] = max(by_way.get(way, case), case, key=lambda one: (bool(one.known), _highest(one.pair)))
    return list(by_way.values())


def moved(case: Case) -> str | None:
    """Return the factor that moved the ratio most between the lowest concurrency and the telling one: its Part's name.

    None where fewer than two concurrencies can be taken apart, or nothing moved.
    """
    parts = [part for part in case.parts if part.complete]
    return moved_between(parts[0], case.telling) if parts and case.telling else None


def moved_between(first: Part, last: Part) -> str | None:
    """Return the factor that moved the ratio most from one concurrency to another.

    Factors multiply, so their logarithms add up to the ratio's: the largest of them, in the ratio's own direction,
    moved it. None where one of the two cannot be taken apart, they are the same, or nothing moved.
    """
    if not first.complete or not last.complete or first is last:
        return None
    by = {"tokens": _moved(first.tokens, last.tokens), "rest": _moved(first.rest, last.rest)}
    by["step"] = -_moved(first.step, last.step)
    total = fsum(by.values())
    name = max(by, key=lambda one: by[one] if total > 0 else -by[one])
    return name if total and by[name] else None


def _moved(first: Quantity | None, last: Quantity | None) -> float:
    return log(last.value / first.value) if first and last else 0.0


def decode_bracket(case: Case, noise: Noise) -> tuple[int, int] | None:
    """Return the neighbouring concurrencies between which a step's cost overtakes its yield; None where it does not.

    `noise` is that of decode rates. Where one in between is within it, something is known there.
    """
    sides = [(part.concurrency, noise.side(part.decode)) for part in case.known if part.decode]
    return next(((low, high) for (low, gain), (high, loss) in pairwise(sides) if gain > 0 > loss), None)


def _severity(case: Case) -> tuple[int, bool, float, float]:
    worst, best = case.verdict.worst.ratio or 1.0, case.verdict.best.ratio or 1.0
    if not case.loses:
        return 2, not case.known, -best, -best
    return 0 if case.turns else 1, not case.known, worst, -best


def part_of(point: RatioPoint, rows: Mapping[str, Row]) -> Part:
    """Take a point apart over the rows that have all it takes, so that the factors multiply exactly."""
    if point.ratio is None:
        return Part(point=point, on=Arm(), off=Arm())
    on, off = ([rows[one] for one in ids] for ids in (point.row_ids_on, point.row_ids_off))
    whole_on, whole_off = usable(on, *columns_of(REST)), usable(off, *columns_of(REST))
    return Part(
        point=point,
        on=_arm(on),
        off=_arm(off),
        tokens=formula_ratio(whole_on, whole_off, TOKENS),
        step=formula_ratio(whole_on, whole_off, STEP),
        decode=formula_ratio(whole_on, whole_off, DECODE),
        rest=formula_ratio(whole_on, whole_off, REST),
        system=formula_ratio(whole_on, whole_off, THROUGHPUT),
        positions=formula_of(on, POSITIONS),
        positions_per_step=formula_of(on, POSITIONS_PER_STEP),
        rejected=formula_of(on, REJECTED),
        rows_on=tuple(on),
        rows_off=tuple(off),
    )


def _arm(rows: list[Row]) -> Arm:
    return Arm(
        tokens=mean_of(rows, TOKENS),
        step=mean_of(rows, STEP),
        decode=formula_of(rows, DECODE),
        decoding=formula_of(rows, DECODING),
    )


def _highest(pair: Pair) -> float:
    return max((side for point in pair.points for side in (point.on_tok_s, point.off_tok_s) if side), default=0.0)
