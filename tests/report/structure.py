"""The structure of a rendered section: what Python-Markdown would break, and what both languages must share."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = frozenset({"br", "path", "img", "hr"})


class Structure(HTMLParser):
    """Ids and links of a section, its blocks with blank lines, and its text without drawings and specs."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = re.findall(r"\{: #([a-z-]+) \}", page)
        self.links: list[str] = []
        self.blank: list[tuple[str, ...]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if "svg" not in self._open and tag != "svg" and named.get("id"):
            self.ids.append(named["id"] or "")
        if named.get("href"):
            self.links.append(named["href"] or "")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        opened = self._open.pop()
        assert opened == tag, f"<{opened}> closed by </{tag}>"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_data(self, data: str) -> None:
        if self._open and re.search(r"\n[ \t]*\n", data):
            self.blank.append(tuple(self._open))
        if not {"svg", "template", "button"} & set(self._open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))
