"""axe finds no serious or critical fault on any page, in light and dark, with everything unfolded."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from tests.browser.built import Page
from tests.browser.looking import OPEN_DETAILS, THEME, look

pytestmark = pytest.mark.browser

GRAVE = ("serious", "critical")
QUICK = {"resultTypes": ["violations"], "selectors": False, "elementRef": False}
COLOURS = ["color-contrast", "link-in-text-block"]

#: Axe takes milliseconds an element. What differs in text, addresses and numbers alone looks alike to it, so the first
#: of each kind stands for all: of lines for the rules on structure, of every small part for those on colours.
LINES = "tbody tr, li, dl > div"
PARTS = LINES + ", p, a, code, data, span, td, .chart text, .chart path"
DROP_LIKE = """(parts) => {
  const seen = new Set();
  const look = one => `${one.localName} ${one.getAttribute('class')}`;
  for (const one of document.querySelectorAll(`article :is(${parts})`)) {
    if (!one.isConnected) continue;
    const around = [];
    for (let up = one; up.localName !== 'article'; up = up.parentElement) around.push(look(up));
    const within = new Set([...one.querySelectorAll('*')].map(look));
    const kind = JSON.stringify([around, [...within].sort()]);
    if (seen.has(kind)) one.remove();
    seen.add(kind);
  }
}"""


def faults(tab: Tab, part: str | None = None, **options: Any) -> list[str]:
    """Return what axe finds on the open page, or in the parts of it that a selector names: rule and elements."""
    violations = Axe().run(tab, context=part, options=QUICK | options).response["violations"]
    return [
        f"{one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in violations
        if one["impact"] in GRAVE
    ]


def test_axe_finds_nothing_serious(tab: Tab, all_pages: list[Page]) -> None:
    """Colours do not depend on the language: those of the Korean pages are looked at, in light and dark."""

    def examine(page: Page) -> list[str]:
        tab.evaluate(OPEN_DETAILS)
        tab.evaluate(DROP_LIKE, LINES)
        found = faults(tab, rules={name: {"enabled": False} for name in COLOURS})
        if page.language == "en":
            return found
        tab.evaluate(DROP_LIKE, PARTS)
        expect(tab.locator("body")).to_have_attribute("data-md-color-scheme", "default")
        found += faults(tab, runOnly=COLOURS)
        tab.click(THEME)
        expect(tab.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
        found += [f"dark: {fault}" for fault in faults(tab, runOnly=COLOURS)]
        tab.evaluate("localStorage.clear()")
        return found

    assert look(tab, all_pages, examine) == {}
