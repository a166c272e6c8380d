"""The built site as the tests see it: its pages, found on the disk, and the folder it will be published under."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "site"

#: A campaign's own article; its cells and data lie below it.
ARTICLE = re.compile(r"(en/)?campaigns/[^/]+/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """`path` is what follows the site's address: "" is the Korean home, "en/campaigns/x/" an English article."""

    path: str
    file: Path

    @property
    def language(self) -> str:
        return "en" if self.path.startswith("en/") else "ko"

    @property
    def is_article(self) -> bool:
        return ARTICLE.fullmatch(self.path) is not None

    @property
    def html(self) -> str:
        return self.file.read_text(encoding="utf-8")


def pages(site: Path = SITE) -> list[Page]:
    """Every page, with the one that the server shows for a wrong address; the English copy of that is never shown."""
    found = []
    for file in sorted(site.rglob("*.html")):
        path = file.relative_to(site).as_posix()
        if path != "en/404.html":
            found.append(Page(path=path.removesuffix("index.html"), file=file))
    return found


def folder(site: Path = SITE) -> str:
    """The path of the site's address, as "/collector/": GitHub Pages serves a repository below its name."""
    first = re.search(r"<loc>(.*?)</loc>", (site / "sitemap.xml").read_text(encoding="utf-8"))
    assert first, f"{site}/sitemap.xml names no page"
    return urlparse(first.group(1)).path


def first_article(all_pages: list[Page], language: str) -> Page:
    """Return an article with charts."""
    articles = [page for page in all_pages if page.is_article and page.language == language]
    found = [page for page in articles if "chart-figure" in page.html]
    assert found, f"no article in {language!r} has a chart"
    return found[0]
