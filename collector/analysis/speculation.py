"""Does speculative decoding pay? What the ratios of one pair say, as a verdict.

A ratio is a gain, a loss or neither by the noise of its study (noise.py). Without one, as while a sweep still narrows
a break-even, its mean alone decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from collector.analysis.compared import Pair, RatioPoint, compared
from collector.analysis.noise import Noise
from collector.analysis.pairing import OFF, SPECULATION
from collector.core.rows import Failure, Row

__all__ = ["OFF", "Pair", "RatioPoint", "Verdict", "pairs", "verdict"]

#: A ratio this near to 1 prints as 1.00 and is neither a gain nor a loss, whatever the noise.
EVEN_WITHIN = 0.005

#: gain, loss and even hold at every measured concurrency; no_loss and no_gain have even points among them.
Outcome = Literal["gain", "no_loss", "even", "no_gain", "loss", "falls", "rises", "mixed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the ratios of one pair say. `falls` and `rises`: the break-even lies within `bracket`."""

    outcome: Outcome
    best: RatioPoint  # the highest ratio and the lowest, whatever their sides
    worst: RatioPoint
    gain: RatioPoint | None  # the highest of those that gain
    loss: RatioPoint | None  # the lowest of those that lose
    bracket: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """The ratio at one concurrency, with its range over repeats; None where there was one measurement."""

    concurrency: int
    ratio: float
    judged: int | None = None  # its side by the noise; None where none was given
    within: bool = True  # noise, where it has no side; else it is only too small to count
    low: float | None = None
    high: float | None = None
    repeats: int = 1
    row_ids: tuple[str, ...] = ()

    @property
    def side(self) -> int:
        """Return 1 for a gain, -1 for a loss, 0 for neither."""
        return side(self.ratio) if self.judged is None else self.judged


def pairs(rows: Iterable[Row], failures: Iterable[Failure] = ()) -> list[Pair]:
    """Return every way of speculating of these rows against none, ordered by what it is."""
    return compared(SPECULATION, rows, failures)


def verdict(pair: Pair, noise: Noise | None = None) -> Verdict | None:
    """Say what the measured ratios of a pair show; None when there is none."""
    points = points_of(pair, noise)
    if not points:
        return None
    measured = {one.concurrency: one for one in _longest(pair)}
    ranked = [(measured[one.concurrency], one.side) for one in sorted(points, key=lambda one: -one.ratio)]
    outcome, bracket = _outcome([(one.concurrency, one.side) for one in points])
    return Verdict(
        outcome=outcome,
        best=ranked[0][0],
        worst=ranked[-1][0],
        gain=next((point for point, side in ranked if side > 0), None),
        loss=next((point for point, side in reversed(ranked) if side < 0), None),
        bracket=bracket,
    )


def points_of(pair: Pair, noise: Noise | None = None) -> list[Point]:
    """Return the measured ratios by concurrency; of several stages at one, the one with most requests."""
    return [
        Point(
            concurrency=point.concurrency,
            ratio=point.value.value,
            judged=judged.side if judged else None,
            within=not judged or judged.standing == "within",
            low=point.low,
            high=point.high,
            repeats=min(point.n_on, point.n_off),
            row_ids=(*point.row_ids_on, *point.row_ids_off),
        )
        for point in _longest(pair)
        if point.value
        for judged in (noise.judge(point.value) if noise else None,)
    ]


def _longest(pair: Pair) -> list[RatioPoint]:
    longest = {point.concurrency: point for point in sorted(pair.measured, key=lambda one: one.requests or 0)}
    return [point for _, point in sorted(longest.items())]


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
