"""What a drafter gets accepted against what speculation gains under load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from collector.analysis.compared import Pair, RatioPoint
from collector.analysis.drafters import Drafter, in_order, is_general
from collector.analysis.noise import Noise, noise_of
from collector.analysis.pairing import OFF, SPECULATION
from collector.analysis.published import GENERAL
from collector.analysis.study import Study

#: Two drafters whose accepted tokens per forward are within this many per cent of the larger count as alike:
#: the general prompts of one drafter differ among each other by a multiple of it.
ALIKE_WITHIN_PERCENT = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Opposite:
    """Two drafters that accept alike, of which one gains and one loses at the highest concurrency of both."""

    gaining: Drafter
    gain: RatioPoint
    losing: Drafter
    loss: RatioPoint
    prompts: str  # on which both ratios were measured


def opposites(study: Study, found: Sequence[Drafter]) -> list[Opposite]:
    """Return the drafters for which accepted per forward does not tell what speculation gains."""
    pairs, noise = study.pairs(SPECULATION), noise_of(study)
    each = (_opposite(one, other, pairs, noise) for one, other in combinations(found, 2) if _alike(one, other))
    return [one for one in each if one]


def _opposite(one: Drafter, other: Drafter, pairs: Sequence[Pair], noise: Noise) -> Opposite | None:
    """Look where both were loaded most; of several prompts at the first, so that none is picked by its outcome."""
    stages: list[tuple[int, RatioPoint | None, RatioPoint | None, str]] = []
    for prompts in in_order({pair["prompt_set"] or "" for pair in pairs}):
        own = [pair for pair in pairs if (pair["prompt_set"] or "") == prompts]
        mine, theirs = home(one, own), home(other, own)
        if mine and theirs and mine.get("window_method") == theirs.get("window_method"):
            shared = {point.concurrency for point in mine.measured} & {point.concurrency for point in theirs.measured}
            stages.extend((at, mine.at(at), theirs.at(at), prompts) for at in shared)
    if not stages:
        return None
    _, first, second, prompts = max(stages, key=lambda stage: stage[0])
    sides = [(one, first), (other, second)]
    gains = [(drafter, point) for drafter, point in sides if point and point.value and noise.side(point.value) > 0]
    losses = [(drafter, point) for drafter, point in sides if point and point.value and noise.side(point.value) < 0]
    if not gains or not losses:
        return None
    return Opposite(gaining=gains[0][0], gain=gains[0][1], losing=losses[0][0], loss=losses[0][1], prompts=prompts)


def _alike(one: Drafter, other: Drafter) -> bool:
    """Only pools of the same prompts of one provenance are compared."""
    mine, theirs = one.per_forward.get(GENERAL), other.per_forward.get(GENERAL)
    if not mine or not theirs or (one["provenance"], one.general) != (other["provenance"], other.general):
        return False
    larger = max(mine.value, theirs.value)
    return larger > 0 and abs(mine.value - theirs.value) / larger <= ALIKE_WITHIN_PERCENT / 100


def home(drafter: Drafter, pairs: Iterable[Pair]) -> Pair | None:
    """Return the pair that speaks for a drafter: of the configuration that answered the general prompts.

    Where none of those has a ratio, the one with NVLink and with most ratios.
    """
    configurations = {row.row_id: row.configuration_id for row in drafter.rows}
    general = {row.configuration_id for row in drafter.rows if is_general(row.prompt_set)}
    windows = {row.window_method for row in drafter.rows}
    like = [pair for pair in pairs if pair.measured and (not windows or pair.get("window_method") in windows)]
    own = [pair for pair in like if all(pair.get(name) == value for name, value in drafter.known)]

    def fits(pair: Pair) -> tuple[bool, bool, int]:
        ids = {configurations.get(one) for point in pair.measured for one in point.row_ids_on}
        return bool(ids & general), pair["nvlink"] != OFF, len(pair.measured)

    return max(own, key=fits, default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """What one drafter gains on each prompt, at the highest concurrency that all of them share."""

    drafter: Drafter
    concurrency: int
    points: tuple[tuple[str, RatioPoint], ...]  # prompt set and ratio, the largest first
    turns: bool  # whether the prompt decides between a gain and a loss


def spans(study: Study, found: Iterable[Drafter]) -> list[Span]:
    """Return the drafters whose gain was measured on several prompts: on the general ones where there are several."""
    pairs, noise = study.pairs(SPECULATION), noise_of(study)
    each = (_span(drafter, pairs, noise) for drafter in found)
    return [one for one in each if one]


def _span(drafter: Drafter, pairs: Sequence[Pair], noise: Noise) -> Span | None:
    known: dict[str, Pair] = {}
    for prompts in {pair["prompt_set"] or "" for pair in pairs}:
        pair = home(drafter, [one for one in pairs if (one["prompt_set"] or "") == prompts])
        if pair:
            known[prompts] = pair
    general = {prompts: pair for prompts, pair in known.items() if is_general(prompts)}
    chosen = general if len(general) > 1 else known
    stages = [{point.concurrency for point in pair.measured} for pair in chosen.values()]
    shared = set.intersection(*stages) if len(stages) > 1 else set()
    if not shared:
        return None
    at = max(shared)
    points = [(prompts, point) for prompts in in_order(chosen) if (point := chosen[prompts].at(at))]
    sides = {noise.side(point.value) for _, point in points if point.value}
    return Span(
        drafter=drafter,
        concurrency=at,
        points=tuple(sorted(points, key=lambda item: -(item[1].ratio or 0.0))),
        turns={1, -1} <= sides,
    )
