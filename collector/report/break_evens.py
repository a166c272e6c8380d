"""What the break-even section of the published page is rendered from: findings to texts, no arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collector.analysis.break_even import Crossing, Interval
from collector.analysis.figures import Labels
from collector.analysis.left_open import LeftOpen, Placed
from collector.core.units import SPECULATION_RATIO, fixed

#: Digits of an interpolated concurrency.
DIGITS = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """An interval as text; None where it is open."""

    low: str | None
    high: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedLine:
    campaign: str
    provenance: str
    bracket: tuple[int, int]
    ratios: tuple[str, str]
    estimate: str
    by_repeats: Range | None
    by_all: Range | None
    repeats: int
    row_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakEvenLine:
    """What was published, and what places it more closely."""

    labels: Labels
    bracket: tuple[int, int]
    ratios: tuple[str, str]
    placed: tuple[PlacedLine, ...]


def break_even_lines(found: Sequence[LeftOpen]) -> list[BreakEvenLine]:
    return [
        BreakEvenLine(
            labels=one.labels,
            bracket=one.crossing.bracket,
            ratios=_ratios(one.crossing),
            placed=tuple(map(_placed, one.placed)),
        )
        for one in found
    ]


def _placed(one: Placed) -> PlacedLine:
    crossing = one.crossing
    return PlacedLine(
        campaign=one.campaign,
        provenance=one.provenance,
        bracket=crossing.bracket,
        ratios=_ratios(crossing),
        estimate=fixed(crossing.estimate, DIGITS),
        by_repeats=_range(crossing.by_repeats),
        by_all=_range(crossing.by_all),
        repeats=crossing.repeats,
        row_ids=crossing.row_ids,
    )


def _ratios(crossing: Crossing) -> tuple[str, str]:
    before, after = map(SPECULATION_RATIO.text, crossing.ratios)
    return before, after


def _range(one: Interval | None) -> Range | None:
    if one is None:
        return None
    low, high = (None if end is None else fixed(end, DIGITS) for end in (one.low, one.high))
    return Range(low=low, high=high)
