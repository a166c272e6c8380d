"""A printed article is complete: drawings, folded tables, no menus, black on white."""

from __future__ import annotations

import re
import unicodedata
from io import BytesIO

import pytest
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect
from pypdf import PdfReader

from tests.browser.built import Page, first_article
from tests.browser.reading import THEME

pytestmark = pytest.mark.browser

#: A line of text each: a label may have several.
TEXTS_OF_DRAWINGS = """() => [...document.querySelectorAll('.chart-figure .chart text')]
  .filter(one => one.getBoundingClientRect().height)
  .flatMap(one => one.children.length ? [...one.childNodes] : [one]).map(one => one.textContent)"""
#: Of numbers alone, since they stand on one line: extracted lines of neighbouring cells mix.
FOLDED_CELLS = "[...document.querySelectorAll('details:not(.contents) td.n')].map(one => one.innerText)"


def test_an_article_prints_with_charts_and_folded_tables(tab: Tab, all_pages: list[Page]) -> None:
    tab.goto(first_article(all_pages, "ko").path)
    tab.click(THEME)
    expect(tab.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
    tab.emulate_media(media="print")
    for part in (".md-header", ".md-sidebar--primary", ".md-footer", ".trail", "details.contents"):
        assert not tab.locator(part).first.is_visible(), f"{part} is printed"
    assert is_dark(tab.locator("article p").first.evaluate("one => getComputedStyle(one).color"))
    assert tab.locator(".chart-figure").count() == tab.locator(".chart-figure svg.chart:visible").count()
    drawn = tab.evaluate(TEXTS_OF_DRAWINGS)
    folded = tab.evaluate(FOLDED_CELLS)
    sheets = PdfReader(BytesIO(tab.pdf(format="A4"))).pages
    printed = squeezed("".join(sheet.extract_text() for sheet in sheets))
    assert len(sheets) > 1
    assert drawn
    assert folded
    assert [text for text in drawn if squeezed(text) not in printed] == []
    assert [text for text in folded if squeezed(text) not in printed] == []


def is_dark(colour: str) -> bool:
    """Whether a computed colour ("rgba(0, 0, 0, 0.87)") is one for text on paper."""
    return all(float(part) < 128 for part in re.findall(r"[\d.]+", colour)[:3])


def squeezed(text: str) -> str:
    """Letters and digits alone: a PDF holds spaces as places, joins letters and swaps dashes for like ones."""
    return re.sub(r"\W", "", unicodedata.normalize("NFKC", text))
