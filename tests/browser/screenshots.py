"""Takes the pictures of README: the first screen of an article, wide and on a phone, light and dark.

python -m tests.browser.screenshots [PATH], where PATH is a page below the site's address (default: the first article
with a chart). WebP keeps them small; the same site and browser give the same pictures.
"""

from __future__ import annotations

import sys
from base64 import b64decode

from playwright.sync_api import Browser, sync_playwright

from tests.browser.built import ROOT, SITE, first_article, folder, pages
from tests.browser.conftest import browser_path
from tests.browser.server import serving

FOLDER = ROOT / "docs" / "screenshots"
SIZES = {"wide": (1440, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
QUALITY = 80


def take(browser: Browser, address: str, size: str, scheme: str) -> bytes:
    """Return the page's first screen as WebP, which Playwright itself does not write."""
    width, height = SIZES[size]
    reader = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    tab = reader.new_page()
    tab.goto(address, wait_until="networkidle")
    shot = reader.new_cdp_session(tab).send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    reader.close()
    return b64decode(shot["data"])


def main(arguments: list[str]) -> None:
    path = arguments[0] if arguments else first_article(pages(), "ko").path
    FOLDER.mkdir(parents=True, exist_ok=True)
    with serving(SITE, folder()) as served, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path())
        for size in SIZES:
            for scheme in SCHEMES:
                file = FOLDER / f"{size}-{scheme}.webp"
                file.write_bytes(take(browser, served.address + path, size, scheme))
                print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
