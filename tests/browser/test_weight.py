"""What a reader loads before touching anything."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab

from tests.browser.built import Page
from tests.browser.server import Served

pytestmark = pytest.mark.browser

#: Bytes of an article as they go over the wire, charts, styles and scripts included: 0.8 seconds on a slow phone line
#: (1.6 Mbit/s).
HEAVIEST_ARTICLE = 160_000


#: Nothing more is asked for once this long has passed without a request, seconds.
QUIET_S = 1.0


def settled(tab: Tab, served: Served) -> dict[str, int]:
    """Wait until nothing more is asked for, also by workers; return what was sent, bytes by path."""
    seen = -1
    while seen != len(served.sent):
        seen = len(served.sent)
        tab.wait_for_timeout(QUIET_S * 1000)
    return dict(served.sent)


def test_an_article_weighs_little(browser: Browser, all_pages: list[Page], served: Served) -> None:
    articles = [page for page in all_pages if page.is_article]
    assert {page.language for page in articles} == {"ko", "en"}
    weights = {}
    for page in articles:
        first_visit = browser.new_context(base_url=served.address)
        tab = first_visit.new_page()
        served.sent.clear()
        tab.goto(page.path, wait_until="networkidle")
        tab.wait_for_selector("html.js")  # the theme's script has begun
        weights[page.path] = settled(tab, served)
        first_visit.close()
    totals = {path: sum(parts.values()) for path, parts in weights.items()}
    print("\n".join(f"{total:7,} bytes {path}" for path, total in totals.items()))
    too_heavy = {path: weights[path] for path, total in totals.items() if total > HEAVIEST_ARTICLE}
    assert too_heavy == {}, totals
