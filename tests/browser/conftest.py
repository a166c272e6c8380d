"""One Chromium and one server for all browser tests. `make browser` builds the site before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from playwright.sync_api import Page as Tab

from tests.browser.built import SITE, Page, folder, pages
from tests.browser.reading import Visit, reader, visit_all
from tests.browser.server import Served, serving

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser_path() -> str:
    """Return the browser to use: $CHROMIUM, or the first of NAMES on the PATH. Playwright's own is not fetched."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.exit(
            "the browser tests need Chromium: apt-get install chromium fonts-noto-cjk, "
            "or name another one: make browser CHROMIUM=/path/to/chrome",
            returncode=2,
        )
    return found


@pytest.fixture(scope="session")
def all_pages() -> list[Page]:
    if not (SITE / "sitemap.xml").is_file():
        pytest.exit(f"{SITE} holds no site: run `make site`, or `make browser`, which does so itself", returncode=2)
    return pages()


@pytest.fixture(scope="session")
def served(all_pages: list[Page]) -> Iterator[Served]:
    with serving(SITE, folder()) as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser_path())
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def visits(browser: Browser, served: Served, all_pages: list[Page]) -> dict[str, Visit]:
    """What a reader noted about every page; each was opened once."""
    return visit_all(browser, served, all_pages)


@pytest.fixture
def context(browser: Browser, served: Served) -> Iterator[BrowserContext]:
    with reader(browser, served) as context:
        yield context


@pytest.fixture
def tab(context: BrowserContext) -> Tab:
    return context.new_page()
