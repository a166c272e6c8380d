"""Where printed ratios leave a break-even open, and which pairs of a campaign place it more closely."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from collector.analysis.break_even import BreakEven, Crossing, break_even, crossings
from collector.analysis.figures import Figure, Labels
from collector.analysis.noise import Noise
from collector.analysis.quantity import printed
from collector.analysis.speculation import Pair, Point
from collector.analysis.study import PUBLISHED

#: What a printed way of speculating and a pair of rows must share; what a figure leaves open fits every pair.
SHARED = ("model", "kv_cache_dtype", "speculation", "num_speculative_tokens", "nvlink", "prompt_set", "series")
#: Rows of this provenance carry the error of the model that made them.
EMULATED = "emulated"


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """A crossing that lies within the printed bracket, and in a narrower one."""

    found: BreakEven
    crossing: Crossing

    @property
    def provenance(self) -> str:
        return str(self.found.pair["provenance"])

    @property
    def campaign(self) -> str:
        return str(self.found.pair["campaign"])


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOpen:
    """A way of speculating whose printed ratios cross 1 somewhere within a bracket."""

    labels: Labels  # of no concurrency
    crossing: Crossing
    placed: tuple[Placed, ...]  # the narrowest bracket first


def left_open(
    figures: Iterable[Figure],
    pairs: Sequence[Pair],
    emulation_error: float | None,
    noises: Mapping[str, Noise] = MappingProxyType({}),
) -> list[LeftOpen]:
    """Return every crossing of printed ratios, with the pairs that place it more closely.

    `emulation_error`: relative error of emulated ratios, by which their intervals are widened. `noises`: of campaigns
    by their name, and of what was PUBLISHED; what has none is judged by its means.
    """
    printed_noise = noises.get(PUBLISHED)
    by_way: dict[Labels, dict[int, Point]] = {}
    for one in figures:
        if one.metric == "speculation_ratio" and one.labels.concurrency is not None:
            side = printed_noise.side(printed(one)) if printed_noise else None
            point = Point(concurrency=one.labels.concurrency, ratio=one.value, judged=side)
            by_way.setdefault(replace(one.labels, concurrency=None), {})[point.concurrency] = point
    return [
        LeftOpen(labels=way, crossing=crossing, placed=_placed(way, crossing, pairs, emulation_error, noises))
        for way, points in by_way.items()
        for crossing in crossings(points.values())
    ]


def _placed(
    way: Labels, open_one: Crossing, pairs: Sequence[Pair], error: float | None, noises: Mapping[str, Noise]
) -> tuple[Placed, ...]:
    alike = [pair for pair in pairs if all(getattr(way, name) in (None, pair[name]) for name in SHARED)]
    judged = [
        break_even(pair, error if pair["provenance"] == EMULATED else None, noises.get(pair["campaign"]))
        for pair in alike
    ]
    found = [Placed(found=one, crossing=each) for one in judged if one for each in one.crossings]
    narrower = [one for one in found if one.crossing.falls == open_one.falls and _within(one.crossing, open_one)]
    return tuple(sorted(narrower, key=lambda one: (one.crossing.bracket[1] / one.crossing.bracket[0], one.campaign)))


def _within(one: Crossing, printed: Crossing) -> bool:
    (low, high), (printed_low, printed_high) = one.bracket, printed.bracket
    return printed_low <= low and high <= printed_high and one.bracket != printed.bracket
