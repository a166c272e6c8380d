"""Text that came from a plan, an engine or a log, made fit for a page.

What cannot be seen is made visible, and a text is kept on one line, so that it can neither end an HTML block nor
reorder or hide what stands beside it. It is escaped for HTML and for Markdown, which reads on inside a paragraph.
"""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup, escape

#: A cause is cut here; the stored log has the rest.
CAUSE_LIMIT = 500
#: Control, format (right-to-left marks, zero-width signs, soft hyphens) and surrogate characters.
UNSEEN = ("Cc", "Cf", "Cs")


#: What HTML or Markdown may take for markup: an underscore where a word begins or ends, some signs at the beginning.
_MARKUP = re.compile(r"[&<>\"'\\`*\[\]{}~|!]|\A#|\A[=+-](?=\s|\Z)|(?<![^\W_])_|_(?![^\W_])")


def escaped(text: str) -> Markup:
    """Return a text that HTML and Markdown show as it is: what either may take for markup becomes an entity."""
    return Markup(_MARKUP.sub(lambda sign: f"&#{ord(sign.group())};", text))  # noqa: S704  # escaped just here


def one_line(text: str) -> str:
    """Fold white space into single spaces and write unseen characters as ⟨U+202E⟩."""
    folded = " ".join(text.split())
    return "".join(_seen(sign) for sign in folded)


def _seen(sign: str) -> str:
    return f"⟨U+{ord(sign):04X}⟩" if unicodedata.category(sign) in UNSEEN else sign


def cut(text: str, limit: int) -> tuple[str, bool]:
    """Return at most `limit` characters of the folded text and whether any were cut off."""
    folded = " ".join(text.split())
    return (folded, False) if len(folded) <= limit else (folded[:limit].rstrip() + "…", True)


def brief(text: str) -> str:
    """Return a cause as short as a page shows it; the cells page and the log have the rest."""
    return cut(text, CAUSE_LIMIT)[0]


def preformatted(text: str) -> Markup:
    """Return a text of several lines for <pre>, as one line of HTML: a blank line would end the block."""
    lines = ["".join(_seen(sign) for sign in line.expandtabs(4)) for line in text.splitlines()]
    return Markup("&#10;").join(escape(line) for line in lines)
