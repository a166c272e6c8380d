"""What several tests do with an open page."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page as Tab

from tests.browser.built import Page

#: Opens everything that is folded, as a reader may.
OPEN_DETAILS = "document.querySelectorAll('details').forEach(one => { one.open = true })"

#: The button that goes from light to dark or back.
THEME = "label[for^=__palette]:visible"


def look(tab: Tab, every: list[Page], examine: Callable[[Page], list[str]]) -> dict[str, list[str]]:
    """Visit every page; return what `examine` says of it where it says something."""
    found = {}
    for page in every:
        tab.goto(page.path, wait_until="load")
        if problems := examine(page):
            found[page.path or "(home)"] = problems
    return found


def first_article(all_pages: list[Page], language: str) -> Page:
    """Return an article with charts."""
    articles = [page for page in all_pages if page.is_article and page.language == language]
    found = [page for page in articles if "chart-figure" in page.html]
    assert found, f"no article in {language!r} has a chart"
    return found[0]
