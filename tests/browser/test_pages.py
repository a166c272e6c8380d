"""Every page, in both languages: loads without an error, fits a phone, can be read by all, and without JavaScript."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab

from tests.browser.built import Page, first_article
from tests.browser.reading import Visit, reader
from tests.browser.server import Served

pytestmark = pytest.mark.browser

#: How many figures and tables a page has, and which of them show nothing: a figure without a drawing in sight, a
#: table without an area. What is folded counts by the outermost closed summary, which must be in sight.
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


def noted(visits: dict[str, Visit], what: str) -> dict[str, list[str]]:
    """Return the pages about which something was noted, the first few things each."""
    return {path: getattr(one, what)[:3] for path, one in visits.items() if getattr(one, what)}


def test_every_page_starts_without_error_and_asks_nobody_else(visits: dict[str, Visit]) -> None:
    assert noted(visits, "errors") == {}


def test_no_page_scrolls_sideways_on_a_phone(visits: dict[str, Visit]) -> None:
    assert noted(visits, "wide") == {}


def test_axe_finds_nothing_serious_on_any_page(visits: dict[str, Visit]) -> None:
    assert noted(visits, "faults") == {}


def test_every_table_meant_to_sort_does(visits: dict[str, Visit]) -> None:
    assert noted(visits, "unsortable") == {}


def test_without_javascript_every_figure_and_table_is_there(
    browser: Browser, tab: Tab, all_pages: list[Page], served: Served
) -> None:
    """Of the Korean pages; the English ones have the same parts, as the ids below show."""
    korean = [page for page in all_pages if page.language == "ko"]
    plain = {}
    with reader(browser, served, java_script_enabled=False) as context:
        without = context.new_page()
        for page in korean:
            without.goto(page.path)
            plain[page.path] = without.evaluate(CONTENT)
    assert {path: content["empty"] for path, content in plain.items() if content["empty"]} == {}
    article = first_article(korean, "ko")
    tab.goto(article.path)
    assert tab.evaluate(CONTENT) == plain[article.path]
    assert plain[article.path]["figures"]
    assert plain[article.path]["tables"]


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
