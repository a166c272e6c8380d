"""How throughput changes with concurrency on one side of a pair: a flat ratio is not all the factor's doing."""

from __future__ import annotations

from dataclasses import dataclass

from collector.analysis.compared import Pair
from collector.analysis.pairing import OFF, Side
from collector.analysis.quantity import Quantity, printed
from collector.analysis.study import Study

#: Two concurrencies further apart than this factor say nothing about how a curve ends.
NEAR = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Two concurrencies of one side. `change` is in per cent of `before`."""

    low: int
    high: int
    before: Quantity
    after: Quantity
    change: Quantity


def ratio_between(over: Quantity, under: Quantity) -> Quantity:
    """Return the ratio of two means of rows as one quantity of both sides' rows."""
    spread = None not in (over.low, over.high, under.low, under.high)
    return Quantity(
        value=over.value / under.value,
        by="ratio",
        of=over.of,
        ids=over.ids,
        base=under.ids,
        low=(over.low or 0.0) / (under.high or 1.0) if spread else None,
        high=(over.high or 0.0) / (under.low or 1.0) if spread else None,
    )


def last_step(study: Study, pair: Pair, side: Side) -> Step | None:
    """Return the change between the two highest concurrencies of known throughput, if they lie near each other.

    Of a published study the change must have been printed as well.
    """
    known = [(point.concurrency, found) for point in pair.points if (found := getattr(point, side)) is not None]
    if len(known) < 2:
        return None
    (low, before), (high, after) = sorted(known, key=lambda one: one[0])[-2:]
    if not low < high <= NEAR * low:
        return None
    change = _printed(study, pair, side, low, high) if study.is_published else ratio_between(after, before).as_gain
    return Step(low=low, high=high, before=before, after=after, change=change) if change else None


def _printed(study: Study, pair: Pair, side: Side, low: int, high: int) -> Quantity | None:
    same = {name: pair[name] for name in ("model", "kv_cache_dtype", "nvlink")}
    on = {name: pair[name] for name in ("speculation", "num_speculative_tokens")}
    way = on if side == "on" else {"speculation": OFF, "num_speculative_tokens": None}
    found = study.figures_of(f"throughput_change_c{low}_to_c{high}", **same, **way)
    return printed(found[0]) if found else None
