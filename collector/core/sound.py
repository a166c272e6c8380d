"""What the tables of a campaign must hold for anything to be said of them, whichever command reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from collector.core.errors import DataError
from collector.core.rows import Failure, Row


def check_tables(folder: Path, rows: Sequence[Row], failures: Sequence[Failure]) -> None:
    """Raise DataError where a row or failure stands twice, or belongs to another campaign than its folder says."""
    _check_unique(folder / "rows.csv", "row_id", (row.row_id for row in rows))
    _check_unique(folder / "failures.csv", "failure_id", (one.failure_id for one in failures))
    _check_campaign(folder / "rows.csv", (row.campaign for row in rows))
    _check_campaign(folder / "failures.csv", (one.campaign for one in failures))


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
