"""Every page, in both languages: loads without an error, fits a phone, says all without JavaScript."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Request, Response
from playwright.sync_api import Page as Tab

from tests.browser.built import Page
from tests.browser.looking import OPEN_DETAILS, look
from tests.browser.server import Served

pytestmark = pytest.mark.browser

#: The narrowest phone in common use, in CSS pixels.
PHONE = (360, 740)

#: What sticks out to the right of the screen although no frame of its own scrolls, outermost first.
WIDER_THAN_SCREEN = """() => {
  const screen = document.scrollingElement;
  if (screen.scrollWidth <= innerWidth) return [];
  const wide = [...document.querySelectorAll('main *')].filter(one => {
    if (one.closest('.scroll') && !one.matches('.scroll')) return false;
    return one.getBoundingClientRect().right > innerWidth + 1;
  });
  return [`${screen.scrollWidth} of ${innerWidth} px`, ...wide.slice(0, 3).map(one => one.outerHTML.slice(0, 120))];
}"""

#: Headers of tables meant to sort that are no buttons.
UNSORTABLE = """() => [...document.querySelectorAll('[data-sortable] thead tr:last-child th, th.sort')]
  .filter(one => !one.querySelector('button')).map(one => `cannot sort by ${one.textContent}`)"""

#: How many figures and tables a page has, and which of them show nothing: a figure without a drawing in sight, a
#: table without an area. What is folded counts by its summary, which must be in sight.
CONTENT = """() => {
  const seen = one => { const box = one.getBoundingClientRect(); return box.width > 0 && box.height > 0; };
  const folds = one => {
    const fold = one.parentElement.closest('details');
    return fold ? [...folds(fold), fold] : [];
  };
  const shown = one => seen(folds(one).find(fold => !fold.open)?.querySelector('summary') ?? one);
  const figures = [...document.querySelectorAll('figure:has(svg)')];
  const tables = [...document.querySelectorAll('article table')];
  const empty = [
    ...figures.filter(one => ![...one.querySelectorAll('svg')].some(shown)),
    ...tables.filter(one => !shown(one) || one.rows.length < 1),
  ];
  return {figures: figures.length, tables: tables.length, empty: empty.map(one => one.outerHTML.slice(0, 120))};
}"""


def test_every_page_starts_without_error_and_asks_nobody_else(
    context: BrowserContext, all_pages: list[Page], served: Served
) -> None:
    problems: list[str] = []

    def on_request(request: Request) -> None:
        if not request.url.startswith((served.address, "data:", "blob:")):
            problems.append(f"asks another host: {request.url}")

    def on_response(response: Response) -> None:
        if response.status >= 400:
            problems.append(f"{response.status}: {response.url}")

    def on_console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            problems.append(f"{message.type}: {message.text}")

    context.on("request", on_request)
    context.on("response", on_response)
    context.on("requestfailed", lambda request: problems.append(f"failed: {request.url}"))
    context.on("console", on_console)
    context.on("weberror", lambda error: problems.append(f"exception: {error.error}"))

    def examine(_: Page) -> list[str]:
        tab.wait_for_load_state("networkidle")
        found = [*problems, *tab.evaluate(UNSORTABLE)]
        problems.clear()
        return found

    tab = context.new_page()
    assert look(tab, all_pages, examine) == {}


def test_no_page_scrolls_sideways_on_a_phone(context: BrowserContext, all_pages: list[Page]) -> None:
    tab = context.new_page()
    width, height = PHONE
    tab.set_viewport_size({"width": width, "height": height})

    def examine(_: Page) -> list[str]:
        tab.evaluate(OPEN_DETAILS)
        return list(tab.evaluate(WIDER_THAN_SCREEN))

    assert look(tab, all_pages, examine) == {}


def test_without_javascript_every_figure_and_table_is_there(
    browser: Browser, tab: Tab, all_pages: list[Page], served: Served
) -> None:
    plain = browser.new_context(base_url=served.address, java_script_enabled=False)
    reader = plain.new_page()
    found = {}

    def examine(page: Page) -> list[str]:
        found[page.path] = reader.evaluate(CONTENT)
        return list(found[page.path]["empty"])

    problems = look(reader, all_pages, examine)
    plain.close()
    assert problems == {}
    for page in all_pages:
        if page.is_article:
            tab.goto(page.path)
            assert tab.evaluate(CONTENT) == found[page.path]


def test_both_languages_have_the_same_pages_with_the_same_ids(all_pages: list[Page]) -> None:
    """So that the language switch and a shared link always find their place."""
    ids = {page.path: set(re.findall(r'<[^>]* id="([^"]+)"', page.html)) for page in all_pages}
    korean = {path: found for path, found in ids.items() if not path.startswith("en/") and path != "404.html"}
    english = {path.removeprefix("en/"): found for path, found in ids.items() if path.startswith("en/")}
    assert korean.keys() == english.keys()
    assert {path: korean[path] ^ english[path] for path in korean if korean[path] != english[path]} == {}


def test_every_page_names_itself_in_both_languages_absolutely(all_pages: list[Page]) -> None:
    for page in all_pages:
        if page.path == "404.html":
            continue
        links = dict(re.findall(r'<link rel="alternate " hreflang="([^"]+)" href="([^"]+)">', page.html))
        canonical = re.search(r'<link rel="canonical" href="([^"]+)">', page.html)
        assert canonical
        assert set(links) == {"ko", "en", "x-default"}, page.path
        assert links[page.language] == canonical.group(1)
        assert links["x-default"] == links["ko"]
        assert links["en"].endswith("en/" + page.path.removeprefix("en/"))
        assert all(link.startswith("https://") for link in links.values())
