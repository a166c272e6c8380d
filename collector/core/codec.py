"""CSV text to records and back: version first, then columns, then values.

A float is written with nine significant digits, so that the same numbers give the same bytes; an empty
field is None. Errors name the file, the line and the column.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from collector.core.errors import DataError, close_words
from collector.core.rows import SCHEMA_VERSION, Failure, Position, Row

Record = TypeVar("Record", Row, Failure, Position)

FLOAT_FORMAT = ".9g"
BYTE_ORDER_MARK = "\ufeff"

#: Signs of a number as it is written here; int() and float() also take blanks, underscores and other digits.
_PLAIN = re.compile(r"[-+.0-9eE]+")

#: Columns of rows.csv that version 2 brought: telemetry that nobody took before, and facts that nobody noted.
ADDED_IN_2 = (
    "power_max_w",
    "idle_power_w",
    "power_limit_w",
    "energy_per_token_j",
    "tokens_per_joule",
    "sm_clock_min_mhz",
    "gpu_memory_peak_mib",
    "gpu_samples",
    "pcie_generation_min",
    "p2p_driver",
    "image_digest",
    "nccl_p2p",
    "custom_all_reduce",
    "linear_kernel",
    "weights_load_s",
    "compile_s",
    "graph_gib",
    "model_commit",
    "drafter_commit",
)
#: Phases of failures.csv that have another name since.
_PHASES_RENAMED_IN_2 = {"load": "weights", "kv_cache": "kv_alloc"}
_CHECKS_ADDED_IN_2 = ("gpu_lost", "throttled", "link_width_changed", "foreign_gpu_process")


def _to_2(values: dict[str, str]) -> dict[str, str]:
    """Leave the new columns of a row empty, and its new checks not run; give a failure the names of its phases."""
    if "phase" in values:
        return values | {"phase": _PHASES_RENAMED_IN_2.get(values["phase"], values["phase"])}
    if "window_s" not in values:
        return values
    if values["provenance"] == "emulated":
        return values | dict.fromkeys(ADDED_IN_2, "")
    joined = values["nvlink"] and values["tensor_parallel"] != "1" and not values["nvlink_bytes"]
    checks = [*_CHECKS_ADDED_IN_2, *(("nvlink_traffic",) if joined else ())]
    not_run = " ".join([*values["checks_not_run"].split(), *checks])
    return values | dict.fromkeys(ADDED_IN_2, "") | {"checks_not_run": not_run}


#: Steps that turn a line of an older version into one of the next.
UPGRADES: dict[int, Callable[[dict[str, str]], dict[str, str]]] = {1: _to_2}


def column_types(record: type[Any]) -> dict[str, tuple[type, bool]]:
    """Return, per column in order, its type and whether it may be empty."""
    return _column_types(record.__name__)


@cache
def _column_types(record_name: str) -> dict[str, tuple[type, bool]]:
    record = {one.__name__: one for one in (Row, Failure, Position)}[record_name]
    hints = typing.get_type_hints(record)
    found: dict[str, tuple[type, bool]] = {}
    for item in fields(record):
        hint = hints[item.name]
        optional = isinstance(hint, types.UnionType)
        kind = next(one for one in typing.get_args(hint) if one is not type(None)) if optional else hint
        found[item.name] = (kind, optional)
    return found


def header(record: type[Any]) -> list[str]:
    return list(column_types(record))


def _write(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"a row may not hold {value}: an undefined figure is None")
        return format(value, FLOAT_FORMAT)
    # A bare carriage return does not survive a file that is read as text, and csv does not quote it.
    return str(value).replace("\r\n", "\n").replace("\r", "\n")


def line_of(record: Any) -> str:
    """Return one CSV line, newline included."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells_of(record).values())
    return text.getvalue()


def cells_of(record: Any) -> dict[str, str]:
    """Return column and written value, in the order of the table."""
    return {name: _write(getattr(record, name)) for name in header(type(record))}


def header_line(record: type[Any]) -> str:
    return ",".join(header(record)) + "\n"


def to_csv(record: type[Record], records: Iterable[Record]) -> str:
    return header_line(record) + "".join(line_of(one) for one in records)


def _read_value(text: str, kind: type) -> object:
    if kind is bool:
        return {"true": True, "false": False}[text]
    if kind is not str and not _PLAIN.fullmatch(text):
        raise ValueError(text)
    if kind is float:
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(text)
        return number
    return kind(text)


def check_objects(rows: Iterable[Row], name: str) -> None:
    """Hold the column that is read as JSON up to it. Raises DataError; `name` is the file as the user knows it."""
    for row in rows:
        text = row.speculative_config
        if text is not None and not _is_object(text):
            raise DataError(
                f"{name}, row {row.row_id}, column speculative_config: found {text!r}, expected a JSON object or empty"
            )


@cache
def _is_object(text: str) -> bool:
    """Whether a text is a JSON object; a campaign has few that differ."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _parse(record: type[Record], values: dict[str, str], where: str) -> Record:
    parsed: dict[str, object] = {}
    for name, (kind, optional) in column_types(record).items():
        text = values[name]
        if text == "" and (optional or kind is str):
            parsed[name] = None if optional else ""
            continue
        try:
            parsed[name] = _read_value(text, kind)
        except (ValueError, KeyError):
            expected = f"{kind.__name__}{' or empty' if optional else ''}"
            raise DataError(f"{where}, column {name}: found {text!r}, expected {expected}") from None
    return record(**parsed)  # type: ignore[arg-type]  # names and types were just checked against the record


def _check_version(values: dict[str, str], where: str) -> int:
    text = values.get("schema_version", "")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise DataError(f"{where}, column schema_version: found {text!r}, expected a whole number")
    version = int(text)
    if version > SCHEMA_VERSION:
        raise DataError(
            f"{where}: schema version {version} is newer than this collector reads ({SCHEMA_VERSION}); "
            "install the collector that wrote it, or a newer one"
        )
    if version < SCHEMA_VERSION and version not in UPGRADES:
        raise DataError(f"{where}: schema version {version} is unknown; this collector reads {SCHEMA_VERSION}")
    return version


def _check_columns(found: list[str], record: type[Any], name: str) -> None:
    expected = header(record)
    unknown = [one for one in found if one not in expected]
    missing = [one for one in expected if one not in found]
    if unknown:
        raise DataError(f"{name}, line 1: unknown column {unknown[0]!r}{close_words(unknown[0], expected)}")
    if missing:
        raise DataError(f"{name}, line 1: missing column{'s' if len(missing) > 1 else ''} {', '.join(missing)}")


def _check_header(columns: list[str], record: type[Any], name: str) -> None:
    """Check what holds for any version; without a version the columns are all there is to go by."""
    twice = next((one for one in columns if columns.count(one) > 1), None)
    if twice is not None:
        raise DataError(f"{name}, line 1: column {twice!r} stands twice")
    if "schema_version" not in columns:
        _check_columns(columns, record, name)


def from_csv(record: type[Record], text: str, name: str) -> list[Record]:
    """Read a whole file's text; `name` is the file as the user knows it. Raises DataError.

    A byte-order mark, as spreadsheets write it, is no part of the first column's name.
    """
    reader = csv.reader(io.StringIO(text.removeprefix(BYTE_ORDER_MARK)), strict=True)
    try:
        columns = next(reader, None)
        if columns is None:
            raise DataError(f"{name}: empty; expected a header line")
        _check_header(columns, record, name)
        records: list[Record] = []
        checked = False
        for cells in reader:
            where = f"{name}, line {reader.line_num}"
            if len(cells) != len(columns):
                raise DataError(f"{where}: {len(cells)} fields, expected {len(columns)}")
            values = dict(zip(columns, cells, strict=True))
            version = _check_version(values, where)
            for step in range(version, SCHEMA_VERSION):
                values = UPGRADES[step](values) | {"schema_version": str(step + 1)}
            if not checked:
                _check_columns(list(values), record, name)
                checked = True
            records.append(_parse(record, values, where))
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num}: {error}") from error
    if not checked:
        _check_columns(columns, record, name)
    return records
