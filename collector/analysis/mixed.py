"""Did both sides of a pair get as much accepted? Where not, its ratio mixes what it varies with the drafting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from collector.analysis.compared import Pair
from collector.analysis.noise import Noise
from collector.analysis.pairing import OFF
from collector.analysis.quantity import Quantity, pooled_of, printed
from collector.analysis.study import Study

#: Tokens per forward that differ by this many per cent between both sides move the throughput as much as the
#: smaller gains of a link or a dtype do. Less is too much as well where it decides on which side of the noise a
#: ratio lies.
MIXED_FROM_PERCENT = 5
#: What a printed acceptance must share with a pair.
_PRINTED = ("model", "series", "kv_cache_dtype", "nvlink", "speculation", "num_speculative_tokens", "prompt_set")


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafting:
    """The acceptance of both sides at one concurrency."""

    concurrency: int
    on: Quantity
    off: Quantity
    mixed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Side:
    acceptance: Quantity
    tokens: float  # per forward and request


def drafting(study: Study, pair: Pair, noise: Noise) -> tuple[Drafting, ...]:
    """Return the acceptance by concurrency, from the rows of every ratio or as printed; nothing without speculation."""
    if pair.get("speculation") == OFF:
        return ()
    found = _of_figures(study, pair) if study.is_published else _of_rows(pair, noise)
    return tuple(
        Drafting(concurrency=at, on=on.acceptance, off=off.acceptance, mixed=_is_mixed(on, off, ratio, noise))
        for at, ratio, on, off in found
        if on and off
    )


def mixed_at(pair: Pair, found: tuple[Drafting, ...]) -> tuple[int, ...]:
    """Return the concurrencies whose ratio is mixed, or may be: not known there, but mixed elsewhere."""
    known = {one.concurrency for one in found}
    mixed = {one.concurrency for one in found if one.mixed}
    stages = dict.fromkeys(point.concurrency for point in pair.measured)
    return tuple(at for at in stages if at in mixed or (mixed and at not in known))


def _is_mixed(on: _Side, off: _Side, ratio: Quantity | None, noise: Noise) -> bool:
    tokens = on.tokens / off.tokens
    if max(tokens, 1 / tokens) >= 1 + MIXED_FROM_PERCENT / 100:
        return True
    return ratio is not None and noise.side(ratio) != noise.side(replace(ratio, value=ratio.value / tokens))


_Sides = Iterator[tuple[int, Quantity | None, _Side | None, _Side | None]]


def _of_rows(pair: Pair, noise: Noise) -> _Sides:
    for point in pair.measured:
        sides = ([noise.rows[one] for one in ids if one in noise.rows] for ids in (point.row_ids_on, point.row_ids_off))
        on, off = (
            _side(
                pair, pooled_of(rows, "accepted_tokens", "draft_tokens"), pooled_of(rows, "accepted_tokens", "drafts")
            )
            for rows in sides
        )
        yield point.concurrency, point.value, on, off


def _of_figures(study: Study, pair: Pair) -> _Sides:
    """Only what was printed for one side and concurrency can be compared between sides."""
    column = pair.factor.way[0]
    rates = study.figures_of("acceptance_rate", **{name: pair[name] for name in _PRINTED if name != column})
    known = {(getattr(one.labels, column), one.labels.concurrency): printed(one) for one in rates}
    for at in sorted({at for _, at in known if at is not None}):
        point = pair.at(at)
        on, off = (_side(pair, known.get((value, at))) for value in (pair[column], pair.factor.base))
        yield at, point.value if point else None, on, off


def _side(pair: Pair, acceptance: Quantity | None, accepted: Quantity | None = None) -> _Side | None:
    if acceptance is None:
        return None
    k = pair.get("num_speculative_tokens") or 1
    return _Side(acceptance=acceptance, tokens=1 + (accepted.value if accepted else k * acceptance.value))
