"""The data dictionary: what every column and every failure category means, in one language."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any

from collector.core.codec import column_types
from collector.core.failures import CATEGORIES
from collector.core.schema import TABLES
from collector.report import meanings_ko


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A line of the data dictionary."""

    name: str
    kind: str
    optional: bool
    unit: str
    group: str
    meaning: str
    source: str


def dictionary(language: str) -> dict[str, Any]:
    """Return what the page is rendered from: tables by group, and the categories."""
    korean = language == "ko"
    return {
        "tables": {
            name: [(group, list(members)) for group, members in groupby(_columns(name, record, korean), _group)]
            for name, record in TABLES.items()
        },
        "groups": meanings_ko.GROUPS if korean else {},
        "categories": {
            name: meanings_ko.CATEGORIES[name] if korean else meaning for name, meaning in CATEGORIES.items()
        },
    }


def _group(column: Column) -> str:
    return column.group


def _columns(table: str, record: type[Any], korean: bool) -> list[Column]:
    kinds = column_types(record)
    return [
        Column(
            name=item.name,
            kind=kinds[item.name][0].__name__,
            optional=kinds[item.name][1],
            unit=item.metadata["unit"],
            group=item.metadata["group"],
            meaning=meanings_ko.MEANINGS[table][item.name] if korean else item.metadata["meaning"],
            source=meanings_ko.SOURCES.get(source, source) if korean else source,
        )
        for item in fields(record)
        for source in [item.metadata["source"]]
    ]
