"""What prompt sets are called on a page."""

from __future__ import annotations

from markupsafe import Markup

from collector.report.words import Words

_NAMES = {
    "synthetic": ("합성", "synthetic"),
    "general": ("일반 전체", "general, pooled"),
    "general/english": ("영어", "English"),
    "general/code": ("코드", "code"),
    "general/reasoning": ("추론", "reasoning"),
    "general/korean": ("한국어", "Korean"),
}


def prompt_word(words: Words, prompt_set: str) -> Markup:
    """Return the name of a prompt set in a page's language; an unknown one keeps its own."""
    if prompt_set in _NAMES:
        return words.t(*_NAMES[prompt_set])
    return words.name(prompt_set)
