"""How sure a verdict is, and what would overturn it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from collector.analysis.acceptance import accepts_nothing
from collector.analysis.compared import RatioPoint
from collector.analysis.needed import At, needed
from collector.analysis.noise import Noise
from collector.analysis.pairing import KV_CACHE, SPECULATION
from collector.analysis.quantity import Quantity
from collector.analysis.recommend import Judged, verdict_of
from collector.analysis.study import Study

#: repeated: both sides of every ratio. partly: of some. once: of none, but the study's repeat error is known.
#: unknown: nothing in the study was repeated. printed: published, without a spread.
Basis = Literal["repeated", "partly", "once", "unknown", "printed"]

#: emulated: the model of the emulation may be wrong. weakest: of the effects that decide it alone, the one nearest to
#: noise. strongest: of effects that are all within noise, the one nearest to counting. between: where it turns. tied:
#: the same, where all in between was measured and is within noise. above, below: concurrencies beyond those measured.
#: yields_less, yields_more: tokens per step below or above a bound. prompts: other prompts. unproved: what was
#: withheld, measured. quality: of the output.
Kind = Literal[
    "emulated",
    "weakest",
    "strongest",
    "between",
    "tied",
    "above",
    "below",
    "yields_less",
    "yields_more",
    "prompts",
    "unproved",
    "quality",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Confidence:
    """What a verdict rests on. `weakest`: the effect nearest to noise; `multiple`: it ÷ what counts as noise."""

    basis: Basis
    repeats: int  # of the thinnest side
    emulated: bool
    weakest: RatioPoint | None
    multiple: float | None  # None where the noise is not known


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """One thing that would overturn a verdict. `at`: the concurrencies that it is about."""

    kind: Kind
    at: tuple[int, ...] = ()
    bound: Quantity | None = None  # tokens per step
    now: Quantity | None = None
    name: str = ""


def confidence(judged: Judged, noise: Noise) -> Confidence:
    """Return what a verdict rests on."""
    points = _effects(judged)
    ratios = [point.value for point in points if point.value]
    repeated = [one for one in ratios if noise.interval(one) is not None]
    basis: Basis = "once" if all(noise.error_of(one) for one in ratios) else "unknown"
    if judged.pair["provenance"] == "published":
        basis = "printed"
    elif repeated:
        basis = "repeated" if len(repeated) == len(ratios) else "partly"
    weakest = min(points, key=lambda point: _margin(point, noise), default=None)
    return Confidence(
        basis=basis,
        repeats=min((one.n for one in ratios), default=0),
        emulated=judged.pair["provenance"] == "emulated",
        weakest=weakest,
        multiple=_margin(weakest, noise) if weakest and basis not in ("unknown", "printed") else None,
    )


def doubts(study: Study, judged: Judged, noise: Noise) -> tuple[Doubt, ...]:
    """Return what would overturn a verdict, the likeliest first."""
    found = list(_of_every(judged, noise))
    if judged.pair.factor is SPECULATION:
        found += _of_speculation(study, judged)
    if judged.pair.factor is KV_CACHE:
        found.append(Doubt(kind="quality", name=str(judged.pair["kv_cache_dtype"])))
    return tuple(found)


def _of_every(judged: Judged, noise: Noise) -> Iterator[Doubt]:
    known = confidence(judged, noise)
    if known.emulated:
        yield Doubt(kind="emulated")
    if judged.verdict == "even":
        nearest = max(_effects(judged), key=lambda point: _margin(point, noise))
        yield Doubt(kind="strongest", at=(nearest.concurrency,), bound=nearest.value)
    elif decisive := [point for point in _effects(judged) if _decides(judged, point.concurrency)]:
        nearest = min(decisive, key=lambda point: _margin(point, noise))
        yield Doubt(kind="weakest", at=(nearest.concurrency,), bound=nearest.value)
    if judged.edge and judged.edge[1] - judged.edge[0] > 1:
        low, high = judged.edge
        decided_nothing = tuple(at for at in judged.evidence.within_noise if low < at < high)
        every = len(decided_nothing) == high - low - 1
        yield Doubt(kind="tied" if every else "between", at=(low, high, *decided_nothing) if every else (low, high))
    measured = [point.concurrency for point in judged.pair.measured]
    if judged.verdict in ("use", "from"):
        yield Doubt(kind="above", at=(max(measured),))
    if judged.verdict in ("avoid", "withheld") and min(measured) > 1:
        yield Doubt(kind="below", at=(min(measured),))


def _of_speculation(study: Study, judged: Judged) -> Iterator[Doubt]:
    """Acceptance decides what a step yields, and prompts decide acceptance."""
    prompts = str(judged.pair["prompt_set"] or "")
    if judged.verdict == "withheld":
        yield Doubt(kind="unproved", name=prompts)
        return
    wanted = needed(judged.pair, study.rows)
    stages = {one.concurrency: one for one in wanted.stages} if wanted else {}
    if judged.evidence.gains and (thin := _nearest(stages, judged.evidence.gains)):
        yield Doubt(kind="yields_less", at=(thin.concurrency,), bound=thin.needed, now=thin.delivered)
    losses = [at for at in judged.evidence.losses if at in stages and stages[at].possible]
    if losses and (near := _nearest(stages, losses)):
        yield Doubt(kind="yields_more", at=(near.concurrency,), bound=near.needed, now=near.delivered)
    if not accepts_nothing(judged.evidence.acceptance):
        yield Doubt(kind="prompts", name=prompts)


def _nearest(stages: dict[int, At], among: tuple[int, ...] | list[int]) -> At | None:
    """Return the stage whose yield is nearest to what it would need."""
    known = [stages[at] for at in among if at in stages]
    return min(known, key=lambda one: _distance(one.delivered.value / one.needed.value), default=None)


def _effects(judged: Judged) -> list[RatioPoint]:
    """Return the points that count for a gain or a loss; where none does, all of them."""
    decided = (*judged.evidence.gains, *judged.evidence.losses)
    points = [point for point in judged.pair.measured if point.value and judged.counts(point.concurrency)]
    return [point for point in points if point.concurrency in decided] or points


def _margin(point: RatioPoint, noise: Noise) -> float:
    return noise.margin(point.value) if point.value else 0.0


def _decides(judged: Judged, concurrency: int) -> bool:
    """Whether the verdict, or where it turns, would change if this one effect were within noise."""
    found = judged.evidence
    less = replace(
        found,
        gains=tuple(at for at in found.gains if at != concurrency),
        losses=tuple(at for at in found.losses if at != concurrency),
        within_noise=(*found.within_noise, concurrency),
    )
    other = replace(judged, verdict=verdict_of(less), evidence=less)
    return (other.verdict, other.edge) != (judged.verdict, judged.edge)


def _distance(ratio: float) -> float:
    return max(ratio, 1 / ratio) if ratio else float("inf")
