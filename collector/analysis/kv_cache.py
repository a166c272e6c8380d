"""What another KV cache dtype changes: throughput by concurrency, and the room for tokens on both sides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from collector.analysis.compared import Pair, RatioPoint
from collector.analysis.failed_starts import FailedStart, failed_starts
from collector.analysis.figures import Figure
from collector.analysis.mixed import Drafting, drafting
from collector.analysis.noise import Noise, noise_of
from collector.analysis.pairing import KV_CACHE, OFF, SAME_LOAD
from collector.analysis.quantity import Quantity, mean_of, most_of, ratio_of
from collector.analysis.study import Study
from collector.core.rows import Row

#: Below this share of its KV cache an engine has room for more requests than it runs: usage is sampled, and the
#: true peak can lie a little above the largest sample.
ROOM_BELOW_PERCENT = 80

#: How the gain moves from the lowest to the highest concurrency.
Trend = Literal["grows", "shrinks", "mixed"]
#: The category of a start that the dtype itself prevented.
OF_DTYPE = "kv_dtype"
#: Reasons that a page tells of a pair without any ratio; failed starts are listed apart.
TOLD = ("checks", "ambiguous", "no_throughput", "settings_differ")
#: A published note names the backend so.
NOTED_BACKEND = re.compile(r"attention backend (\w+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One dtype of a pair: what the engine chose for it, and its KV cache at the highest concurrency."""

    dtype: str
    backends: tuple[str, ...]  # none where nothing states it
    graph_modes: tuple[str, ...]
    capacity: Quantity | None
    usage: Quantity | None
    preemptions: Quantity | None

    @property
    def room(self) -> bool | None:
        """Whether slots for more tokens could not have helped; None where usage or preemptions are not known.

        There was room where nothing was preempted and the cache was not full.
        """
        if self.preemptions and self.preemptions.value > 0:
            return False
        if self.usage is None or (self.preemptions is None and self.usage.value * 100 < ROOM_BELOW_PERCENT):
            return None
        return self.usage.value * 100 < ROOM_BELOW_PERCENT


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """A dtype against auto, all else equal; `top` is the highest concurrency with a ratio."""

    pair: Pair
    top: RatioPoint
    without: Side
    with_it: Side
    capacity: Quantity | None  # ratio
    trend: Trend | None  # None of a single concurrency
    drafting: tuple[Drafting, ...]  # acceptance on both sides; none without speculation

    @property
    def backends_differ(self) -> bool | None:
        """None where either side's backend is not known."""
        if not self.without.backends or not self.with_it.backends:
            return None
        return self.without.backends != self.with_it.backends


def effects(study: Study) -> list[Effect]:
    """Return what was compared."""
    noise = noise_of(study)
    return [_effect(study, pair, noise) for pair in study.pairs(KV_CACHE) if pair.measured]


def plain(found: Sequence[Effect]) -> list[Effect]:
    """Return the comparisons that vary the dtype alone: without speculation, with the link as it is.

    Where there is none, those without speculation; then all.
    """
    off = [one for one in found if one.pair.get("speculation") == OFF]
    linked = [one for one in off if one.pair.get("nvlink") != OFF]
    return linked or off or list(found)


def without_ratio(study: Study) -> list[Pair]:
    """Return the pairs that were measured and cannot be compared: neither for a failed start nor for other prompts."""
    return [pair for pair in study.pairs(KV_CACHE) if pair.points and not pair.measured and _says_why(pair)]


def _says_why(pair: Pair) -> bool:
    reasons = [point.reason for point in pair.points if point.reason]
    return any(one.kind in TOLD and not set(one.names) & set(SAME_LOAD) for one in reasons)


def _effect(study: Study, pair: Pair, noise: Noise) -> Effect:
    rows = noise.rows
    top = max(pair.measured, key=lambda one: one.concurrency)
    on, off = ([rows[one] for one in ids if one in rows] for ids in (top.row_ids_on, top.row_ids_off))
    noted = _noted(study.figures_of("kv_fp8_gain", model=pair["model"], kv_cache_dtype=pair["kv_cache_dtype"]))
    return Effect(
        pair=pair,
        top=top,
        without=_side(KV_CACHE.base, _all_of(pair, rows, "off"), off),
        with_it=_side(pair["kv_cache_dtype"], _all_of(pair, rows, "on"), on, noted),
        capacity=ratio_of(on, off, "kv_cache_tokens"),
        trend=_trend([point.ratio for point in pair.measured if point.ratio is not None]),
        drafting=drafting(study, pair, noise),
    )


def _side(dtype: str, every: Sequence[Row], top: Sequence[Row], noted: tuple[str, ...] = ()) -> Side:
    return Side(
        dtype=dtype,
        backends=_stated(every, "attention_backend") or noted,
        graph_modes=_stated(every, "cudagraph_mode"),
        capacity=mean_of(top, "kv_cache_tokens"),
        usage=most_of(top, "kv_usage_peak"),
        preemptions=most_of(top, "preemptions"),
    )


def _all_of(pair: Pair, rows: Mapping[str, Row], side: Literal["on", "off"]) -> list[Row]:
    ids = [one for point in pair.measured for one in (point.row_ids_on if side == "on" else point.row_ids_off)]
    return [rows[one] for one in ids if one in rows]


def _stated(rows: Iterable[Row], column: str) -> tuple[str, ...]:
    return tuple(sorted({value for row in rows if (value := getattr(row, column))}))


def _noted(figures: Iterable[Figure]) -> tuple[str, ...]:
    return tuple(sorted({found[1] for one in figures if (found := NOTED_BACKEND.search(one.note))}))


def _trend(ratios: Sequence[float]) -> Trend | None:
    if len(ratios) < 2:
        return None
    if all(low < high for low, high in pairwise(ratios)):
        return "grows"
    return "shrinks" if all(low > high for low, high in pairwise(ratios)) else "mixed"


def refused(study: Study) -> list[FailedStart]:
    """Return the failed starts with a dtype other than auto, those that the dtype itself caused first."""
    found = [one for one in failed_starts(study) if one.dtype not in ("", KV_CACHE.base)]
    return sorted(found, key=lambda one: one.category != OF_DTYPE)
