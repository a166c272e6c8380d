"""What a study holds and what it leaves open: counts, the smallest effect it shows, what was not measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collector.analysis.brackets import Bracket, brackets
from collector.analysis.compared import Pair
from collector.analysis.noise import Noise, noise_of
from collector.analysis.pairing import KV_CACHE, NVLINK, OFF, SPECULATION, STAGE, Factor, Key, key
from collector.analysis.panels import like_main, panels
from collector.analysis.quantity import Quantity
from collector.analysis.study import Study
from collector.core.rows import Row, failed_checks


@dataclass(frozen=True, kw_only=True, slots=True)
class Smallest:
    """The smallest difference that counts as an effect, as a ratio and as the gain that it is."""

    factor: Factor
    pair: Pair
    concurrency: int
    ratio: Quantity
    gain: Quantity


@dataclass(frozen=True, kw_only=True, slots=True)
class Unmeasured:
    """Concurrencies inside a bracket that would tighten it: `between` measured at all, `again` by more repeats."""

    pair: Pair
    bracket: Bracket
    between: tuple[int, ...]
    again: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Open:
    """What was not measured. Counts are of cells, configurations or rows, as named."""

    brackets: tuple[Unmeasured, ...]
    cells_once: int  # cells measured once
    sets_without_load: tuple[str, ...]  # prompt sets never driven at the highest concurrency
    sets_without_base: tuple[str, ...]  # prompt sets never measured without speculation
    without_nvlink_partner: int  # configurations with one side of the link only, failed starts aside
    link_varied: bool
    rows_without_energy: int
    rows_failed: int  # rows with a failed check


def smallest_effect(study: Study, noise: Noise) -> Smallest | None:
    """Return the smallest effect above noise at the highest concurrency compared; None where there is none."""
    found = [one for factor in (SPECULATION, KV_CACHE, NVLINK) for one in _effects(study, factor, noise)]
    return min(found, key=lambda one: abs(one.gain.value), default=None)


def _effects(study: Study, factor: Factor, noise: Noise) -> list[Smallest]:
    pairs = [pair for pair in study.pairs(factor) if pair.measured]
    at = max((point.concurrency for pair in pairs for point in pair.measured), default=0)
    found = []
    for pair in pairs:
        point = pair.at(at)
        if point and point.value and noise.side(point.value):
            value = point.value
            found.append(Smallest(factor=factor, pair=pair, concurrency=at, ratio=value, gain=value.as_gain))
    return found


def left_open(study: Study) -> Open:
    """Return what the rows of a study do not tell."""
    cells = cells_of(study.rows)
    return Open(
        brackets=_brackets(like_main(panels(study.pairs(SPECULATION))), noise_of(study)),
        cells_once=sum(count == 1 for count in cells.values()),
        sets_without_load=_without_load(study),
        sets_without_base=_without_base(study),
        without_nvlink_partner=len(_without_partner(study)),
        link_varied=len({row.nvlink for row in study.rows} - {None}) > 1,
        rows_without_energy=sum(row.energy_j is None for row in study.rows),
        rows_failed=sum(bool(failed_checks(row)) for row in study.rows),
    )


def cells_of(rows: Iterable[Row]) -> Counter[Key]:
    """Return how often each cell of these rows was measured."""
    return Counter(key(row, ("configuration_id", "prompt_set", "window_method", *STAGE)) for row in rows)


def _brackets(pairs: Iterable[Pair], noise: Noise) -> tuple[Unmeasured, ...]:
    found = [
        Unmeasured(
            pair=pair,
            bracket=one,
            between=tuple(at for at in doublings(one.low, one.high) if at not in one.undecided),
            again=one.undecided,
        )
        for pair in pairs
        for one in brackets(pair, noise)
    ]
    return tuple(one for one in found if one.between or one.again)


def doublings(low: int, high: int) -> tuple[int, ...]:
    """Return low × 2, × 4, ... below high: what would halve a bracket on its logarithmic axis, step by step."""
    found = []
    while (low := low * 2) < high:
        found.append(low)
    return tuple(found)


def _without_load(study: Study) -> tuple[str, ...]:
    reached: dict[str, int] = {}
    for row in study.rows:
        reached[row.prompt_set] = max(row.concurrency, reached.get(row.prompt_set, 0))
    return tuple(sorted(name for name, at in reached.items() if at < max(reached.values())))


def _without_base(study: Study) -> tuple[str, ...]:
    if study.is_published:
        known = {one.labels.prompt_set for one in study.figures if one.metric == "acceptance_rate"}
        ratios = {one.labels.prompt_set for one in study.figures if one.metric == "speculation_ratio"}
        return tuple(sorted(name for name in known - ratios if name))
    speculating = {row.prompt_set for row in study.rows if row.speculation != OFF}
    return tuple(sorted(speculating - {row.prompt_set for row in study.rows if row.speculation == OFF}))


def _without_partner(study: Study) -> Sequence[Pair]:
    """Return the pairs of the link that lack a side for want of a measurement, not because it failed."""
    return [
        pair
        for pair in study.pairs(NVLINK)
        if pair.points and not pair.measured and all(p.reason and p.reason.kind == "missing" for p in pair.points)
    ]
