"""Which k at which batch size: the schedule that a pair's ratios suggest, and one that was itself measured.

A schedule (`num_speculative_tokens_per_batch_size`) says k for the number of requests in a step. One is suggested
where no single k, nor 0, is near the best at every measured concurrency: what is within noise is no reason for one. At
each of them it has the k that is chosen there (choosing.py); between two with different k it changes where their
ratios cross, each linear over the logarithm, as in break_even. It is a prediction: at k = 0 the drafter's first
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

from collector.analysis.choosing import Judging, choose
from collector.analysis.compared import THROUGHPUT, Pair
from collector.analysis.noise import Noise, noise_among
from collector.analysis.pairing import OFF, SPECULATION
from collector.analysis.quantity import Quantity, ratio_of
from collector.analysis.speculation import Point, points_of
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
    turns: tuple[tuple[int, int], ...]  # measured concurrencies between which it changes k, somewhere
    ids: tuple[str, ...]

    @property
    def pair(self) -> Pair:
        """Return the way with the largest k, whose object the schedule was put into."""
        return self.pairs[-1]

    @property
    def open(self) -> tuple[tuple[int, int], ...]:
        """Return the turns whose place is not known: those that are not between neighbours."""
        return tuple((low, high) for low, high in self.turns if high - low > 1)


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


def pure_noise(found: Iterable[Measured], noise: Noise) -> Noise:
    """Return what judges schedule ÷ always on; `noise` is that of the study's pairs, which schedule ÷ off is one of."""
    ratios = [at.over_on for one in found for at in one.stages if at.over_on]
    return noise_among(ratios, noise.rows, noise.errors, family="schedule")


def is_scheduled(pair: Pair) -> bool:
    return bool(schedule_of(pair.get("speculative_config")))


def suggestions(study: Study, judging: Judging) -> list[Suggested]:
    """Return a schedule for each method and setting where no one k is near the best at every concurrency.

    None for a method of which a model has a measured schedule: then its rows say what it is worth.
    """
    families: dict[Any, list[Pair]] = defaultdict(list)
    pairs = study.pairs(SPECULATION)
    done = {(pair["model"], pair.speculation) for pair in pairs if is_scheduled(pair) and pair.measured}
    for pair in pairs:
        drafts = pair.get("speculative_config") and pair.num_speculative_tokens
        if pair.measured and is_pure(pair) and drafts and (pair["model"], pair.speculation) not in done:
            families[_family(pair)].append(pair)
    rows = {row.row_id: row for row in study.rows}
    every = (sorted(own, key=lambda pair: pair.num_speculative_tokens or 0) for own in families.values())
    return [one for own in every if (one := _suggested(own, rows, judging))]


def is_pure(pair: Pair) -> bool:
    """Whether a pair's drafts are a drafter's, as many in each step."""
    return is_plain(pair.get("speculative_config"))


def _family(pair: Pair) -> tuple[Any, ...]:
    config = {name: value for name, value in json.loads(pair["speculative_config"]).items() if name != TOKENS}
    return (*pair.setting, json.dumps(config, sort_keys=True))


def _suggested(pairs: Sequence[Pair], rows: Mapping[str, Row], judging: Judging) -> Suggested | None:
    curves = {pair.num_speculative_tokens or 0: points_of(pair) for pair in pairs}
    ids = dict.fromkeys(one for curve in curves.values() for point in curve for one in point.row_ids)
    chosen = {one.concurrency: _k(one.row) for one in choose([rows[one] for one in ids], judging)}
    if len(set(chosen.values())) < 2:
        return None
    highest = max(chosen)
    last = max(highest, pairs[0].get("max_num_seqs") or 0)
    ranges = _ranges([k_between(chosen, curves, batch) for batch in range(1, highest + 1)], last)
    config = json.loads(pairs[-1]["speculative_config"]) | {SCHEDULE: [list(one) for one in ranges]}
    return Suggested(
        pairs=tuple(pairs),
        ranges=ranges,
        config=json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False),
        turns=tuple((low, high) for low, high in pairwise(sorted(chosen)) if chosen[low] != chosen[high]),
        ids=tuple(ids),
    )


def _k(row: Row) -> int:
    return row.num_speculative_tokens or 0 if row.speculation != OFF else 0


def k_between(chosen: Mapping[int, int], curves: Mapping[int, Sequence[Point]], batch: int) -> int:
    """Return the k at a batch size: the one chosen at the nearest concurrency on the same side of where ratios cross.

    `chosen`: k by measured concurrency. `curves`: ratios to speculation off by k; that of k = 0 is 1 throughout.
    """
    below, above = max((at for at in chosen if at <= batch), default=None), min(at for at in chosen if at >= batch)
    if below is None or chosen[below] == chosen[above]:
        return chosen[above]
    before, after = (_ratio(curves, chosen[at], batch) for at in (below, above))
    return chosen[above] if batch == above or after > before else chosen[below]


def _ratio(curves: Mapping[int, Sequence[Point]], k: int, batch: int) -> float:
    return (ratio_at(curves[k], batch) or 0.0) if k else 1.0


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
