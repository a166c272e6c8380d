"""What no measured row can hold is refused with file, row and column, before anything is computed of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.core.errors import DataError
from collector.core.sound import ABOVE_ZERO, AT_LEAST_ONE, check_tables
from tests.report.sample import make_row

FOLDER = Path("data/sample-dual")


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        *((name, 0, "1 or more") for name in AT_LEAST_ONE),
        *((name, value, "above 0") for name in ABOVE_ZERO for value in (0.0, -1.0)),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_row_and_column(column: str, value: float, expected: str) -> None:
    changes: dict[str, Any] = {column: value}
    row = replace(make_row(), **changes)
    with pytest.raises(DataError, match=rf"rows\.csv, row {row.row_id}, column {column}: found {value}, .*{expected}"):
        check_tables(FOLDER, [row], [])


def test_what_is_missing_is_no_fault() -> None:
    check_tables(FOLDER, [replace(make_row(), tokens_per_step=None, step_time_mean_s=None)], [])
