"""Which k at which batch size: the schedule that a pair's ratios suggest, and one that was itself measured.

A schedule (`num_speculative_tokens_per_batch_size`) says k for the number of requests in a step. The one suggested
takes, at each batch size, the k whose ratio is highest there, and 0 where none is above 1; between measured
concurrencies a ratio is linear over the logarithm, as in break_even. It is a prediction: at k = 0 the drafter's first
forward still runs, to keep its KV in step, and a schedule costs vLLM's V1 runner its full CUDA graphs. What k = 0
costs is therefore only known where the schedule is measured against speculation off.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import log2
from typing import Any

from collector.analysis.break_even import Point, points_of
from collector.analysis.compared import THROUGHPUT, Pair
from collector.analysis.pairing import SPECULATION
from collector.analysis.quantity import Quantity, ratio_of
from collector.analysis.study import Study
from collector.core.rows import Row
from collector.core.speculative import SCHEDULE, TOKENS, is_plain, k_at, schedule_of

Ranges = tuple[tuple[int, int, int], ...]  # first batch size, last, k


@dataclass(frozen=True, kw_only=True, slots=True)
class Suggested:
    """A schedule that nobody has measured. `pairs`: the ways of one method that it switches between."""

    pairs: tuple[Pair, ...]
    ranges: Ranges
    config: str  # the --speculative-config object as JSON
    ids: tuple[str, ...]

    @property
    def pair(self) -> Pair:
        """Return the way with the largest k, whose object the schedule was put into."""
        return self.pairs[-1]


@dataclass(frozen=True, kw_only=True, slots=True)
class At:
    """A schedule at one concurrency beside both pure settings; a side that was not measured is None."""

    concurrency: int
    k: int  # while so many requests are in a step
    scheduled: Quantity | None  # tok/s, as the two below
    on: Quantity | None
    off: Quantity | None
    over_off: Quantity | None  # schedule ÷ speculation off: at k = 0 what the schedule itself costs
    over_on: Quantity | None

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one for side in (self.scheduled, self.on, self.off) if side for one in side.ids))


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A schedule that was run: `pair` is the schedule against speculation off, `pure` the same k for any batch size."""

    pair: Pair
    pure: Pair | None
    ranges: Ranges
    stages: tuple[At, ...]
    lowered: tuple[str, str] | None  # CUDA-graph modes without and with the schedule; None: the same, or not known

    @property
    def worst(self) -> Quantity | None:
        """Return the lowest ratio to the better of both pure settings, at any concurrency."""
        known = [side for one in self.stages for side in (one.over_off, one.over_on) if side]
        return min(known, key=lambda one: one.value, default=None)

    @property
    def idle(self) -> tuple[At, ...]:
        """Return the stages at k = 0 that tell what the drafter's remaining forward costs."""
        return tuple(one for one in self.stages if one.k == 0 and one.over_off)


def is_scheduled(pair: Pair) -> bool:
    return bool(schedule_of(pair.get("speculative_config")))


def suggestions(study: Study) -> list[Suggested]:
    """Return a schedule for each method and setting where more than one k is the best one somewhere."""
    families: dict[Any, list[Pair]] = defaultdict(list)
    for pair in study.pairs(SPECULATION):
        if pair.measured and is_pure(pair) and pair.get("speculative_config") and pair.num_speculative_tokens:
            families[_family(pair)].append(pair)
    found = (_suggested(sorted(own, key=lambda pair: pair.num_speculative_tokens or 0)) for own in families.values())
    return [one for one in found if one]


def is_pure(pair: Pair) -> bool:
    """Whether a pair's drafts are a drafter's, as many in each step."""
    return is_plain(pair.get("speculative_config"))


def _family(pair: Pair) -> tuple[Any, ...]:
    config = {name: value for name, value in json.loads(pair["speculative_config"]).items() if name != TOKENS}
    return (*pair.setting, json.dumps(config, sort_keys=True))


def _suggested(pairs: Sequence[Pair]) -> Suggested | None:
    curves = {pair.num_speculative_tokens or 0: points_of(pair) for pair in pairs}
    highest = max(curve[-1].concurrency for curve in curves.values())
    last = max(highest, pairs[0].get("max_num_seqs") or 0)
    ranges = _ranges([best_k(curves, batch) for batch in range(1, highest + 1)], last)
    if len(ranges) < 2:
        return None
    config = json.loads(pairs[-1]["speculative_config"]) | {SCHEDULE: [list(one) for one in ranges]}
    ids = dict.fromkeys(one for curve in curves.values() for point in curve for one in point.row_ids)
    return Suggested(
        pairs=tuple(pairs),
        ranges=ranges,
        config=json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False),
        ids=tuple(ids),
    )


def best_k(curves: Mapping[int, Sequence[Point]], batch: int) -> int:
    """Return the k with the highest ratio at a batch size; 0, whose ratio is 1, where none is above it."""
    known = {k: found for k, curve in curves.items() if (found := ratio_at(curve, batch)) is not None}
    return max({0: 1.0} | known, key=lambda k: ({0: 1.0} | known)[k])


def ratio_at(curve: Sequence[Point], batch: int) -> float | None:
    """Return a ratio between measured concurrencies, below the lowest its own; None above the highest."""
    if batch <= curve[0].concurrency:
        return curve[0].ratio
    for before, after in pairwise(curve):
        if batch <= after.concurrency:
            share = log2(batch / before.concurrency) / log2(after.concurrency / before.concurrency)
            return before.ratio + share * (after.ratio - before.ratio)
    return None


def _ranges(by_batch: Sequence[int], last: int) -> Ranges:
    found: list[tuple[int, int, int]] = []
    for k, group in groupby(enumerate(by_batch, start=1), key=lambda one: one[1]):
        batches = [batch for batch, _ in group]
        found.append((batches[0], batches[-1], k))
    return (*found[:-1], (found[-1][0], last, found[-1][2]))


def measured(study: Study) -> list[Measured]:
    """Return every schedule among the rows, at every concurrency that it was measured at."""
    rows = {row.row_id: row for row in study.rows}
    pairs = study.pairs(SPECULATION)
    pure = [pair for pair in pairs if pair.get("speculative_config") and not is_scheduled(pair)]
    return [_measured(pair, _pure_of(pair, pure), rows) for pair in pairs if is_scheduled(pair)]


def _pure_of(pair: Pair, others: Iterable[Pair]) -> Pair | None:
    config = json.loads(pair["speculative_config"])
    wanted = {name: value for name, value in config.items() if name != SCHEDULE}
    same = (one for one in others if one.setting == pair.setting)
    return next((one for one in same if json.loads(one["speculative_config"]) == wanted), None)


def _measured(pair: Pair, pure: Pair | None, rows: Mapping[str, Row]) -> Measured:
    ranges = schedule_of(pair["speculative_config"])
    stages = []
    for point in pair.points:
        beside = next((one for one in pure.points if _same_stage(one, point)), None) if pure else None
        scheduled, on = ([rows[one] for one in ids] for ids in (point.row_ids_on, beside.row_ids_on if beside else ()))
        if scheduled:
            stages.append(
                At(
                    concurrency=point.concurrency,
                    k=k_at(ranges, point.concurrency),
                    scheduled=point.on,
                    on=beside.on if beside else None,
                    off=point.off,
                    over_off=point.value,
                    over_on=ratio_of(scheduled, on, THROUGHPUT),
                )
            )
    return Measured(pair=pair, pure=pure, ranges=ranges, stages=tuple(stages), lowered=_lowered(pair, rows))


def _lowered(pair: Pair, rows: Mapping[str, Row]) -> tuple[str, str] | None:
    """Return the modes of both sides where each states a single one, and they differ."""
    off = {rows[one].cudagraph_mode for point in pair.points for one in point.row_ids_off}
    on = {rows[one].cudagraph_mode for point in pair.points for one in point.row_ids_on}
    if len(off) != 1 or len(on) != 1 or off == on:
        return None
    before, after = off.pop(), on.pop()
    return (before, after) if before and after else None


def _same_stage(one: Any, other: Any) -> bool:
    return (one.concurrency, one.requests, one.warmup_requests) == (
        other.concurrency,
        other.requests,
        other.warmup_requests,
    )
