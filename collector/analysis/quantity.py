"""A number and the rows that prove it: what every figure on a page is made from.

How a number came from its rows is said in two words, `by` and `of`, so that a reader, and a test, can make it
again from the CSV alone. Missing values and rows with a failed check never get here: a function returns None
where nothing is left to compute from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Literal

from collector.analysis.figures import Figure
from collector.core.rows import Row, comparable

#: mean, least, most: of the column `of` over the rows. ratio: mean over the rows ÷ mean over the base rows.
#: gain: 100 × (ratio − 1). difference: mean − mean of the base. pooled: sum ÷ sum of the two columns in `of`.
#: needed: tokens a step, as analysis/needed.py makes them of rows and base. needed_acceptance: (that − 1) ÷ k.
#: expected: the ratio of throughputs for the tokens a step of rows with an acceptance asked for, by the times of the
#: others, as analysis/asked.py makes it. expected_error: measured ÷ that, as a gain.
#: predicted: by the roofline of an emulation's profile. predicted_share: of what the rows add to the base rows.
#: published: printed elsewhere, ids are figure ids. published_gain, published_ratio: the one from the other.
By = Literal[
    "mean",
    "least",
    "most",
    "ratio",
    "gain",
    "difference",
    "pooled",
    "needed",
    "needed_acceptance",
    "expected",
    "expected_error",
    "predicted",
    "predicted_share",
    "published",
    "published_gain",
    "published_ratio",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """A value, how it was made, and of which rows."""

    value: float
    by: By
    of: str  # a column, or "numerator/denominator" when pooled
    ids: tuple[str, ...]
    base: tuple[str, ...] = ()
    low: float | None = None  # range over repeats; None while no spread was measured
    high: float | None = None

    @property
    def n(self) -> int:
        """How many measurements stand behind it: of its thinner side, where it has two."""
        return min(len(self.ids), len(self.base)) if self.base else len(self.ids)

    @property
    def as_gain(self) -> Quantity:
        """A ratio as the gain in per cent that it is."""
        by: dict[By, By] = {"ratio": "gain", "published": "published_gain", "published_ratio": "published"}
        percent = [None if one is None else 100 * (one - 1) for one in (self.value, self.low, self.high)]
        return replace(self, value=percent[0] or 0.0, low=percent[1], high=percent[2], by=by[self.by])


def usable(rows: Iterable[Row], *columns: str) -> list[Row]:
    """Return the rows whose checks held and that have all of these columns."""
    return [row for row in rows if comparable(row) and all(getattr(row, name) is not None for name in columns)]


def mean_of(rows: Iterable[Row], column: str) -> Quantity | None:
    """Return the mean of a column, with its range where it was measured more than once."""
    kept = usable(rows, column)
    if not kept:
        return None
    values = _values(kept, column)
    low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
    return Quantity(value=fsum(values) / len(values), by="mean", of=column, ids=_ids(kept), low=low, high=high)


def ratio_of(rows: Iterable[Row], base: Iterable[Row], column: str) -> Quantity | None:
    """Return mean ÷ mean. The range spans any repeat over any other; None while either side has one."""
    kept, under = usable(rows, column), [row for row in usable(base, column) if getattr(row, column)]
    if not kept or not under:
        return None
    over, below = _values(kept, column), _values(under, column)
    spread = min(len(over), len(below)) > 1
    return Quantity(
        value=(fsum(over) / len(over)) / (fsum(below) / len(below)),
        by="ratio",
        of=column,
        ids=_ids(kept),
        base=_ids(under),
        low=min(over) / max(below) if spread else None,
        high=max(over) / min(below) if spread else None,
    )


def difference_of(rows: Iterable[Row], base: Iterable[Row], column: str) -> Quantity | None:
    """Return mean − mean."""
    kept, under = mean_of(rows, column), mean_of(base, column)
    if kept is None or under is None:
        return None
    return Quantity(value=kept.value - under.value, by="difference", of=column, ids=kept.ids, base=under.ids)


def pooled_of(rows: Iterable[Row], numerator: str, denominator: str) -> Quantity | None:
    """Return a ratio of sums: rows with more steps weigh more. None where the denominator sums to 0."""
    kept = usable(rows, numerator, denominator)
    below = fsum(_values(kept, denominator))
    if not below:
        return None
    value = fsum(_values(kept, numerator)) / below
    each = [getattr(row, numerator) / getattr(row, denominator) for row in kept if getattr(row, denominator)]
    low, high = (min(each), max(each)) if len(each) > 1 else (None, None)
    of = f"{numerator}/{denominator}"
    return Quantity(value=value, by="pooled", of=of, ids=_ids(kept), low=low, high=high)


def least_of(rows: Iterable[Row], column: str) -> Quantity | None:
    """Return the smallest value, with the one row that holds it."""
    kept = usable(rows, column)
    return _extreme(min(kept, key=lambda row: getattr(row, column)), column, "least") if kept else None


def most_of(rows: Iterable[Row], column: str) -> Quantity | None:
    """Return the largest value, with the one row that holds it."""
    kept = usable(rows, column)
    return _extreme(max(kept, key=lambda row: getattr(row, column)), column, "most") if kept else None


def printed(figure: Figure) -> Quantity:
    """Return a figure that was published elsewhere."""
    return Quantity(value=figure.value, by="published", of=figure.metric, ids=(figure.figure_id,))


def printed_gain(figure: Figure) -> Quantity:
    """Return the ratio that a published gain in per cent stands for."""
    value = 1 + figure.value / 100
    return Quantity(value=value, by="published_ratio", of=figure.metric, ids=(figure.figure_id,))


def _extreme(row: Row, column: str, by: By) -> Quantity:
    return Quantity(value=getattr(row, column), by=by, of=column, ids=(row.row_id,))


def _values(rows: Sequence[Row], column: str) -> list[float]:
    return [float(getattr(row, column)) for row in rows]


def _ids(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(row.row_id for row in rows)
