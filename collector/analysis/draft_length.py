"""Which k of one method did best, where several were measured alike."""

from __future__ import annotations

from dataclasses import dataclass

from collector.analysis.quantity import Quantity
from collector.analysis.recommend import Advice, Judged


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftLength:
    """Which k of one method did best at the highest concurrency that all of them have. `rest` are the other k."""

    concurrency: int
    best: Judged
    rest: tuple[Judged, ...]
    everywhere: bool  # whether it did so at every concurrency that they share

    def ratio(self, judged: Judged) -> Quantity | None:
        point = judged.pair.at(self.concurrency)
        return point.value if point else None


def draft_lengths(found: Advice) -> tuple[DraftLength, ...]:
    """Return the comparisons between values of k that differ in nothing else but their series."""
    alike: dict[tuple[object, ...], list[Judged]] = {}
    for one in found.speculation:
        way = tuple(one.pair.get(name) for name in ("speculation", "kv_cache_dtype", "nvlink", "prompt_set"))
        alike.setdefault(way, []).append(one)
    return tuple(length for own in alike.values() if (length := _draft_length(own)))


def _draft_length(own: list[Judged]) -> DraftLength | None:
    shared = set.intersection(*({point.concurrency for point in one.pair.measured} for one in own))
    if len({one.pair.num_speculative_tokens for one in own}) < len(own) or len(own) < 2 or not shared:
        return None
    best = {at: max(own, key=lambda one: _ratio_at(one, at)) for at in sorted(shared)}
    winner = best[max(shared)]
    return DraftLength(
        concurrency=max(shared),
        best=winner,
        rest=tuple(one for one in own if one is not winner),
        everywhere=all(one is winner for one in best.values()),
    )


def _ratio_at(judged: Judged, concurrency: int) -> float:
    point = judged.pair.at(concurrency)
    return (point.ratio if point else None) or 0.0
