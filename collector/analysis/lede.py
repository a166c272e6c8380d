"""The verdict of a study in a few findings: what its first lines say, chosen by conditions, not by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from collector.analysis.acceptance import acceptance, accepts_nothing
from collector.analysis.brackets import Bracket, brackets
from collector.analysis.compared import Pair, RatioPoint
from collector.analysis.noise import Noise, noise_of
from collector.analysis.pairing import KV_CACHE, NVLINK, OFF, SPECULATION
from collector.analysis.panels import Panel, like_main, panels
from collector.analysis.quantity import Quantity, most_of
from collector.analysis.speculation import Verdict, verdict
from collector.analysis.study import Study
from collector.core.rows import Row

THROUGHPUT = "system_throughput_tok_s"

#: A ratio below it means that more than half of the throughput is lost, and is said so.
HALF = 0.5

#: reversal: some way turns from gain to loss. gain, loss, even: all ways agree. differ: none of these.
Headline = Literal["reversal", "gain", "loss", "even", "differ", "none"]

GAINS, LOSSES = ("gain", "no_loss"), ("loss", "no_gain")


@dataclass(frozen=True, kw_only=True, slots=True)
class Behaviour:
    """What one way of speculating does by concurrency. `nothing`: its acceptance, where none was accepted."""

    pair: Pair
    verdict: Verdict
    brackets: tuple[Bracket, ...]
    nothing: Quantity | None

    @property
    def first(self) -> RatioPoint:
        return self.pair.measured[0]

    @property
    def last(self) -> RatioPoint:
        return self.pair.measured[-1]

    @property
    def bracket(self) -> Bracket | None:
        """Return where the ratio crosses 1, if it does so once."""
        return self.brackets[0] if len(self.brackets) == 1 else None

    @property
    def depth(self) -> float:
        """How many times its best ratio is its worst."""
        return (self.verdict.best.ratio or 0.0) / (self.verdict.worst.ratio or 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """Gains of one factor at the highest concurrency that was compared, in per cent, over `pairs` pairs.

    `gains` and `losses` count those that are larger than noise.
    """

    concurrency: int
    pairs: tuple[Pair, ...]
    least: Quantity
    most: Quantity
    gains: int
    losses: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Lede:
    """What the first lines say. `behaviours` are those under the main panel's link, on whatever prompts."""

    headline: Headline
    panel: Panel | None
    behaviours: tuple[Behaviour, ...]
    reversal: Behaviour | None
    models: int
    each_its_own: bool  # every model does one thing, and no two the same
    kv_cache: Effect | None
    nvlink: Effect | None
    peak: Quantity | None  # the highest throughput of all rows
    peak_row: Row | None

    @property
    def outcomes(self) -> dict[str, tuple[Behaviour, ...]]:
        found: dict[str, tuple[Behaviour, ...]] = defaultdict(tuple)
        for one in self.behaviours:
            found[one.verdict.outcome] += (one,)
        return dict(found)

    @property
    def highest(self) -> Behaviour | None:
        return max(self.behaviours, key=lambda one: one.verdict.best.ratio or 0.0, default=None)

    @property
    def lowest(self) -> Behaviour | None:
        return min(self.behaviours, key=lambda one: one.verdict.worst.ratio or 0.0, default=None)


def lede(study: Study) -> Lede:
    """Return the findings that lead the article of a study."""
    noise = noise_of(study)
    found = panels(study.pairs(SPECULATION))
    main = found[0] if found and found[0].measured else None
    behaviours = _behaviours(study, like_main(found), noise)
    turning = [one for one in behaviours if one.verdict.outcome == "falls"]
    peak = most_of(study.basis, THROUGHPUT)
    return Lede(
        headline=_headline(behaviours),
        panel=main,
        behaviours=behaviours,
        reversal=max(turning, key=lambda one: one.depth, default=None),
        models=len({one.pair["model"] for one in behaviours}),
        each_its_own=_each_its_own(behaviours),
        kv_cache=_kv_cache(study, main, noise),
        nvlink=_effect(study.pairs(NVLINK), noise),
        peak=peak,
        peak_row=next((row for row in study.rows if peak and row.row_id == peak.ids[0]), None),
    )


def _behaviours(study: Study, pairs: Iterable[Pair], noise: Noise) -> tuple[Behaviour, ...]:
    found = []
    for pair in pairs:
        judged = verdict(pair, noise)
        if judged:
            accepted = acceptance(study, pair)
            nothing = accepted if accepts_nothing(accepted) else None
            found.append(Behaviour(pair=pair, verdict=judged, brackets=brackets(pair, noise), nothing=nothing))
    return tuple(found)


def _headline(behaviours: Sequence[Behaviour]) -> Headline:
    outcomes = {one.verdict.outcome for one in behaviours}
    if not outcomes:
        return "none"
    if "falls" in outcomes:
        return "reversal"
    if outcomes <= set(GAINS):
        return "gain"
    if outcomes <= set(LOSSES):
        return "loss"
    return "even" if outcomes == {"even"} else "differ"


def _each_its_own(behaviours: Sequence[Behaviour]) -> bool:
    by_model: dict[str, set[str]] = defaultdict(set)
    for one in behaviours:
        by_model[one.pair["model"]].add(one.verdict.outcome)
    kinds = {outcome for outcomes in by_model.values() for outcome in outcomes}
    return len(by_model) > 1 and all(len(one) == 1 for one in by_model.values()) and len(kinds) == len(by_model)


def _kv_cache(study: Study, main: Panel | None, noise: Noise) -> Effect | None:
    """Return what the KV dtype changes without speculation and with the main panel's link, where that was compared."""
    found = study.pairs(KV_CACHE)
    plain = [pair for pair in found if pair["speculation"] == OFF and pair.measured]
    near = [pair for pair in plain if main and pair["nvlink"] == main.pairs[0]["nvlink"]]
    return _effect(near or plain or found, noise)


def _effect(found: Sequence[Pair], noise: Noise) -> Effect | None:
    at = max((point.concurrency for pair in found for point in pair.measured), default=None)
    if at is None:
        return None
    compared = [(pair, point.value) for pair in found for point in pair.measured if point.concurrency == at]
    gains = [value.as_gain for _, value in compared if value]
    sides = [noise.side(value) for _, value in compared if value]
    return Effect(
        concurrency=at,
        pairs=tuple(pair for pair, _ in compared),
        least=min(gains, key=lambda one: one.value),
        most=max(gains, key=lambda one: one.value),
        gains=sum(side > 0 for side in sides),
        losses=sum(side < 0 for side in sides),
    )
