"""The descriptor of a campaign: a Frictionless data package, made from the records of rows.py."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from collector.core.codec import column_types
from collector.core.rows import SCHEMA_VERSION, Failure, Position, Row

TABLES: dict[str, type[Any]] = {"rows": Row, "failures": Failure, "positions": Position}

_PRIMARY_KEYS: dict[str, list[str]] = {
    "rows": ["campaign", "row_id"],
    "failures": ["campaign", "failure_id"],
    "positions": ["campaign", "row_id", "position"],
}
_FRICTIONLESS_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def table_fields(record: type[Any]) -> list[dict[str, Any]]:
    """Return the Table Schema fields of a record, each with unit, group and source series."""
    kinds = column_types(record)
    found = []
    for item in fields(record):
        kind, optional = kinds[item.name]
        described: dict[str, Any] = {
            "name": item.name,
            "type": _FRICTIONLESS_TYPES[kind],
            "description": item.metadata["meaning"],
            "group": item.metadata["group"],
        }
        described |= {key: item.metadata[key] for key in ("unit", "source") if item.metadata[key]}
        if kind is bool:
            described |= {"trueValues": ["true"], "falseValues": ["false"]}
        if not optional and kind is not str:
            described["constraints"] = {"required": True}
        found.append(described)
    return found


def data_package(campaign: str, about: str) -> dict[str, Any]:
    """Return datapackage.json of a campaign."""
    return {
        "profile": "tabular-data-package",
        "name": campaign,
        "description": about,
        "schema_version": SCHEMA_VERSION,
        "resources": [
            {
                "name": name,
                "path": f"{name}.csv",
                "profile": "tabular-data-resource",
                "format": "csv",
                "mediatype": "text/csv",
                "encoding": "utf-8",
                "schema": {
                    "fields": table_fields(record),
                    "missingValues": [""],
                    "primaryKey": _PRIMARY_KEYS[name],
                },
            }
            for name, record in TABLES.items()
        ],
    }
