"""Every link of the built site leads somewhere, fragments included; links to other hosts are not followed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.built import SITE, Page, folder

pytestmark = pytest.mark.browser


#: Broken links that a failure shows; the rest is counted.
SHOWN = 20


def test_every_link_and_fragment_has_its_target(all_pages: list[Page], tmp_path: Path) -> None:
    # The 404 page names its files from the host's root, where the site is a folder.
    host = tmp_path / "host"
    published = host / folder().strip("/")
    published.parent.mkdir(parents=True, exist_ok=True)
    published.symlink_to(SITE)
    checked = subprocess.run(
        [
            Path(sys.executable).parent / "lychee",
            *("--offline", "--include-fragments", "--no-progress", "--index-files", "index.html", "--format", "json"),
            *("--root-dir", host),
            *(published / page.file.relative_to(SITE) for page in all_pages),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(checked.stdout)
    broken = [
        f"{Path(page).relative_to(published)}: {link['url'].removeprefix(published.as_uri())}"
        for page, links in report["error_map"].items()
        for link in links
    ]
    assert report["total"] > len(all_pages)
    assert (broken[:SHOWN], len(broken)) == ([], 0)
    assert checked.returncode == 0, checked.stderr
