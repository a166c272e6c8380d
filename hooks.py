"""MkDocs hooks for comfort; a build without them gives the same pages.

While `mkdocs serve` runs they make the pages again when data, templates or code change. They also give each
page's head the address of the same page in the other language, where the theme alone names the home page.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

ROOT = Path(__file__).resolve().parent
WATCHED = ("data", "templates", "site_src/common", "collector/report", "collector/analysis")


def on_config(config: Any) -> Any:
    """Build the pages as `collector build` would; COLLECTOR_PAGES_BUILT=1 says that it has just done so."""
    if not os.environ.get("COLLECTOR_PAGES_BUILT"):
        for name in [name for name in sys.modules if name.startswith("collector.")]:
            del sys.modules[name]  # so that an edit shows in a running preview
        from collector.report.build import build_site

        build_site(ROOT / "data", ROOT / "site_src")
    return config


def on_serve(server: Any, **_: Any) -> Any:
    for name in WATCHED:
        if (ROOT / name).exists():
            server.watch(str(ROOT / name))
    return server


def on_page_context(context: Any, page: Any, config: Any, **_: Any) -> Any:
    for other in config.extra.get("alternate", []):
        other["link"] = urljoin(config.site_url, other["root"]) + page.url
    return context
