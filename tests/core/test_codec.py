"""CSV and records: round trips, and what a file that is not ours is told."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.core import codec
from collector.core.codec import cells_of, check_objects, column_types, from_csv, header, header_line, line_of, to_csv
from collector.core.errors import DataError
from collector.core.rows import SCHEMA_VERSION, Failure, Position, Row

TABLES = [Row, Failure, Position]
every_table = pytest.mark.parametrize("record", TABLES, ids=lambda one: one.__name__)

texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ['a,"b"', "two\nlines", " ", "'", ";", "가,나"]
)
VALUES: dict[type, st.SearchStrategy[Any]] = {
    str: texts,
    int: st.integers(min_value=-(10**18), max_value=10**18),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
}


def records(record: type[Any]) -> st.SearchStrategy[Any]:
    """Return records with any value in any column, and every column that may be empty sometimes so."""
    columns = {
        name: st.none() | VALUES[kind] if optional else VALUES[kind]
        for name, (kind, optional) in column_types(record).items()
    }
    return st.builds(record, **(columns | {"schema_version": st.just(SCHEMA_VERSION)}))


def as_written(one: Any) -> Any:
    """Return a record as it comes back: nine digits, one kind of line end, no text is no value."""
    changes: dict[str, Any] = {}
    for name, (_, optional) in column_types(type(one)).items():
        value = getattr(one, name)
        if isinstance(value, float):
            changes[name] = float(format(value, ".9g"))
        elif isinstance(value, str):
            changes[name] = value.replace("\r\n", "\n").replace("\r", "\n") or (None if optional else "")
    return replace(one, **changes)


def some(record: type[Any], **changes: Any) -> Any:
    """Return a record with the same plain value in every column of a type."""
    plain = {str: "word", int: 7, float: 0.1, bool: True}
    values = {name: plain[kind] for name, (kind, _) in column_types(record).items()}
    return record(**(values | {"schema_version": SCHEMA_VERSION} | changes))


def edited(text: str, line: int, column: str, cell: str) -> str:
    """Return a CSV text with one cell replaced; lines count from 1, the header."""
    rows = list(csv.reader(io.StringIO(text)))
    rows[line - 1][rows[0].index(column)] = cell
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def told(record: type[Any], text: str) -> str:
    with pytest.raises(DataError) as caught:
        from_csv(record, text, "data/c/rows.csv")
    return str(caught.value)


# --- round trips ----------------------------------------------------------------------------------------------


@given(st.lists(records(Row), max_size=2))
@settings(max_examples=25)
def test_rows_come_back_as_they_were_written(rows: list[Row]) -> None:
    text = to_csv(Row, rows)
    back = from_csv(Row, text, "rows.csv")
    assert back == [as_written(one) for one in rows]
    assert to_csv(Row, back) == text


@given(st.lists(records(Failure), max_size=3))
def test_failures_come_back_as_they_were_written(failures: list[Failure]) -> None:
    text = to_csv(Failure, failures)
    back = from_csv(Failure, text, "failures.csv")
    assert back == [as_written(one) for one in failures]
    assert to_csv(Failure, back) == text


@given(st.lists(records(Position), max_size=4))
def test_positions_come_back_as_they_were_written(positions: list[Position]) -> None:
    text = to_csv(Position, positions)
    back = from_csv(Position, text, "positions.csv")
    assert back == [as_written(one) for one in positions]
    assert to_csv(Position, back) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_keeps_nine_digits(value: float) -> None:
    (back,) = from_csv(Position, line_with(acceptance_rate=value), "p")
    assert back.acceptance_rate == pytest.approx(value, rel=1e-8, abs=0)


def line_with(**changes: Any) -> str:
    return header_line(Position) + line_of(some(Position, **changes))


@every_table
def test_other_line_ends_are_read_too(record: type[Any]) -> None:
    """A spreadsheet on another system has saved the file."""
    text = to_csv(record, [some(record), some(record)])
    assert from_csv(record, text.replace("\n", "\r\n"), "x") == [some(record)] * 2
    assert from_csv(record, text.removesuffix("\n"), "x") == [some(record)] * 2


def test_texts_with_lines_quotes_and_commas_stay_in_their_cell() -> None:
    cause = 'ValueError: "a, b"\nsee above, "c"'
    text = to_csv(Failure, [some(Failure, cause=cause), some(Failure)])
    assert [one.cause for one in from_csv(Failure, text, "f")] == [cause, "word"]
    assert text.count("\n") == 4


def test_a_carriage_return_becomes_a_line_end() -> None:
    """Engines write them, and a file that is read as text would lose them anyhow."""
    text = to_csv(Failure, [some(Failure, cause="a\r\nb\rc\r")])
    assert "\r" not in text
    assert from_csv(Failure, text, "f")[0].cause == "a\nb\nc\n"


@every_table
def test_what_may_be_empty_is_written_as_nothing(record: type[Any]) -> None:
    empty = {name: None for name, (_, optional) in column_types(record).items() if optional}
    cells = cells_of(some(record, **empty))
    assert {cells[name] for name in empty} == {""}
    (back,) = from_csv(record, to_csv(record, [some(record, **empty)]), "x")
    assert all(getattr(back, name) is None for name in empty)


def test_zero_false_and_nothing_are_three_different_things() -> None:
    nothing = cells_of(some(Failure, exit_code=None, alive_s=None, oom_killed=None))
    assert {nothing[name] for name in ("exit_code", "alive_s", "oom_killed")} == {""}
    assert cells_of(some(Failure, exit_code=0, alive_s=0.0, oom_killed=False)) == {
        **cells_of(some(Failure)),
        "exit_code": "0",
        "alive_s": "0",
        "oom_killed": "false",
    }
    (back,) = from_csv(Failure, to_csv(Failure, [some(Failure, exit_code=0, alive_s=0.0, oom_killed=False)]), "f")
    assert (back.exit_code, back.alive_s, back.oom_killed) == (0, 0.0, False)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_figure_that_is_no_number_is_never_written(value: float) -> None:
    with pytest.raises(ValueError, match="an undefined figure is None"):
        line_of(some(Position, acceptance_rate=value))


@every_table
def test_columns_are_the_fields_in_their_order(record: type[Any]) -> None:
    assert header(record) == [item.name for item in fields(record)]
    assert header_line(record) == ",".join(header(record)) + "\n"
    assert list(cells_of(some(record))) == header(record)
    assert to_csv(record, []) == header_line(record)
    assert from_csv(record, header_line(record), "x") == []


def test_the_columns_of_a_file_may_stand_in_any_order() -> None:
    rows = [row[::-1] for row in csv.reader(io.StringIO(to_csv(Position, [some(Position)])))]
    text = "".join(",".join(row) + "\n" for row in rows)
    assert from_csv(Position, text, "p") == [some(Position)]


# --- other files ----------------------------------------------------------------------------------------------


def test_a_newer_version_is_refused_before_its_columns() -> None:
    text = edited(to_csv(Row, [some(Row)]), 2, "schema_version", "3").replace("campaign,", "campaign_name,")
    assert told(Row, text) == (
        "data/c/rows.csv, line 2: schema version 3 is newer than this collector reads (2); "
        "install the collector that wrote it, or a newer one"
    )


def test_an_older_version_that_never_was_is_refused() -> None:
    text = edited(to_csv(Row, [some(Row)]), 2, "schema_version", "0")
    assert told(Row, text) == "data/c/rows.csv, line 2: schema version 0 is unknown; this collector reads 2"


@pytest.mark.parametrize("version", ["", "one", "1.0", "-1", "²", "١", "9" * 5000])
def test_a_version_that_is_no_number_is_refused(version: str) -> None:
    text = edited(to_csv(Row, [some(Row), some(Row)]), 3, "schema_version", version)
    where = "data/c/rows.csv, line 3, column schema_version"
    assert told(Row, text) == f"{where}: found {version!r}, expected a whole number"


def test_an_older_version_is_read_through_its_named_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the next version will do it: the old name of a column, and a column that was not there yet."""
    old = to_csv(Position, [some(Position)]).replace("accepted_tokens", "accepted")

    def rename(line: dict[str, str]) -> dict[str, str]:
        return {{"accepted": "accepted_tokens"}.get(name, name): value for name, value in line.items()}

    monkeypatch.setattr(codec, "SCHEMA_VERSION", 3)
    monkeypatch.setitem(codec.UPGRADES, 2, rename)
    assert from_csv(Position, old, "p") == [some(Position, schema_version=3)]


def test_a_row_of_version_1_gets_the_columns_of_version_2_empty() -> None:
    """Its new checks could not run; a failure's phase has its new name."""
    names = codec.ADDED_IN_2
    cells = {name: cell for name, cell in cells_of(some(Row)).items() if name not in names} | {"schema_version": "1"}
    old = ",".join(cells) + "\n" + ",".join(cells.values()) + "\n"
    not_run = "word gpu_lost throttled link_width_changed foreign_gpu_process"
    assert from_csv(Row, old, "r") == [some(Row, checks_not_run=not_run, **dict.fromkeys(names))]
    emulated = old.replace(",".join(cells.values()), ",".join((cells | {"provenance": "emulated"}).values()))
    assert [one.checks_not_run for one in from_csv(Row, emulated, "r")] == ["word"]
    position = edited(to_csv(Position, [some(Position)]), 2, "schema_version", "1")
    assert from_csv(Position, position, "p") == [some(Position)]
    failure = edited(edited(to_csv(Failure, [some(Failure)]), 2, "schema_version", "1"), 2, "phase", "kv_cache")
    assert from_csv(Failure, failure, "f") == [some(Failure, phase="kv_alloc")]


def test_an_unknown_column_is_named_with_the_nearest_known() -> None:
    text = to_csv(Position, [some(Position)]).replace("position,", "postion,", 1)
    assert told(Position, text) == ("data/c/rows.csv, line 1: unknown column 'postion'; did you mean 'position'?")


@pytest.mark.parametrize("text", ["{nope", "[1]", "mtp"])
def test_a_speculative_config_is_an_object(text: str) -> None:
    with pytest.raises(DataError, match=r"x, row \S+, column speculative_config: .* expected a JSON object or empty"):
        check_objects([replace(some(Row), speculative_config=text)], "x")
    check_objects([replace(some(Row), speculative_config=good) for good in (None, "{}")], "x")


def test_a_spreadsheet_s_byte_order_mark_is_no_part_of_a_column_s_name() -> None:
    text = "\ufeff" + to_csv(Position, [some(Position)])
    assert from_csv(Position, text, "x") == [some(Position)]


@pytest.mark.parametrize("rows", [0, 1])
def test_missing_columns_are_named(rows: int) -> None:
    lines = list(csv.reader(io.StringIO(to_csv(Position, [some(Position)] * rows))))
    text = "".join(",".join(line[:-2]) + "\n" for line in lines)
    assert told(Position, text) == "data/c/rows.csv, line 1: missing columns acceptance_rate, conditional_rate"
    text = "".join(",".join(line[1:]) + "\n" for line in lines)
    assert told(Position, text) == "data/c/rows.csv, line 1: missing column schema_version"


@pytest.mark.parametrize("rows", [0, 1])
def test_a_column_that_stands_twice_is_named(rows: int) -> None:
    lines = list(csv.reader(io.StringIO(to_csv(Position, [some(Position)] * rows))))
    text = "".join(",".join([*line, line[4]]) + "\n" for line in lines)
    assert told(Position, text) == "data/c/rows.csv, line 1: column 'position' stands twice"


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ("concurrency", "many", "int"),
        ("concurrency", "", "int"),
        ("concurrency", "1.0", "int"),
        ("concurrency", "1_0", "int"),
        ("concurrency", " 1", "int"),
        ("concurrency", "١", "int"),
        ("concurrency", "9" * 5000, "int"),
        ("preemptions", "-", "int or empty"),
        ("window_s", "", "float"),
        ("ttft_mean_s", "fast", "float or empty"),
        ("ttft_mean_s", "nan", "float or empty"),
        ("ttft_mean_s", "inf", "float or empty"),
        ("ttft_mean_s", "1e999", "float or empty"),
        ("ttft_mean_s", "1_0.5", "float or empty"),
        ("ttft_mean_s", "0,5", "float or empty"),
    ],
)
def test_a_wrong_value_is_told_by_file_line_and_column(column: str, cell: str, expected: str) -> None:
    text = edited(to_csv(Row, [some(Row), some(Row)]), 3, column, cell)
    where = f"data/c/rows.csv, line 3, column {column}"
    assert told(Row, text) == f"{where}: found {cell!r}, expected {expected}"


@pytest.mark.parametrize("cell", ["True", "yes", "1", ""])
def test_a_truth_value_is_true_or_false(cell: str) -> None:
    text = edited(to_csv(Failure, [some(Failure)]), 2, "retryable", cell)
    where = "data/c/rows.csv, line 2, column retryable"
    assert told(Failure, text) == f"{where}: found {cell!r}, expected bool"


def test_lines_are_counted_as_an_editor_counts_them() -> None:
    """A cell of three lines comes before; the record that is wrong ends in line 6."""
    text = to_csv(Failure, [some(Failure, cause="a\nb\nc"), some(Failure), some(Failure)])
    broken = "\n".join([*text.split("\n")[:5], text.split("\n")[5].replace("true", "maybe"), ""])
    assert told(Failure, broken).startswith("data/c/rows.csv, line 6, column oom_killed: found 'maybe'")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: "", "data/c/rows.csv: empty; expected a header line"),
        (lambda text: text + "1,word\n", "data/c/rows.csv, line 3: 2 fields, expected 9"),
        (lambda text: text.replace("7,0.1", "7,0.1,", 1), "data/c/rows.csv, line 2: 10 fields, expected 9"),
        (lambda text: text + "\n", "data/c/rows.csv, line 3: 0 fields, expected 9"),
        (lambda text: text + '1,"word', "data/c/rows.csv, line 3: unexpected end of data"),
        (lambda text: text + '1,"wo"rd,', "data/c/rows.csv, line 3: ',' expected after '\"'"),
    ],
)
def test_a_damaged_file_is_told_where(damage: Any, message: str) -> None:
    assert told(Position, damage(to_csv(Position, [some(Position)]))) == message


def test_line_ends_of_the_nineties_are_refused_rather_than_misread() -> None:
    text = to_csv(Position, [some(Position)]).replace("\n", "\r")
    assert told(Position, text).startswith("data/c/rows.csv, line 1: new-line character seen in unquoted field")


@given(st.text(max_size=80))
def test_any_text_is_a_table_or_a_data_error(text: str) -> None:
    try:
        from_csv(Position, text, "p.csv")
    except DataError as error:
        told_where = str(error)
        assert told_where.startswith("p.csv")


@given(st.integers(0, 400), st.text(',"\n\r01 x', max_size=3))
def test_any_damage_to_a_table_is_survived_or_named(at: int, inserted: str) -> None:
    text = to_csv(Position, [some(Position)] * 3)
    try:
        from_csv(Position, text[:at] + inserted + text[at + 2 :], "p.csv")
    except DataError as error:
        told_where = str(error)
        assert told_where.startswith("p.csv")
