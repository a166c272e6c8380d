"""What a careful reader does with a page and notes about it, so that each page is opened once for many tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, expect
from playwright.sync_api import Page as Tab

from tests.browser.built import Page
from tests.browser.server import Served

DESKTOP = (1440, 900)
#: The narrowest phone in common use, in CSS pixels.
PHONE = (360, 740)

#: Opens everything that is folded.
OPEN_DETAILS = "document.querySelectorAll('details').forEach(one => { one.open = true })"

#: The button that goes from light to dark or back.
THEME = "label[for^=__palette]:visible"

#: Headers of tables meant to sort that are no buttons.
UNSORTABLE = """() => [...document.querySelectorAll('[data-sortable] thead tr:last-child th, th.sort')]
  .filter(one => !one.querySelector('button')).map(one => `cannot sort by ${one.textContent}`)"""

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

#: Axe takes milliseconds an element. What differs in text, addresses and numbers alone looks alike to it, so the first
#: of each kind stands for all: of lines for the rules on structure, of every small part for those on colours.
LINES = "tbody tr, li, dl > div"
PARTS = LINES + ", p, a, code, data, span, td, .chart text, .chart path"
DROP_LIKE = """(parts) => {
  const seen = new Set();
  const look = one => ['class', 'style'].reduce((all, name) => `${all} ${one.getAttribute(name)}`, one.localName);
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

GRAVE = ("serious", "critical")
QUICK = {"resultTypes": ["violations"], "selectors": False, "elementRef": False}
COLOURS = ["color-contrast", "link-in-text-block"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """What was wrong with a page; all empty on a good one."""

    errors: list[str]  # in the console, answers, requests to other hosts
    unsortable: list[str]
    wide: list[str]  # wider than a phone
    faults: list[str]  # axe's grave ones


@contextmanager
def reader(browser: Browser, served: Served, **options: Any) -> Iterator[BrowserContext]:
    """A reader with a desktop, a light screen and no history; addresses are relative to the site."""
    width, height = DESKTOP
    context = browser.new_context(
        base_url=served.address, viewport={"width": width, "height": height}, reduced_motion="reduce", **options
    )
    yield context
    context.close()


def visit_all(browser: Browser, served: Served, pages: list[Page]) -> dict[str, Visit]:
    """Read every page; the key is its path."""
    with reader(browser, served) as context:
        errors = listen(context, served.address)
        tab = context.new_page()
        return {page.path: visit(tab, page, errors) for page in pages}


def listen(context: BrowserContext, address: str) -> list[str]:
    """Return a list that grows by what goes wrong in any tab of the context."""
    errors: list[str] = []
    context.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((address, "data:", "blob:"))
            else errors.append(f"asks another host: {request.url}")
        ),
    )
    context.on(
        "response",
        lambda response: errors.append(f"{response.status}: {response.url}") if response.status >= 400 else None,
    )
    context.on(
        "console",
        lambda message: (
            errors.append(f"{message.type}: {message.text}") if message.type in {"error", "warning"} else None
        ),
    )
    context.on("weberror", lambda error: errors.append(f"exception: {error.error}"))
    return errors


def visit(tab: Tab, page: Page, errors: list[str]) -> Visit:
    """Open a page and look at it on desktop and phone, in light and dark; `errors` is emptied into the notes."""
    tab.goto(page.path)
    tab.wait_for_selector("html.js")
    unsortable = tab.evaluate(UNSORTABLE)
    tab.evaluate(OPEN_DETAILS)
    resize(tab, PHONE)
    wide = tab.evaluate(WIDER_THAN_SCREEN)
    resize(tab, DESKTOP)
    found = look_for_faults(tab, page.language)
    seen = errors.copy()
    errors.clear()
    return Visit(errors=seen, unsortable=unsortable, wide=wide, faults=found)


def look_for_faults(tab: Tab, language: str) -> list[str]:
    """Return axe's faults. Colours do not depend on the language: those of Korean pages are looked at, in light and
    dark. The page is thinned out for it."""
    tab.evaluate(DROP_LIKE, LINES)
    found = faults(tab, rules={name: {"enabled": False} for name in COLOURS})
    if language == "ko":
        tab.evaluate(DROP_LIKE, PARTS)
        expect(tab.locator("body")).to_have_attribute("data-md-color-scheme", "default")
        found += faults(tab, runOnly=COLOURS)
        tab.click(THEME)
        expect(tab.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
        found += [f"dark: {fault}" for fault in faults(tab, runOnly=COLOURS)]
        tab.evaluate("localStorage.clear()")
    return found


def faults(tab: Tab, part: str | None = None, **options: Any) -> list[str]:
    """Return what axe finds on the open page, or in the parts of it that a selector names: rule and elements."""
    violations = Axe().run(tab, context=part, options=QUICK | options).response["violations"]
    return [
        f"{one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in violations
        if one["impact"] in GRAVE
    ]


def resize(tab: Tab, size: tuple[int, int]) -> None:
    width, height = size
    tab.set_viewport_size({"width": width, "height": height})
