"""A study to its article: one long page, sections in the order of the reference, and the data of its charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from jinja2 import Environment

from collector.analysis.study import Study
from collector.report.chart import Chart
from collector.report.chart_data import csv_text, json_text
from collector.report.evidence import FILES
from collector.report.sections import SECTIONS
from collector.report.words import Words

CHARTS = f"{FILES}/charts"
#: What sections put together themselves; findings hold no charts.
HERE = "collector.report."


def article(study: Study, words: Words, environment: Environment) -> dict[str, str]:
    """Return the page as Markdown and the files of its charts, by path within the study's folder."""
    head = environment.get_template("article/head.md.j2").render(study=study)
    contexts = {name: section(study, words) for name, section in SECTIONS.items()}
    parts = [
        environment.get_template(f"article/{name}.md.j2").render(study=study, **context)
        for name, context in contexts.items()
    ]
    found = {"index.md": head + "".join(parts)}
    for chart in charts_in(contexts):
        found[f"{CHARTS}/{chart.id}.csv"] = csv_text(chart)
        found[f"{CHARTS}/{chart.id}.json"] = json_text(chart)
    return found


def charts_in(value: Any) -> Iterator[Chart]:
    """Yield every chart that a section made, wherever it put it."""
    if isinstance(value, Chart):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from charts_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from charts_in(one)
    elif is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith(HERE):
        for field in fields(value):
            yield from charts_in(getattr(value, field.name))
