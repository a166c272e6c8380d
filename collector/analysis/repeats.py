"""How far measurements of the same thing lie apart, and which effects are larger than that.

A cell is one configuration in one stage. Where a campaign repeats none, the same settings measured in two
series (hours apart, in engines of their own) tell as much; else the error is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from collector.analysis.pairing import SAME_ENGINE, SAME_LOAD, SPECULATING, STAGE, key
from collector.analysis.quantity import Quantity, printed, ratio_of, usable
from collector.analysis.study import Study
from collector.core.rows import Row

THROUGHPUT = "system_throughput_tok_s"

#: In per cent. A smaller effect does not pay for a setting of its own, however well it was measured.
LEAST_EFFECT = 2.0
#: An effect must exceed the largest difference between repeats so many times: a handful of repeats shows less
#: than the true largest difference.
NOISE_MULTIPLE = 2
#: In per cent, where nothing was repeated: a little above the largest repeat error published for such a host (2.26).
UNKNOWN_ERROR = 2.5

Kind = Literal["repeats", "series", "published"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatError:
    """Larger over smaller throughput of the same cell, in per cent, over `cells` cells.

    `mean` weighs a cell by its throughput: sum of the larger ones over sum of the smaller ones.
    """

    kind: Kind
    cells: int
    least: Quantity
    mean: Quantity
    most: Quantity


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """What an effect without repeats of its own must exceed, in per cent.

    `error` is None where no repeat tells; then UNKNOWN_ERROR is taken.
    """

    percent: float
    error: RepeatError | None

    def side(self, ratio: Quantity) -> int:
        """Return 1 for a gain, -1 for a loss, 0 within noise.

        Where both sides were repeated their own range decides, else the repeat error of the study.
        """
        percent = 100 * (ratio.value - 1)
        if ratio.low is not None and ratio.high is not None:
            within = ratio.low <= 1 <= ratio.high or abs(percent) <= LEAST_EFFECT
        else:
            within = abs(percent) <= self.percent
        return 0 if within else (1 if percent > 0 else -1)


def noise_of(error: RepeatError | None) -> Noise:
    largest = error.most.value if error else UNKNOWN_ERROR
    return Noise(percent=max(LEAST_EFFECT, NOISE_MULTIPLE * largest), error=error)


def repeat_error(study: Study) -> RepeatError | None:
    """Return the repeat error of a study; None where nothing was measured twice."""
    if study.is_published:
        return _printed(study)
    rows = usable(study.rows, THROUGHPUT)
    return _error("repeats", _repeated(rows)) or _error("series", _in_two_series(rows))


def _repeated(rows: Iterable[Row]) -> list[list[Row]]:
    cells: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        cells[row.configuration_id, key(row, (*SAME_LOAD, *STAGE))].append(row)
    return [found for found in cells.values() if len(found) > 1]


def _in_two_series(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the same settings and stage in more than one series, one configuration in each."""
    same = [name for name in (*SAME_ENGINE, *SPECULATING, *SAME_LOAD, *STAGE) if name != "series"]
    cells: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        cells[key(row, same)].append(row)
    return [
        found
        for found in cells.values()
        if len({row.series for row in found}) == len({row.configuration_id for row in found}) > 1
    ]


def _error(kind: Kind, cells: Sequence[Sequence[Row]]) -> RepeatError | None:
    ends = [_ends(rows) for rows in cells]
    each = [found.as_gain for most, least in ends if (found := ratio_of([most], [least], THROUGHPUT))]
    mean = ratio_of([most for most, _ in ends], [least for _, least in ends], THROUGHPUT)
    if not each or mean is None:
        return None
    return RepeatError(
        kind=kind,
        cells=len(each),
        least=min(each, key=lambda one: one.value),
        mean=mean.as_gain,
        most=max(each, key=lambda one: one.value),
    )


def _ends(rows: Sequence[Row]) -> tuple[Row, Row]:
    """Return the fastest and the slowest of these; the order among equals is that of their ids."""
    ordered = sorted(rows, key=lambda row: (row.system_throughput_tok_s or 0.0, row.row_id))
    return ordered[-1], ordered[0]


def _printed(study: Study) -> RepeatError | None:
    found = [study.figures_of(f"repeat_error_{name}") for name in ("min", "mean", "max")]
    if not all(found):
        return None
    least, mean, most = (printed(figures[0]) for figures in found)
    return RepeatError(kind="published", cells=1, least=least, mean=mean, most=most)
