"""The descriptor of a campaign, judged by the public validator, and the table that it is made from."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from frictionless import Package

from collector.core.codec import cells_of, column_types, to_csv
from collector.core.rows import SCHEMA_VERSION, Failure, Position, Row
from collector.core.schema import TABLES, data_package, table_fields

PLAIN = {str: "word", int: 7, float: 0.25, bool: True}

every_table = pytest.mark.parametrize("record", TABLES.values(), ids=TABLES)


def some(record: type[Any], **changes: Any) -> Any:
    values = {name: PLAIN[kind] for name, (kind, _) in column_types(record).items()}
    return record(**(values | {"schema_version": SCHEMA_VERSION} | changes))


def sparse(record: type[Any], **changes: Any) -> Any:
    """Return a record with every field empty that may be."""
    empty = {name: None for name, (_, optional) in column_types(record).items() if optional}
    return some(record, **(empty | changes))


def one_empty_each(record: type[Any], key: str) -> list[Any]:
    """Return records each of which lacks one value that may be missing."""
    optional = [name for name, (_, optional) in column_types(record).items() if optional]
    return [some(record, **{key: f"id-{name}", name: None}) for name in optional if name != key]


def campaign(folder: Path, **texts: str) -> Path:
    """Write a campaign's tables and descriptor; `texts` replaces whole tables."""
    rows = [
        some(Row),
        sparse(Row, row_id="sparse", checks="token_mismatch late_counters"),
        *one_empty_each(Row, "row_id"),
    ]
    failures = [
        some(Failure),
        sparse(Failure, failure_id="sparse", cause='ValueError: "a"\nand more, 한국어', retryable=False),
        *one_empty_each(Failure, "failure_id"),
    ]
    positions = [some(Position), sparse(Position, row_id="sparse"), some(Position, position=8, accepted_tokens=0)]
    tables = {
        "rows": to_csv(Row, rows),
        "failures": to_csv(Failure, failures),
        "positions": to_csv(Position, positions),
    }
    for name, text in (tables | texts).items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8", newline="")
    package = folder / "datapackage.json"
    package.write_text(json.dumps(data_package("a-campaign", "Is it read?"), ensure_ascii=False), encoding="utf-8")
    return package


def errors(package: Path) -> list[tuple[str, str, int | None]]:
    """Return the public validator's findings: kind, field and line."""
    report = Package(str(package)).validate()
    found = [error for task in report.tasks for error in task.errors] + report.errors
    return [(error.type, getattr(error, "field_name", ""), getattr(error, "row_number", None)) for error in found]


def test_a_campaign_with_all_kinds_of_empty_fields_is_valid(tmp_path: Path) -> None:
    assert errors(campaign(tmp_path)) == []


@every_table
def test_a_campaign_without_lines_is_valid(tmp_path: Path, record: type[Any]) -> None:
    name = next(name for name, one in TABLES.items() if one is record)
    assert errors(campaign(tmp_path, **{name: to_csv(record, [])})) == []


@pytest.mark.parametrize(
    ("table", "column", "cell", "kind"),
    [
        ("rows", "concurrency", "many", "type-error"),
        ("rows", "concurrency", "", "constraint-error"),
        ("rows", "window_s", "", "constraint-error"),
        ("rows", "ttft_mean_s", "fast", "type-error"),
        ("rows", "generation_tokens", "1.5", "type-error"),
        ("failures", "retryable", "maybe", "type-error"),
        ("failures", "alive_s", "long", "type-error"),
        ("positions", "accepted_tokens", "x", "type-error"),
    ],
)
def test_a_broken_value_is_found(tmp_path: Path, table: str, column: str, cell: str, kind: str) -> None:
    record = TABLES[table]
    cells = cells_of(some(record)) | {column: cell}
    package = campaign(tmp_path, **{table: to_csv(record, []) + ",".join(cells.values()) + "\n"})
    assert errors(package) == [(kind, column, 2)]


def test_a_row_that_stands_twice_is_found(tmp_path: Path) -> None:
    package = campaign(tmp_path, rows=to_csv(Row, [some(Row), some(Row, concurrency=8)]))
    assert [kind for kind, _, _ in errors(package)] == ["primary-key"]


def test_a_column_that_is_missing_is_found(tmp_path: Path) -> None:
    lines = to_csv(Position, [some(Position)]).splitlines()
    package = campaign(tmp_path, positions="".join(line.rsplit(",", 1)[0] + "\n" for line in lines))
    assert "missing-label" in [kind for kind, _, _ in errors(package)]


def test_a_campaign_without_a_question_and_with_dots_in_its_name_is_valid(tmp_path: Path) -> None:
    package = campaign(tmp_path)
    package.write_text(json.dumps(data_package("2026.08-dual-3090", "")), encoding="utf-8")
    assert errors(package) == []


def test_the_descriptor_says_what_the_campaign_asks_and_its_version() -> None:
    package = data_package("c", "Why?")
    assert (package["name"], package["description"], package["schema_version"]) == ("c", "Why?", SCHEMA_VERSION)
    assert [one["path"] for one in package["resources"]] == ["rows.csv", "failures.csv", "positions.csv"]
    assert json.loads(json.dumps(package)) == package


# --- the table itself -----------------------------------------------------------------------------------------

#: Columns of numbers without a unit: ordinals, codes and plain fractions of one.
ORDINALS = {"schema_version", "repeat", "attempt", "position", "exit_code", "exit_signal", "pcie_generation_min"}
FRACTIONS = {
    "acceptance_rate",
    "conditional_rate",
    "drafted_step_share",
    "kv_usage_peak",
    "prefix_hit_rate",
    "occupancy",
    "gpu_utilisation_mean",
}
#: Endings of names that promise a unit.
SUFFIXES = {
    "_tok_s": "tok/s",
    "_s": "s",
    "_j": "J",
    "_w": "W",
    "_gib": "GiB",
    "_mhz": "MHz",
    "_c": "°C",
    "_bytes": "bytes",
    "_tokens": "tokens",
}


@every_table
def test_every_column_has_a_meaning_and_a_group(record: type[Any]) -> None:
    for item in fields(record):
        assert set(item.metadata) == {"group", "unit", "meaning", "source"}
        assert len(item.metadata["meaning"]) > 5, item.name
        assert item.metadata["group"], item.name


@every_table
def test_every_number_has_a_unit_or_is_a_fraction_or_an_ordinal(record: type[Any]) -> None:
    for item in fields(record):
        kind, _ = column_types(record)[item.name]
        unit = item.metadata["unit"]
        if kind in (str, bool):
            assert unit == "", item.name
        else:
            assert (unit == "") == (item.name in ORDINALS | FRACTIONS), item.name
        assert kind is float or item.name not in FRACTIONS


@every_table
def test_a_unit_in_a_name_is_the_unit_of_the_column(record: type[Any]) -> None:
    for item in fields(record):
        kind, _ = column_types(record)[item.name]
        ending = next((end for end in SUFFIXES if item.name.endswith(end)), None)
        if ending and kind in (int, float):
            assert item.metadata["unit"] == SUFFIXES[ending], item.name


@every_table
def test_the_descriptor_carries_unit_group_and_source(record: type[Any]) -> None:
    described = {one["name"]: one for one in table_fields(record)}
    assert list(described) == [item.name for item in fields(record)]
    for item in fields(record):
        one = described[item.name]
        for key, told in (("unit", "unit"), ("source", "source"), ("group", "group"), ("meaning", "description")):
            assert one.get(told, "") == item.metadata[key]


def test_groups_stand_together() -> None:
    """So that a table by groups needs no sorting."""
    for record in (Row,):
        groups = [item.metadata["group"] for item in fields(record)]
        firsts = [group for index, group in enumerate(groups) if index == 0 or groups[index - 1] != group]
        assert len(firsts) == len(set(firsts))


def test_the_names_that_others_rely_on_are_there() -> None:
    rows = (
        "campaign row_id configuration_id repeat provenance series model kv_cache_dtype speculation "
        "num_speculative_tokens nvlink attention_backend engine_version concurrency requests prompt_set window_s "
        "generation_tokens system_throughput_tok_s request_decode_rate_tok_s ttft_mean_s tpot_mean_s step_time_mean_s "
        "tokens_per_step acceptance_rate accepted_per_forward drafts draft_tokens accepted_tokens preemptions "
        "kv_cache_tokens kv_usage_peak nvlink_bytes energy_j checks"
    )
    failures = (
        "configuration_id series model kv_cache_dtype speculation num_speculative_tokens nvlink category phase cause "
        "exit_code log"
    )
    assert set(rows.split()) <= column_types(Row).keys()
    assert set(failures.split()) <= column_types(Failure).keys()
    assert {"row_id", "position", "accepted_tokens", "drafts"} <= column_types(Position).keys()


def test_tables_that_are_joined_share_the_type_of_their_keys() -> None:
    for name in ("campaign", "row_id", "configuration_id"):
        assert column_types(Position)[name] == column_types(Row)[name] == (str, False)
    for name in ("model", "series", "kv_cache_dtype", "speculation", "num_speculative_tokens", "nvlink"):
        assert column_types(Failure)[name] == column_types(Row)[name]
