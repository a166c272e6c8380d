"""How far measurements of the same thing lie apart: the noise floor of a study.

A cell is one configuration in one stage. Where a campaign repeats none, the same settings measured in two
series (hours apart, in engines of their own) tell as much; else the error is not known.

Each kin of rows has an error of its own. Repeats of an emulation say nothing of a measurement, and repeats without
speculation nothing of those with it, which scatter by the luck of the drafts as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from collector.analysis.formula import columns_of, formula_ratio, of_row
from collector.analysis.pairing import DRAFTING, OFF, SAME_ENGINE, SAME_LOAD, STAGE, key
from collector.analysis.quantity import Quantity, printed, usable
from collector.analysis.study import PUBLISHED, Study
from collector.core.rows import Row

THROUGHPUT = "system_throughput_tok_s"

Kind = Literal["repeats", "series", "published"]


@dataclass(frozen=True, order=True, slots=True)
class Kin:
    """Rows whose repeats speak for each other."""

    provenance: str
    speculating: bool | None  # None: not told, of what was published


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatError:
    """Larger over smaller value of the same cell, in per cent: of throughput, unless another column is asked for.

    Over `cells` cells. `mean` weighs a cell by its value: sum of the larger ones over sum of the smaller ones.
    """

    kind: Kind
    cells: int
    least: Quantity
    mean: Quantity
    most: Quantity


def repeat_errors(study: Study, column: str = THROUGHPUT) -> Mapping[Kin, RepeatError]:
    """Return the repeat error of each kin of a study that was measured twice."""
    if study.is_published:
        error = _printed(study)
        return {Kin(PUBLISHED, speculating=None): error} if error else {}
    return errors_among(study.basis, column)


def errors_among(rows: Iterable[Row], column: str = THROUGHPUT) -> Mapping[Kin, RepeatError]:
    """Return the repeat error of each kin of these rows that was measured twice; `column` may be an expression."""
    own: dict[Kin, list[Row]] = defaultdict(list)
    for row in sorted(usable(rows, *columns_of(column)), key=lambda row: (row.campaign, row.row_id)):
        own[kin_of(row)].append(row)
    found = {kin: _error_among(kept, column) for kin, kept in sorted(own.items())}
    return {kin: error for kin, error in found.items() if error}


def kin_of(row: Row) -> Kin:
    return Kin(row.provenance, speculating=row.speculation != OFF)


def largest(errors: Iterable[RepeatError]) -> RepeatError | None:
    """Return the error that allows the largest difference."""
    return max(errors, key=lambda error: _order(error.most), default=None)


def _error_among(rows: Sequence[Row], column: str) -> RepeatError | None:
    return _error("repeats", _repeated(rows), column) or _error("series", _in_two_series(rows), column)


def _repeated(rows: Iterable[Row]) -> list[list[Row]]:
    cells: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        cells[row.configuration_id, key(row, (*SAME_LOAD, *STAGE))].append(row)
    return [found for found in cells.values() if len(found) > 1]


def _in_two_series(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the same settings and stage in more than one series, one configuration in each."""
    same = [name for name in (*SAME_ENGINE, *DRAFTING, *SAME_LOAD, *STAGE) if name != "series"]
    cells: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        cells[key(row, same)].append(row)
    return [
        found
        for found in cells.values()
        if len({row.series for row in found}) == len({row.configuration_id for row in found}) > 1
    ]


def _error(kind: Kind, cells: Sequence[Sequence[Row]], column: str) -> RepeatError | None:
    ends = [_ends(rows, column) for rows in cells]
    each = [found.as_gain for most, least in ends if (found := formula_ratio([most], [least], column))]
    mean = formula_ratio([most for most, _ in ends], [least for _, least in ends], column)
    if not each or mean is None:
        return None
    return RepeatError(
        kind=kind,
        cells=len(each),
        least=min(each, key=_order),
        mean=mean.as_gain,
        most=max(each, key=_order),
    )


def _ends(rows: Sequence[Row], column: str) -> tuple[Row, Row]:
    """Return the rows of the highest and the lowest value; the order among equals is that of their ids."""
    ordered = sorted(rows, key=lambda row: (of_row(row, column) or 0.0, row.row_id))
    return ordered[-1], ordered[0]


def _order(one: Quantity) -> tuple[float, tuple[str, ...]]:
    return one.value, one.ids


def _printed(study: Study) -> RepeatError | None:
    found = [study.figures_of(f"repeat_error_{name}") for name in ("min", "mean", "max")]
    if not all(found):
        return None
    least, mean, most = (printed(figures[0]) for figures in found)
    return RepeatError(kind="published", cells=1, least=least, mean=mean, most=most)
