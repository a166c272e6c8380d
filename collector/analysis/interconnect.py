"""What NVLink changes: throughput at one concurrency, against the traffic over the link, and by concurrency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from collector.analysis.compared import Pair, RatioPoint
from collector.analysis.failed_starts import FailedStart, failed_starts
from collector.analysis.mixed import Drafting, drafting
from collector.analysis.noise import Noise, noise_of
from collector.analysis.pairing import NVLINK, OFF, SPECULATION
from collector.analysis.quantity import Quantity, mean_of, printed, ratio_of
from collector.analysis.study import Study
from collector.core.rows import Row

TRAFFIC = "nvlink_bytes"
#: Traffic explains the order of gains when at least this many per cent of the couples are in the same order.
EXPLAINS_FROM_PERCENT = 90
#: Fewer links than this have no order to explain.
FEWEST_IN_ORDER = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One setting with and without NVLink at the concurrency that the links are compared at."""

    pair: Pair
    point: RatioPoint
    gain: Quantity  # per cent
    on: Quantity | None  # traffic: bytes, of published figures GiB
    off: Quantity | None
    drafting: tuple[Drafting, ...]  # by concurrency; none without speculation
    reduces: tuple[str | None, str | None] = (None, None)  # all-reduce backends with and without it

    @property
    def here(self) -> Drafting | None:
        """Return the acceptance at this concurrency; where it is unknown, the one that differs most."""
        at = [one for one in self.drafting if one.concurrency == self.point.concurrency]
        return max(at or self.drafting, key=lambda one: abs(one.on.value - one.off.value), default=None)

    @property
    def mixed(self) -> bool:
        return self.here is not None and self.here.mixed

    @property
    def stirred(self) -> Drafting | None:
        """Return the most differing acceptance of another concurrency whose gain is mixed."""
        others = [one for one in self.drafting if one.mixed and one is not self.here]
        return max(others, key=lambda one: abs(one.on.value - one.off.value), default=None)


def stage_of(pairs: Iterable[Pair]) -> int | None:
    """Return the highest concurrency at which at least half of what was compared anywhere has a ratio."""
    counted = Counter(point.concurrency for pair in pairs for point in pair.measured)
    most = max(counted.values(), default=0)
    return max((at for at, count in counted.items() if 2 * count >= most), default=None)


def links(study: Study, at: int) -> list[Link]:
    """Return every pair with a ratio at this concurrency, the largest gain first."""
    noise = noise_of(study)
    found = [
        _link(study, pair, point, point.value.as_gain, noise)
        for pair in study.pairs(NVLINK)
        if (point := pair.at(at)) and point.value
    ]
    return sorted(found, key=lambda one: -one.gain.value)


def _link(study: Study, pair: Pair, point: RatioPoint, gain: Quantity, noise: Noise) -> Link:
    both = drafting(study, pair, noise)
    if study.is_published:
        on, off = (_printed_traffic(study, pair, side) for side in ("on", "off"))
        return Link(pair=pair, point=point, gain=gain, on=on, off=off, drafting=both)
    with_it, without = ([noise.rows[one] for one in ids] for ids in (point.row_ids_on, point.row_ids_off))
    return Link(
        pair=pair,
        point=point,
        gain=gain,
        on=mean_of(with_it, TRAFFIC),
        off=mean_of(without, TRAFFIC),
        drafting=both,
        reduces=(with_it[0].all_reduce, without[0].all_reduce),
    )


def _printed_traffic(study: Study, pair: Pair, side: str) -> Quantity | None:
    names = ("model", "series", "kv_cache_dtype", "speculation", "num_speculative_tokens")
    found = study.figures_of("nvlink_traffic", **{name: pair[name] for name in names}, nvlink=side)
    return printed(found[0]) if found else None


# --- the order of gains ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """Links compared two by two, ties left out: how many couples have more gain where there is more traffic."""

    same: int
    couples: int

    @property
    def explained(self) -> bool:
        return 100 * self.same >= EXPLAINS_FROM_PERCENT * self.couples


def order(found: Sequence[Link]) -> Order | None:
    """Compare gains with traffic; None where too few links have both.

    The share of couples in the same order is Kendall's rank correlation, (1 + tau) / 2 without ties.
    """
    known = [(one.gain.value, one.on.value) for one in found if one.on]
    signs = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in combinations(known, 2)]
    told = [sign for sign in signs if sign]
    if len(known) < FEWEST_IN_ORDER or not told:
        return None
    return Order(same=sum(sign > 0 for sign in told), couples=len(told))


# --- what speculation adds to the traffic ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Multiple:
    """Traffic with speculation ÷ without it, NVLink on, and what NVLink gains on both sides, as ratios."""

    pair: Pair
    traffic: Quantity
    gain: Quantity | None
    gain_without: Quantity | None

    @property
    def ids(self) -> tuple[str, ...]:
        return (*self.traffic.ids, *self.traffic.base)


def multiples(study: Study, found: Sequence[Link], at: int) -> list[Multiple]:
    """Return by how much speculation multiplies the traffic of a setting, the largest first."""
    rows = {row.row_id: row for row in study.rows}
    told = []
    for pair in study.pairs(SPECULATION):
        point = pair.at(at)
        if pair["nvlink"] != "on" or point is None:
            continue
        traffic = _multiple(study, pair, point, rows)
        if traffic:
            gain = _gain_of(found, pair, pair["speculation"])
            told.append(Multiple(pair=pair, traffic=traffic, gain=gain, gain_without=_gain_of(found, pair, OFF)))
    return sorted(told, key=lambda one: -one.traffic.value)


def _multiple(study: Study, pair: Pair, point: RatioPoint, rows: dict[str, Row]) -> Quantity | None:
    if study.is_published:
        names = ("model", "series", "kv_cache_dtype", "speculation", "num_speculative_tokens")
        figures = study.figures_of("nvlink_traffic_on_vs_off_speculation", **{name: pair[name] for name in names})
        return printed(figures[0]) if figures else None
    on, off = ([rows[one] for one in ids] for ids in (point.row_ids_on, point.row_ids_off))
    return ratio_of(on, off, TRAFFIC)


def _gain_of(found: Iterable[Link], pair: Pair, speculation: str) -> Quantity | None:
    """Return NVLink's gain in the same setting, with this speculation or without any."""
    same = ("provenance", "series", "model", "kv_cache_dtype", "prompt_set")
    way = ("num_speculative_tokens", "drafter") if speculation != OFF else ()
    for link in found:
        fits = all(link.pair.get(name) == pair.get(name) for name in (*same, *way))
        if fits and link.pair["speculation"] == speculation:
            return link.point.value
    return None


# --- what cannot be compared -----------------------------------------------------------------------------------


def unpaired(study: Study) -> list[FailedStart]:
    """Return the failed starts that left a setting without a partner. One with the link unnamed varied no link."""
    return [one for one in failed_starts(study) if one.links]


def without_ratio(study: Study, at: int) -> list[tuple[Pair, RatioPoint]]:
    """Return what was measured on one side at this concurrency and cannot be compared, failed starts aside."""
    kinds = ("failed", "not_published")
    found = [(pair, point) for pair in study.pairs(NVLINK) for point in pair.points if point.concurrency == at]
    return [(pair, point) for pair, point in found if point.reason and point.reason.kind not in kinds]
