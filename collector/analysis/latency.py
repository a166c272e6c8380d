"""Time to the first token against throughput: what a target for the one leaves of the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collector.analysis.compared import THROUGHPUT
from collector.analysis.curves import Curve, Stage
from collector.analysis.figures import Figure
from collector.analysis.quantity import Quantity, least_of, mean_of, most_of, printed_gain, ratio_of, usable
from collector.analysis.study import Study
from collector.core.rows import Row

MEAN, P95 = "ttft_mean_s", "ttft_p95_s"

#: Seconds to the first token, on the 95th percentile: a chat that feels prompt, a step of an agent, a reader who waits.
#: They are bounds of vLLM's own histogram, so that a bucket lies on one side of them. A reader takes the own target.
TTFT_TARGETS_S = (1, 2.5, 5)

#: A printed change of throughput names its concurrencies, as in throughput_change_c16_to_c32.
_CHANGE = re.compile(r"throughput_change_c(\d+)_to_c(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bucket:
    """The histogram bucket that holds the percentile, s; of repeats the bounds that hold all of them.

    `high` is None above the last finite bound.
    """

    low: Quantity
    high: Quantity | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """The time to the first token at one concurrency; None where it is missing or its checks failed."""

    stage: Stage
    mean: Quantity | None
    p95: Quantity | None  # interpolated inside its bucket
    bucket: Bucket | None

    @property
    def concurrency(self) -> int:
        return self.stage.concurrency


@dataclass(frozen=True, kw_only=True, slots=True)
class Within:
    """The highest concurrency up to which p95 is sure to stay within a target; None where it is at none.

    `undecided`: the next one, where the bucket that holds its p95 lies on both sides of the target. `last`: no higher
    one was measured.
    """

    target_s: float
    concurrency: int | None
    undecided: int | None
    last: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits:
    """A configuration by concurrency, and what its last step does to throughput and wait, after ÷ before."""

    curve: Curve
    waits: tuple[Wait, ...]
    step: tuple[int, int] | None  # its last two concurrencies; None with a single one
    change: Quantity | None
    growth: Quantity | None
    within: tuple[Within, ...]  # one for each target

    def at(self, concurrency: int) -> Wait | None:
        return next((one for one in self.waits if one.concurrency == concurrency), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """The shortest and the longest mean wait over all configurations at their highest common concurrency."""

    concurrency: int
    least: Quantity
    most: Quantity
    configurations: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A printed change of throughput between two concurrencies."""

    figure: Figure
    low: int
    high: int

    @property
    def ratio(self) -> Quantity:
        return printed_gain(self.figure)


def waits_of(curve: Curve) -> Waits:
    """Return the waits of a configuration, and how much it does within each target."""
    waits = tuple(_wait(stage) for stage in curve.stages)
    last = [stage for stage in curve.stages if stage.throughput][-2:]
    before, after = last if len(last) > 1 else (None, None)
    return Waits(
        curve=curve,
        waits=waits,
        step=(before.concurrency, after.concurrency) if before and after else None,
        change=ratio_of(after.rows, before.rows, THROUGHPUT) if before and after else None,
        growth=ratio_of(after.rows, before.rows, MEAN) if before and after else None,
        within=tuple(within([(one.concurrency, one.bucket) for one in waits], target) for target in TTFT_TARGETS_S),
    )


def range_of(found: Sequence[Curve]) -> Range | None:
    """Return the range of the mean wait at the highest concurrency; None where nothing is known there."""
    rows = usable((row for curve in found for row in curve.rows), MEAN)
    if not rows:
        return None
    highest = max(row.concurrency for row in rows)
    there = [row for row in rows if row.concurrency == highest]
    least, most = least_of(there, MEAN), most_of(there, MEAN)
    if least is None or most is None:
        return None
    configurations = len({row.configuration_id for row in there})
    return Range(concurrency=highest, least=least, most=most, configurations=configurations)


def printed_changes(study: Study) -> list[Change]:
    """Return the published changes of throughput between two concurrencies, in the order of print."""
    found = []
    for figure in study.figures:
        named = _CHANGE.fullmatch(figure.metric)
        if named:
            found.append(Change(figure=figure, low=int(named[1]), high=int(named[2])))
    return found


def _wait(stage: Stage) -> Wait:
    return Wait(stage=stage, mean=mean_of(stage.rows, MEAN), p95=mean_of(stage.rows, P95), bucket=bucket_of(stage.rows))


def bucket_of(rows: Iterable[Row], percentile: str = P95) -> Bucket | None:
    """Return the bucket that holds a percentile in all of these rows; None where no comparable row has one."""
    below, above = (f"{percentile.removesuffix('_s')}_{end}_s" for end in ("low", "high"))
    held = usable(rows, below)
    low = least_of(held, below)
    closed = len(usable(held, above)) == len(held)
    return Bucket(low=low, high=most_of(held, above) if closed else None) if low else None


def within(stages: Iterable[tuple[int, Bucket | None]], target_s: float) -> Within:
    """Return what a target allows, of buckets by rising concurrency.

    Nothing is claimed across a concurrency whose bucket is not known, exceeds the target or straddles it.
    """
    held: int | None = None
    for concurrency, bucket in stages:
        if bucket is None or bucket.low.value >= target_s:
            return Within(target_s=target_s, concurrency=held, undecided=None, last=False)
        if bucket.high is None or bucket.high.value > target_s:
            return Within(target_s=target_s, concurrency=held, undecided=concurrency, last=False)
        held = concurrency
    return Within(target_s=target_s, concurrency=held, undecided=None, last=held is not None)
