"""Which effects are larger than noise: the one judgement that advice, pages and `collector compare` share.

Where both sides have LEAST_REPEATS or more, an interval decides: Student's t on the logarithm of the ratio, with a
variance from its own repeats and from those of the whole campaign (moderated.py). The unit of repeat is the start of
the engine: repeat i of one side is held against repeat i of the other where they were interleaved, so that a drift of
the host falls out; else both sides scatter for themselves (Welch).

Many effects are looked at, and the more there are the more look large by chance. Holm's step-down keeps the chance that
a campaign shows any effect it does not have below ERROR_SHARE, however the effects depend on each other (many share
their base): each is held to ERROR_SHARE ÷ the number of those that are not larger. Intervals have that level, so that
one which leaves out 1 is the verdict. None is narrower than the effect's own repeats make it: one restless pair in a
calm campaign is no finding.

With fewer on a side there is no interval, and nothing is called significant: the effect must exceed the largest
difference between repeats of its kin (repeats.py) some times over. Where one side's kin was never repeated, the noise
is unknown.

An effect of measurements is judged by repeats of measurements alone, one of an emulation by those of the emulation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log, sqrt
from statistics import variance
from typing import Literal

from scipy.special import stdtrit

from collector.analysis.formula import of_row
from collector.analysis.moderated import Common, Spread, common
from collector.analysis.pairing import KV_CACHE, NVLINK, SPECULATION
from collector.analysis.quantity import Quantity
from collector.analysis.repeats import THROUGHPUT, Kin, RepeatError, kin_of, largest, repeat_errors
from collector.analysis.study import Study
from collector.core.rows import Row, comparable

#: In per cent. A smaller effect does not pay for a setting of its own, however well it was measured.
LEAST_EFFECT = 2.0
#: An effect of single measurements must exceed the largest difference between repeats so many times: a handful of
#: repeats shows less than the true largest difference.
NOISE_MULTIPLE = 2
#: In per cent, where nothing was repeated: a little above the largest repeat error published for such a host (2.26).
UNKNOWN_ERROR = 2.5
#: Of campaigns in which nothing has an effect, at most 0.05 may show one. Half of that is given to the intervals; the
#: other half covers what the model leaves out, such as noise that is not normal.
ERROR_SHARE = 0.025
#: The share of the interval that an effect's own repeats give for it alone: a little below 0.05, so that a campaign
#: with one restless pair keeps the same promise.
OWN_SHARE = 0.04

#: Two repeats tell a difference, but next to nothing of a spread: their interval would hide a doubling.
LEAST_REPEATS = 3

#: larger than noise, within it, or unknown where nothing was repeated.
Standing = Literal["larger", "within", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What a ratio is against noise.

    `side` is what advice counts: 1 a gain, -1 a loss, 0 neither (within noise, or no larger than LEAST_EFFECT); where
    the noise is unknown, by UNKNOWN_ERROR. `multiple` is its size ÷ what it must exceed to be larger, so that it is
    above 1 for what is larger and for nothing else: of logarithms and half an interval where there is an interval, of
    per cent and of Noise.percent_of elsewhere.
    """

    standing: Standing
    side: int
    multiple: float | None  # None where nothing was repeated, or the interval has no width
    interval: tuple[float, float] | None  # of the ratio; None with fewer than LEAST_REPEATS on a side


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """The noise of a study, in one column. `effects`: among how many ERROR_SHARE is divided, by Holm."""

    errors: Mapping[Kin, RepeatError]
    rows: Mapping[str, Row]
    common: Mapping[str, Common]  # by provenance; none where no effect has the repeats for an interval
    effects: int
    column: str = THROUGHPUT  # or an expression over columns
    family: str = ""  # named where a page judges other effects beside those of noise_of, which have a level of theirs

    @property
    def floors(self) -> Mapping[Kin, RepeatError | None]:
        """Return the repeat error of each kin that there is; None where it is not known."""
        kins = {kin_of(row) for row in self.rows.values() if comparable(row)}
        return {kin: self.errors.get(kin) for kin in sorted({*kins, *self.errors})}

    @property
    def intervals(self) -> bool:
        """Return whether any effect has the repeats for an interval."""
        return bool(self.common)

    def error_of(self, ratio: Quantity) -> RepeatError | None:
        """Return the larger repeat error of both sides; None where either was never repeated."""
        found = self._errors_of(ratio)
        return largest(one for one in found if one) if all(found) else None

    def percent_of(self, ratio: Quantity) -> float:
        """Return what an effect without repeats of its own must exceed, in per cent."""
        most = max(one.most.value if one else UNKNOWN_ERROR for one in self._errors_of(ratio) or [None])
        return max(LEAST_EFFECT, NOISE_MULTIPLE * most)

    def _errors_of(self, ratio: Quantity) -> list[RepeatError | None]:
        kins = {kin_of(self.rows[one]) for one in (*ratio.ids, *ratio.base) if one in self.rows}
        return [self.errors.get(kin) for kin in kins or self.errors]  # figures have no rows

    def side(self, ratio: Quantity) -> int:
        return self.judge(ratio).side

    def judge(self, ratio: Quantity) -> Judgement:
        """Hold a ratio, of rows or published, against the noise."""
        percent, width = difference(ratio.value), self.half_width(ratio)
        size, bound = self._held(ratio, width)
        multiple = size / bound if bound else None
        larger = size > 0 if multiple is None else multiple > 1
        known = width is not None or self.error_of(ratio) is not None
        counts = larger and percent > LEAST_EFFECT
        return Judgement(
            standing="unknown" if not known else "larger" if larger else "within",
            side=0 if not counts else 1 if ratio.value > 1 else -1,
            multiple=multiple if known else None,
            interval=_around(ratio, width),
        )

    def margin(self, ratio: Quantity) -> float:
        """Return how many times an effect is what it must exceed to count: above 1 it is a gain or a loss."""
        least, (size, bound) = difference(ratio.value) / LEAST_EFFECT, self._held(ratio, self.half_width(ratio))
        return min(least, size / bound) if bound else least

    def _held(self, ratio: Quantity, width: float | None) -> tuple[float, float]:
        """Return the size of an effect and what it must exceed to be larger, on one scale."""
        return (difference(ratio.value), self.percent_of(ratio)) if width is None else (abs(log(ratio.value)), width)

    def interval(self, ratio: Quantity) -> tuple[float, float] | None:
        """Return where the true ratio lies; None with too few repeats."""
        return _around(ratio, self.half_width(ratio))

    def half_width(self, ratio: Quantity) -> float | None:
        """Return how far the interval reaches to either side, as a difference of logarithms."""
        over, under = ([self.rows[one] for one in ids if one in self.rows] for ids in (ratio.ids, ratio.base))
        own = spread(over, under, self.column)
        if own is None:
            return None
        squared, freedom = (self.common.get(over[0].provenance) or common([own])).of(own)
        together = student(1 - ERROR_SHARE / max(1, self.effects) / 2, freedom) * sqrt(squared / own.blocks)
        alone = student(1 - OWN_SHARE / 2, own.freedom) * sqrt(own.variance / own.blocks)
        return max(together, alone)


def _around(ratio: Quantity, width: float | None) -> tuple[float, float] | None:
    return None if width is None else (ratio.value * exp(-width), ratio.value * exp(width))


def difference(ratio: float) -> float:
    """Return the larger side over the smaller one, in per cent, as the repeat error is stated."""
    return 100 * (max(ratio, 1 / ratio) - 1)


def student(share: float, freedom: float) -> float:
    """Return the quantile of Student's t."""
    return float(stdtrit(freedom, share))


def effects(study: Study) -> list[Quantity]:
    """Return every ratio of a study's pairs."""
    return [
        point.value
        for factor in (SPECULATION, KV_CACHE, NVLINK)
        for pair in study.pairs(factor)
        for point in pair.measured
        if point.value
    ]


def noise_of(study: Study) -> Noise:
    """Return the noise of a study, its level made for all of its effects together."""

    def make() -> Noise:
        return noise_among(effects(study), {row.row_id: row for row in study.rows}, repeat_errors(study))

    return study.once("noise", make)


def noise_among(
    ratios: Iterable[Quantity],
    rows: Mapping[str, Row],
    errors: Mapping[Kin, RepeatError],
    column: str = THROUGHPUT,
    family: str = "",
) -> Noise:
    """Return the noise of these ratios."""
    known = list(ratios)
    sides = [tuple([rows[one] for one in ids if one in rows] for ids in (one.ids, one.base)) for one in known]
    spreads: dict[str, list[Spread]] = defaultdict(list)
    for over, under in sides:
        if found := spread(over, under, column):
            spreads[over[0].provenance].append(found)
    for own in spreads.values():
        own.sort(key=lambda one: (one.variance, one.blocks, one.freedom))  # so that sums do not depend on the order
    shared = {provenance: common(own) for provenance, own in spreads.items()}
    count = sum(map(len, spreads.values()))
    noise = Noise(errors=errors, rows=rows, common=shared, effects=count, column=column, family=family)
    return _holm(noise, known)


def _holm(noise: Noise, ratios: Sequence[Quantity]) -> Noise:
    """Divide the level among what is not larger at it, until that changes nothing (Holm's step-down)."""
    every = noise.effects
    while True:
        widths = ((one, noise.half_width(one)) for one in ratios)
        larger = sum(width is not None and abs(log(one.value)) > width for one, width in widths)
        if noise.effects == every - larger:
            return noise
        noise = replace(noise, effects=every - larger)


def spread(over: Sequence[Row], under: Sequence[Row], column: str) -> Spread | None:
    """Return how far the ratio of two sides scatters; None where a side has too few repeats.

    `column` may be an expression over columns (formula.py), above 0 in every row.
    """
    sides = [{row.repeat: log(of_row(row, column) or 0.0) for row in side} for side in (over, under)]
    if min(len(side) for side in sides) < LEAST_REPEATS:
        return None
    starts = _starts(over), _starts(under)
    if interleaved(over, under):
        blocks = sorted(sides[0][repeat] - sides[1][repeat] for repeat in sides[0])
        return Spread(variance=variance(blocks), blocks=len(blocks), freedom=len(blocks) - 1, starts=starts)
    each = [variance(sorted(side.values())) / len(side) for side in sides]
    counts = [len(side) - 1 for side in sides]
    total = sum(each)
    welch = total**2 / sum(one**2 / count for one, count in zip(each, counts, strict=True)) if total else sum(counts)
    blocks_alike = 2 / sum(1 / len(side) for side in sides)
    return Spread(variance=total * blocks_alike, blocks=blocks_alike, freedom=welch, starts=starts)


def interleaved(over: Sequence[Row], under: Sequence[Row]) -> bool:
    """Return whether both sides have the same repeats, each finished on both before another began on either."""
    repeats = {row.repeat for row in over}
    if repeats != {row.repeat for row in under} or len({row.campaign for row in (*over, *under)}) > 1:
        return False
    times = sorted(sorted(row.measured_at for row in (*over, *under) if row.repeat == repeat) for repeat in repeats)
    return all(before[-1] < after[0] for before, after in pairwise(times))


def _starts(rows: Sequence[Row]) -> Hashable:
    return frozenset((row.campaign, row.configuration_id) for row in rows)
