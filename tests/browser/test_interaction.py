"""What the pages' scripts do: charts, theme, language, search and sorting, by mouse and by keyboard."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Route, expect
from playwright.sync_api import Page as Tab

from tests.browser.built import SITE, Page, first_article
from tests.browser.reading import OPEN_DETAILS, THEME, faults, listen
from tests.browser.server import Served

pytestmark = pytest.mark.browser

LIVE_TEXT = ".js-plotly-plot svg.main-svg .xtick text"
COLOUR = "one => getComputedStyle(one).fill"


@pytest.mark.parametrize(("language", "at_most"), [("ko", 99), ("en", 2)])
def test_charts_become_interactive_on_click_and_follow_the_theme(
    tab: Tab, all_pages: list[Page], served: Served, language: str, at_most: int
) -> None:
    errors = listen(tab.context, served.address)
    tab.goto(first_article(all_pages, language).path)
    tab.evaluate(OPEN_DETAILS)
    drawing = tab.locator("figure.chart-figure .chart-wide text").first
    colour_of_drawing = drawing.evaluate(COLOUR)
    buttons = tab.locator("figure.chart-figure button.chart-live")
    charts = min(buttons.count(), at_most)
    for number in range(charts):
        buttons.nth(number).click()
        expect(tab.locator(".js-plotly-plot svg.main-svg:visible").nth(number)).to_be_attached(timeout=20_000)
    expect(tab.locator("figure.chart-figure:has(.js-plotly-plot)")).to_have_count(charts)
    live = tab.locator(LIVE_TEXT).first
    colour = live.evaluate(COLOUR)
    tab.click(THEME)
    expect(live).not_to_have_css("fill", colour)
    assert drawing.evaluate(COLOUR) != colour_of_drawing
    assert faults(tab, ".chart-figure:has(.js-plotly-plot)") == []
    assert errors == []


def test_the_choice_of_theme_holds_on_other_pages_and_in_the_other_language(tab: Tab) -> None:
    tab.goto("")
    expect(tab.locator("body")).to_have_attribute("data-md-color-scheme", "default")
    tab.click(THEME)
    for path in ("dictionary/", "en/", "en/dictionary/"):
        tab.goto(path)
        expect(tab.locator("body")).to_have_attribute("data-md-color-scheme", "slate")


def switch_language(tab: Tab, language: str) -> None:
    tab.locator(".md-select button").hover()
    tab.locator(f".md-select__link[hreflang={language}]").click()


def test_the_language_switch_stays_on_page_and_section(tab: Tab, all_pages: list[Page]) -> None:
    article = first_article(all_pages, "ko")
    _, second, *_, last = re.findall(r'<h2 id="([^"]+)"', article.html)
    tab.goto(f"{article.path}#{last}")
    switch_language(tab, "en")
    tab.wait_for_url(f"**/en/{article.path}#{last}")
    expect(tab.locator("html")).to_have_attribute("lang", "en")
    expect(tab.locator(f"[id='{last}']")).to_be_in_viewport()
    # The reader goes back up; the address still names the last section, which is out of sight.
    tab.locator(f"[id='{second}']").evaluate("one => one.scrollIntoView()")
    switch_language(tab, "ko")
    tab.wait_for_url(f"**/{article.path}#{second}")
    expect(tab.locator("html")).to_have_attribute("lang", "ko")


def test_without_javascript_the_language_links_lead_to_the_same_page(all_pages: list[Page]) -> None:
    paths = {page.path for page in all_pages}
    for page in all_pages:
        if page.path == "404.html":
            continue
        links = re.findall(r'<a href="([^"]+)" hreflang="(\w+)"[^>]*class="md-select__link"', page.html)
        reached = {language: normal(page.path, link) for link, language in links}
        korean = page.path.removeprefix("en/")
        assert reached == {"ko": korean, "en": "en/" + korean}
        assert set(reached.values()) <= paths


def test_the_search_finds_korean_and_english_words(tab: Tab) -> None:
    """The words come from the index itself: a title's, and a Korean one without its last syllable, since particles
    follow words."""
    for language, pattern in (("ko", r"[가-힣]{3,}"), ("ko", r"[A-Za-z]{4,}"), ("en", r"[A-Za-z]{4,}")):
        root = "en/" if language == "en" else ""
        word, title = word_of_a_title(SITE / root / "search/search_index.json", pattern)
        tab.goto(root)
        field = tab.locator(".md-search__input")
        field.click()
        field.fill(word[:-1] if re.match("[가-힣]", word) else word)
        field.press("End")  # the theme listens to keys
        found = tab.locator(".md-search-result__item h1, .md-search-result__item h2")
        expect(found.filter(has_text=title).first).to_be_attached(timeout=15_000)
        expect(tab.get_by_role("dialog", name=re.compile(".+"))).to_be_attached()


def word_of_a_title(index: Any, pattern: str) -> tuple[str, str]:
    for entry in json.loads(index.read_text(encoding="utf-8"))["docs"]:
        if found := re.search(rf"(?<!\w){pattern}(?!\w)", entry["title"]):
            return found.group(), entry["title"]
    raise AssertionError(f"no title in {index} matches {pattern}")


#: Planted on a page: numbers as text would sort 10 before 9, a group of two rows, values that are missing.
TABLES = """
<table class="sheet" data-sortable id="plain">
<thead><tr><th>name</th><th>value</th></tr></thead>
<tbody>
<tr><td>나</td><td><data value="9">9.00</data></td></tr>
<tr><td>다</td><td><data value="10">1.0e1</data></td></tr>
<tr><td>가</td><td>–</td></tr>
<tr><td>라</td><td data-sort="9">nine</td></tr>
</tbody></table>
<table class="sheet" id="groups">
<thead><tr><th>group</th><th>c</th><th class="sort">value</th></tr></thead>
<tbody><tr><th rowspan="2">A</th><td>1</td><td>5</td></tr><tr><td>2</td><td>1</td></tr></tbody>
<tbody><tr><th rowspan="2">B</th><td>1</td><td>9</td></tr><tr><td>2</td><td>3</td></tr></tbody>
</table>
"""


def test_tables_sort_by_mouse_and_keyboard(context: BrowserContext) -> None:
    def plant(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("</article>", TABLES + "</article>"))

    tab = context.new_page()
    tab.route(re.compile(r"/dictionary/$"), plant)
    tab.goto("dictionary/")
    plain, groups = tab.locator("#plain"), tab.locator("#groups")

    plain.locator("button", has_text="value").click()
    assert column(plain, 1) == ["나", "라", "다", "가"]  # 9 and 9 as they stood, 10, then what is missing
    plain.locator("button", has_text="value").press("Enter")
    assert column(plain, 1) == ["다", "나", "라", "가"]
    expect(plain.locator("th", has_text="value")).to_have_attribute("aria-sort", "descending")
    plain.locator("button", has_text="name").press("Space")
    assert column(plain, 1) == ["가", "나", "다", "라"]
    expect(plain.locator("th", has_text="value")).to_have_attribute("aria-sort", "none")
    plain.locator("button", has_text="name").press("Enter")
    plain.locator("button", has_text="name").press("Enter")
    assert column(plain, 1) == ["나", "다", "가", "라"]  # the third time: as it was

    assert groups.locator("button").count() == 1
    groups.locator("button").focus()
    groups.locator("button").press("Enter")
    assert groups.locator("tbody th").all_inner_texts() == ["A", "B"]
    groups.locator("button").press("Enter")
    assert groups.locator("tbody th").all_inner_texts() == ["B", "A"]
    assert column(groups.locator("tbody").first, -1) == ["9", "3"]


def column(table: Locator, number: int) -> list[str]:
    nth = f"nth-child({number})" if number > 0 else f"nth-last-child({-number})"
    return table.locator(f"tr > td:{nth}").all_inner_texts()


def normal(path: str, link: str) -> str:
    """Resolve a relative link of the page at `path`, both below the site's address."""
    parts: list[str] = []
    for part in (PurePosixPath("/" + path) / link).parts[1:]:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "".join(part + "/" for part in parts)
