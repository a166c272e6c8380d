"""The same data give the same bytes: elsewhere, later and with another order of hashes."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.built import ROOT, SITE, Page

pytestmark = pytest.mark.browser

TOOLS = Path(sys.executable).parent


def test_a_second_build_gives_the_same_bytes(all_pages: list[Page], tmp_path: Path) -> None:
    for name in ("mkdocs.yml", "mkdocs.en.yml", "hooks.py"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("common", "overrides"):
        shutil.copytree(ROOT / "site_src" / name, tmp_path / "site_src" / name)
    elsewhere = {**os.environ, "PYTHONHASHSEED": "1", "COLLECTOR_PAGES_BUILT": "1", "NO_MKDOCS_2_WARNING": "1"}
    for tool, *arguments in (
        ("collector", "build", "--data", str(ROOT / "data")),
        ("mkdocs", "build", "--strict"),
        ("mkdocs", "build", "--strict", "-f", "mkdocs.en.yml"),
    ):
        command = [str(TOOLS / tool), *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=elsewhere, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    first, second = tree(SITE), tree(tmp_path / "site")
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_the_build_is_dated_by_its_data(all_pages: list[Page]) -> None:
    """Two builds on one day would not show a stamp of today."""
    days = set(re.findall(r"<lastmod>(.*?)</lastmod>", (SITE / "sitemap.xml").read_text(encoding="utf-8")))
    measured = [
        row["measured_at"][:10]
        for path in (ROOT / "data").glob("*/rows.csv")
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    ]
    assert days == {max(measured)}


def tree(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
