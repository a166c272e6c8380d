"""The template environments: how values become text, and that none gets onto a page unescaped."""

from __future__ import annotations

from functools import cache

from jinja2 import BaseLoader, Environment, StrictUndefined

from collector.core.units import unit_name
from collector.report import figure
from collector.report.text import brief, preformatted
from collector.report.words import Words, counted_only, shown


@cache
def environment(loader: BaseLoader, language: str) -> Environment:
    """Return the environment of pages that show tables of the data as they are."""
    words = Words(language)
    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"plain": preformatted, "brief": brief} | dict(words.filters) | dict(figure.FILTERS)
    made.globals |= {
        "language": language,
        "t": words.t,
        "words": words,
        "unit": lambda unit: unit_name(unit, language),
    }
    return made


@cache
def strict_environment(loader: BaseLoader, language: str) -> Environment:
    """Return the environment of articles, which print no bare number: it must say where it is from."""
    return environment(loader, language).overlay(finalize=counted_only)
