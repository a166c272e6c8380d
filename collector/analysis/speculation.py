"""Does speculative decoding pay? What the ratios of one pair say, as a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from collector.analysis.compared import Pair, RatioPoint, compared
from collector.analysis.pairing import OFF, SPECULATION
from collector.core.rows import Failure, Row

__all__ = ["OFF", "Pair", "RatioPoint", "Verdict", "pairs", "verdict"]

#: A ratio this near to 1 prints as 1.00 and counts neither as a gain nor as a loss.
EVEN_WITHIN = 0.005

#: gain, loss and even hold at every measured concurrency; no_loss and no_gain have even points among them.
Outcome = Literal["gain", "no_loss", "even", "no_gain", "loss", "falls", "rises", "mixed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the ratios of one pair say. `falls` and `rises`: the break-even lies within `bracket`."""

    outcome: Outcome
    best: RatioPoint
    worst: RatioPoint
    bracket: tuple[int, int] | None


def pairs(rows: Iterable[Row], failures: Iterable[Failure] = ()) -> list[Pair]:
    """Return every way of speculating of these rows against none, ordered by what it is."""
    return compared(SPECULATION, rows, failures)


def verdict(pair: Pair) -> Verdict | None:
    """Say what the measured ratios of a pair show; None when there is none."""
    measured = [(point.ratio, point) for point in pair.points if point.ratio is not None]
    if not measured:
        return None
    outcome, bracket = _outcome([(point.concurrency, side(ratio)) for ratio, point in measured])
    return Verdict(
        outcome=outcome,
        best=max(measured, key=lambda one: (one[0], -one[1].concurrency))[1],
        worst=min(measured, key=lambda one: (one[0], one[1].concurrency))[1],
        bracket=bracket,
    )


def _outcome(sides: Sequence[tuple[int, int]]) -> tuple[Outcome, tuple[int, int] | None]:
    gains = [concurrency for concurrency, side in sides if side > 0]
    losses = [concurrency for concurrency, side in sides if side < 0]
    one_sided: dict[frozenset[int], Outcome] = {
        frozenset({1}): "gain",
        frozenset({0, 1}): "no_loss",
        frozenset({0}): "even",
        frozenset({-1, 0}): "no_gain",
        frozenset({-1}): "loss",
    }
    seen = frozenset(side for _, side in sides)
    if seen in one_sided:
        return one_sided[seen], None
    if max(gains) < min(losses):
        return "falls", (max(gains), min(losses))
    if max(losses) < min(gains):
        return "rises", (max(losses), min(gains))
    return "mixed", None


def side(ratio: float) -> int:
    return 0 if abs(ratio - 1) < EVEN_WITHIN else (1 if ratio > 1 else -1)
