"""MkDocs hooks for comfort; a build without them gives the same pages.

While `mkdocs serve` runs they make the pages again when data, templates or code change. They also date the build
by its data instead of the clock, so that the same data always give the same bytes.
"""

from __future__ import annotations

import csv
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
WATCHED = ("data", "templates", "site_src/common", "collector/report", "collector/analysis")


def on_config(config: Any) -> Any:
    """Build the pages as `collector build` would; COLLECTOR_PAGES_BUILT=1 says that it has just done so."""
    if not os.environ.get("COLLECTOR_PAGES_BUILT"):
        for name in [name for name in sys.modules if name.startswith("collector.")]:
            del sys.modules[name]  # so that an edit shows in a running preview
        from collector.report.build import build_site

        build_site(ROOT / "data", ROOT / "site_src")
    os.environ.setdefault("SOURCE_DATE_EPOCH", str(int(newest_row(Path(config.docs_dir)))))
    return config


def on_serve(server: Any, **_: Any) -> Any:
    for name in WATCHED:
        if (ROOT / name).exists():
            server.watch(str(ROOT / name))
    return server


def newest_row(pages: Path) -> float:
    """Seconds since 1970 at which the newest row that the pages offer was measured; 0 without rows."""
    newest = 0.0
    for path in pages.glob("campaigns/*/files/rows.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                newest = max(newest, datetime.fromisoformat(row["measured_at"]).timestamp())
    return newest
