"""What the tables of a campaign must hold for anything to be said of them, whichever command reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from collector.core.errors import DataError
from collector.core.rows import Failure, Row

#: Of a stage that was measured each is 1 or more.
AT_LEAST_ONE = ("concurrency", "requests", "repeat", "output_tokens")
#: What ratios and their logarithms are made of; missing is an empty field.
ABOVE_ZERO = ("tokens_per_step", "step_time_mean_s")


def check_tables(folder: Path, rows: Sequence[Row], failures: Sequence[Failure]) -> None:
    """Raise DataError where a row or failure stands twice, is of another campaign, or holds what cannot be."""
    _check_unique(folder / "rows.csv", "row_id", (row.row_id for row in rows))
    _check_unique(folder / "failures.csv", "failure_id", (one.failure_id for one in failures))
    _check_campaign(folder / "rows.csv", (row.campaign for row in rows))
    _check_campaign(folder / "failures.csv", (one.campaign for one in failures))
    _check_ranges(folder / "rows.csv", rows)


def _check_unique(path: Path, column: str, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise DataError(f"{path}, column {column}: {one!r} stands twice")
        seen.add(one)


def _check_campaign(path: Path, names: Iterable[str]) -> None:
    """A folder that was copied and not renamed inside would show one campaign's rows as another's."""
    name = path.resolve().parent.name
    for number, found in enumerate(names, start=1):
        if found != name:
            raise DataError(
                f"{path}, record {number}, column campaign: found {found!r}, expected {name!r} as the folder is called"
            )


def _check_ranges(path: Path, rows: Iterable[Row]) -> None:
    for row in rows:
        for column in (*AT_LEAST_ONE, *ABOVE_ZERO):
            value = getattr(row, column)
            whole = column in AT_LEAST_ONE
            if value is not None and value < 1 and (whole or value <= 0):
                expected = "1 or more" if whole else "a number above 0, or an empty field"
                raise DataError(f"{path}, row {row.row_id}, column {column}: found {value}, expected {expected}")
