"""Acceptance that was asked for, against its prediction: does speculation pay where it is computed to?

vLLM can accept drafts as it is told (rejection_sample_method: synthetic). Such rows are no drafter's and feed nothing
else (study.basis). Here each of them stands beside speculation off and beside the same setting with real drafts, whose
times (needed.py) predict what its tokens per step should have given. With several acceptances at one concurrency, the
measured break-even lies between the most tokens that lose and the fewest that gain.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collector.analysis.compared import THROUGHPUT, Pair, RatioPoint, compared
from collector.analysis.formula import formula_of
from collector.analysis.needed import At, Times, alone_of, needed, times_of
from collector.analysis.noise import Noise, noise_among
from collector.analysis.pairing import SPECULATION
from collector.analysis.quantity import Quantity, usable
from collector.analysis.repeats import errors_among
from collector.analysis.schedule import is_pure
from collector.analysis.step_time import TOKENS
from collector.analysis.study import Study
from collector.core.rows import Row
from collector.core.speculative import SAMPLER, SYNTHETIC_LENGTH, SYNTHETIC_RATES, synthetic_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One acceptance at one concurrency. `asked`: tokens a step, as text; None of the drafts as they are."""

    asked: str | None
    tokens: Quantity  # a step, as measured
    ratio: Quantity  # of system throughputs, on ÷ off
    side: int  # gain (1), loss (-1) or neither (0), by the noise
    predicted: Quantity | None  # the ratio that the real drafts' times say for these tokens
    error: Quantity | None  # ratio ÷ predicted, as a gain in per cent

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.ratio.ids, *self.ratio.base)))


@dataclass(frozen=True, kw_only=True, slots=True)
class AtLoad:
    """One concurrency: every acceptance by rising tokens a step, and what was predicted to break even."""

    concurrency: int
    needed: At | None
    measured: tuple[Asked, ...]

    @property
    def bracket(self) -> tuple[Quantity | None, Quantity | None]:
        """Return the most tokens a step that lose and the fewest that gain; None where nothing does.

        A gain below a loss, by chance or by a fault, makes both ends None: there is no one crossing.
        """
        losing = [one.tokens for one in self.measured if one.side < 0]
        gaining = [one.tokens for one in self.measured if one.side > 0]
        low, high = max(losing, key=_value, default=None), min(gaining, key=_value, default=None)
        return (low, high) if not (low and high) or low.value < high.value else (None, None)

    @property
    def contains(self) -> bool | None:
        """Whether the prediction lies within the bracket; None where an end or the prediction is missing."""
        low, high = self.bracket
        return low.value < self.needed.needed.value < high.value if low and high and self.needed else None

    @property
    def nearest(self) -> Asked | None:
        """Return the acceptance asked for whose tokens come nearest to those predicted to break even."""
        asked = [one for one in self.measured if one.asked]
        wanted = self.needed.needed.value if self.needed else None
        return min(asked, key=lambda one: abs(one.tokens.value / wanted - 1)) if asked and wanted else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """A way of speculating with the acceptances that were asked of it. `pair`: its drafts as they are, against off."""

    pair: Pair
    loads: tuple[AtLoad, ...]
    noise: Noise


def asked(study: Study) -> tuple[Held, ...]:
    """Return every way of speculating that was also run with an acceptance asked for."""
    every = compared(SPECULATION, study.rows)
    families: dict[Any, list[Pair]] = defaultdict(list)
    for pair in every:
        if synthetic_of(pair.get("speculative_config")) is not None and pair.measured:
            families[_family(pair)].append(pair)
    real = {_family(pair): pair for pair in every if is_pure(pair) and pair.get("speculative_config")}
    found = [(real[family], own) for family, own in families.items() if family in real]
    known = {row.row_id: row for row in study.rows}
    ratios = [point.value for pure, own in found for point in _points(pure, own) if point.value]
    noise = noise_among(ratios, known, errors_among(study.rows), family="asked")
    return tuple(_held(pure, own, known, noise) for pure, own in found)


def _points(pure: Pair, own: Sequence[Pair]) -> list[RatioPoint]:
    """Return what is shown: the drafts as they are only where an acceptance was asked for."""
    asked_at = {point.concurrency for pair in own for point in pair.measured}
    return [point for pair in (pure, *own) for point in pair.measured if point.concurrency in asked_at]


def _family(pair: Pair) -> tuple[Any, ...]:
    """Return what a pair shares with the same drafts as they are."""
    given = json.loads(pair.get("speculative_config") or "{}")
    plain = {name: given[name] for name in given if name not in (SAMPLER, SYNTHETIC_RATES, SYNTHETIC_LENGTH)}
    ways = tuple(value for name, value in pair.way if name != "speculative_config")
    return (*pair.setting, *ways, json.dumps(plain, sort_keys=True))


def _held(pure: Pair, own: Sequence[Pair], rows: Mapping[str, Row], noise: Noise) -> Held:
    wanted = needed(pure, rows.values())
    computed = {one.concurrency: one for one in wanted.stages} if wanted else {}
    alone = alone_of(pure, rows)
    loads = []
    for at in sorted({point.concurrency for pair in own for point in pair.measured}):
        times = _times(pure.at(at), rows, alone)
        points = [(pair, point) for pair in (pure, *own) if (point := pair.at(at))]
        measured = [one for pair, point in points if (one := _asked(pair, point, rows, times, noise))]
        ordered = tuple(sorted(measured, key=lambda one: (one.tokens.value, one.ratio.ids)))
        loads.append(AtLoad(concurrency=at, needed=computed.get(at), measured=ordered))
    return Held(pair=pure, loads=tuple(loads), noise=noise)


def _times(point: RatioPoint | None, rows: Mapping[str, Row], alone: Sequence[Row]) -> Times | None:
    if point is None:
        return None
    return times_of([rows[one] for one in point.row_ids_on], [rows[one] for one in point.row_ids_off], alone)


def _asked(pair: Pair, point: RatioPoint, rows: Mapping[str, Row], times: Times | None, noise: Noise) -> Asked | None:
    own = usable((rows[one] for one in point.row_ids_on), TOKENS, THROUGHPUT)
    tokens, length = formula_of(own, TOKENS), synthetic_of(pair.get("speculative_config"))
    if tokens is None or point.value is None:
        return None
    predicted = _predicted(tokens, times) if times and length else None
    return Asked(
        asked=length,
        tokens=tokens,
        ratio=point.value,
        side=noise.side(point.value),
        predicted=predicted,
        error=_error(point.value, predicted) if predicted else None,
    )


def _predicted(tokens: Quantity, times: Times) -> Quantity:
    """Return the ratio to expect: `ids` are the rows that were asked and those of the real drafts."""
    return Quantity(
        value=times.ratio_at(tokens.value),
        by="expected",
        of=times.of,
        ids=(*tokens.ids, *times.ids),
        base=times.off.ids,
    )


def _error(ratio: Quantity, predicted: Quantity) -> Quantity:
    return replace(predicted, value=100 * (ratio.value / predicted.value - 1), by="expected_error")


def _value(one: Quantity) -> float:
    return one.value
