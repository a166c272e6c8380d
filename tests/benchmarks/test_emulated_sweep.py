"""The benchmark of the emulated sweep must see a table that is not the stored one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.emulated_sweep import STORED, TABLES, faults


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    for name in TABLES:
        shutil.copy(STORED / name, tmp_path)
    return tmp_path


def test_the_stored_campaign_has_no_fault(campaign: Path) -> None:
    assert list(faults(campaign)) == []


@pytest.mark.parametrize("name", TABLES)
def test_another_digit_is_a_fault(campaign: Path, name: str) -> None:
    text = (campaign / name).read_text()
    last = text.rstrip("\n")
    (campaign / name).write_text(last[:-1] + ("1" if last[-1] != "1" else "2") + "\n")
    assert list(faults(campaign)) == [f"{name}: not the bytes of data/dual-3090/{name}"]


def test_a_row_too_few_is_counted(campaign: Path) -> None:
    lines = (campaign / "rows.csv").read_text().splitlines(keepends=True)
    (campaign / "rows.csv").write_text("".join(lines[:-1]))
    assert next(faults(campaign)) == "rows.csv: 95 records, expected 96"
