"""What another campaign of the same host has measured already: a proposal that it settles is not made again.

Findings never mix campaigns. But where one asks for what another one has, the answer is there to be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collector.analysis.compared import Pair
from collector.analysis.pairing import SAME_ENGINE, SAME_LOAD, SPECULATING, SPECULATION
from collector.analysis.schedule import is_scheduled
from collector.analysis.study import Study
from collector.core.rows import Row, comparable
from collector.core.speculative import synthetic_of

#: What a pair of another campaign must share to say the same; a series is a group within one campaign.
SHARED = tuple(
    name for name in (*SAME_ENGINE, *SPECULATING, *SAME_LOAD) if name not in ("campaign", "series", "attention_backend")
)
#: The text that an acceptance is asked by has two decimals; so near to what is needed it was asked for.
SAME_TOKENS = 0.02


def campaign_with_point(
    others: Iterable[Study], pair: Pair, concurrencies: Sequence[int], prompt_sets: Sequence[str] = (), repeats: int = 1
) -> str | None:
    """Return the campaign that has the ratio of a pair at each concurrency, on each prompt set, so often repeated."""
    wanted = {(name, at) for name in prompt_sets or (pair["prompt_set"],) for at in concurrencies}
    for study in others:
        known = {
            (other["prompt_set"], point.concurrency)
            for other in study.pairs(pair.factor)
            if _alike(pair, other, ("prompt_set", "prompt_set_digest") if prompt_sets else ())
            for point in other.measured
            if min(point.n_on, point.n_off) >= repeats
        }
        if wanted <= known:
            return study.name
    return None


def campaign_within(others: Iterable[Study], pair: Pair, low: int, high: int) -> str | None:
    """Return the campaign that compared a pair somewhere within a bracket, the one that did so most often."""
    found = {
        study.name: sum(
            low < point.concurrency < high
            for other in study.pairs(SPECULATION)
            if _alike(pair, other)
            for point in other.measured
        )
        for study in others
    }
    best = max(found, key=lambda name: (found[name], name), default=None)
    return best if best and found[best] else None


def campaign_with_schedule(others: Iterable[Study], pair: Pair) -> str | None:
    """Return the campaign that has measured a schedule of this way of speculating."""
    for study in others:
        scheduled = (other for other in study.pairs(SPECULATION) if is_scheduled(other) and other.measured)
        if any(_alike(pair, other, ("speculative_config",)) for other in scheduled):
            return study.name
    return None


def campaign_with_acceptance(studies: Iterable[Study], like: Row, tokens: float) -> str | None:
    """Return the campaign in which so many tokens a step were asked for, at the concurrency of a row and as it is."""
    names = [name for name in (*SHARED, "concurrency") if name != "speculative_config"]
    for study in studies:
        for row in study.rows:
            asked = synthetic_of(row.speculative_config)
            same = asked and all(getattr(row, name) == getattr(like, name) for name in names)
            if same and comparable(row) and abs(float(asked or 0) / tokens - 1) <= SAME_TOKENS:
                return study.name
    return None


def _alike(pair: Pair, other: Pair, but: Iterable[str] = ()) -> bool:
    return all(pair.get(name) == other.get(name) for name in SHARED if name not in but)
