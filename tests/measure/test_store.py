"""A campaign's folder after a crash of the machine: torn lines go, committed rows stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.core.codec import ADDED_IN_2, ADDED_IN_3, header_line
from collector.core.errors import DataError, UserError
from collector.core.plan import parse_plan
from collector.core.rows import Failure, Position, Row
from collector.measure.campaign import read_tables
from collector.measure.files import append_durably, without_torn_tail, write_atomically
from collector.measure.host import Host
from collector.measure.store import open_store
from tests.measure.sweeping import PLAN, Bench

HOST = Host(host_id="abcd1234", cpu_model=None, cpu_count=2, memory_gib=1.0, kernel="Linux", python="3.11")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("measured"))
    bench.sweep()
    assert len(bench.rows()) == 4
    return bench


def _copy(measured: Bench, data: Path, **changed: str) -> Path:
    folder = data / "small"
    folder.mkdir(parents=True)
    for name in ("rows.csv", "positions.csv", "failures.csv", "plan.yaml"):
        (folder / name).write_text(changed.get(name.removesuffix(".csv"), (measured.campaign / name).read_text()))
    return folder


def test_a_row_cut_short_anywhere_is_dropped_and_the_others_stay(measured: Bench, tmp_path: Path) -> None:
    text = (measured.campaign / "rows.csv").read_text()
    start = text.rstrip("\n").rfind("\n") + 1
    for cut in range(start, len(text), 37):
        folder = _copy(measured, tmp_path / str(cut), rows=text[:cut])
        with open_store(folder.parent, parse_plan(PLAN, "plan"), PLAN, HOST, "process") as store:
            assert [row.row_id for row in store.rows] == [row["row_id"] for row in measured.rows()[:3]]
        assert (folder / "rows.csv").read_text() == text[:start]


def test_positions_without_their_row_are_dropped(measured: Bench, tmp_path: Path) -> None:
    text = (measured.campaign / "rows.csv").read_text()
    without_last = text[: text.rstrip("\n").rfind("\n") + 1]
    last = measured.rows()[-1]["row_id"]
    folder = _copy(measured, tmp_path / "data", rows=without_last)
    assert last in (folder / "positions.csv").read_text()
    with open_store(folder.parent, parse_plan(PLAN, "plan"), PLAN, HOST, "process"):
        pass
    assert last not in (folder / "positions.csv").read_text()


def test_what_a_spreadsheet_saved_is_read_and_written_anew_before_a_line_is_added(
    measured: Bench, tmp_path: Path
) -> None:
    text = (measured.campaign / "rows.csv").read_text()
    folder = _copy(measured, tmp_path / "data")
    for name in ("rows.csv", "positions.csv", "failures.csv"):
        plain = (folder / name).read_bytes()
        (folder / name).write_bytes(b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n"))
    assert len(read_tables(folder)[0]) == 4
    with open_store(folder.parent, parse_plan(PLAN, "plan"), PLAN, HOST, "process") as store:
        assert len(store.rows) == 4
    assert (folder / "rows.csv").read_bytes() == text.encode()


def test_a_table_with_bare_carriage_returns_is_refused_and_loses_nothing(measured: Bench, tmp_path: Path) -> None:
    folder = _copy(measured, tmp_path / "data")
    old = (folder / "rows.csv").read_bytes().replace(b"\n", b"\r")
    (folder / "rows.csv").write_bytes(old)
    with (
        pytest.raises(DataError, match=r"rows\.csv: its lines end with a bare carriage return"),
        open_store(folder.parent, parse_plan(PLAN, "plan"), PLAN, HOST, "process"),
    ):
        pass
    assert (folder / "rows.csv").read_bytes() == old


def test_a_damaged_line_in_the_middle_is_an_error_that_names_it_and_loses_nothing(
    measured: Bench, tmp_path: Path
) -> None:
    lines = (measured.campaign / "rows.csv").read_text().splitlines(keepends=True)
    broken = "".join([lines[0], lines[1][:200] + "\n", *lines[2:]])
    folder = _copy(measured, tmp_path / "data", rows=broken)
    with (
        pytest.raises(DataError, match=r"rows\.csv, line 2: \d+ fields, expected \d+"),
        open_store(folder.parent, parse_plan(PLAN, "plan"), PLAN, HOST, "process"),
    ):
        pass
    assert (folder / "rows.csv").read_text() == broken


def test_a_new_campaign_has_all_three_tables_with_their_headers(tmp_path: Path) -> None:
    with open_store(tmp_path, parse_plan(PLAN, "plan"), PLAN, HOST, "process") as store:
        for name, record in (("rows", Row), ("failures", Failure), ("positions", Position)):
            assert (store.folder / f"{name}.csv").read_text() == header_line(record)


def test_a_table_of_version_1_is_written_anew_before_a_line_is_added(measured: Bench, tmp_path: Path) -> None:
    """Lines of two versions under one header would be torn."""
    added = (*ADDED_IN_2, *ADDED_IN_3)
    old = [{name: cell for name, cell in row.items() if name not in added} for row in measured.rows()]
    not_run = {"schema_version": "1", "checks_not_run": ""}
    rows = "".join(",".join(map(quoted, line)) + "\n" for line in (old[0], *((one | not_run).values() for one in old)))
    positions = (measured.campaign / "positions.csv").read_text()
    folder = _copy(measured, tmp_path / "data", rows=rows, positions=positions.replace("\n3,", "\n1,"))
    with open_store(folder.parent, parse_plan(PLAN, "plan"), PLAN, HOST, "process"):
        pass
    new = [row | dict.fromkeys(added, "") for row in measured.rows()]  # what an older row did not say stays unsaid
    assert (folder / "rows.csv").read_text() == "".join(
        ",".join(map(quoted, line)) + "\n" for line in (new[0], *(one.values() for one in new))
    )
    assert (folder / "positions.csv").read_text() == positions


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if '"' in cell or "," in cell else cell


def test_one_folder_is_open_once(tmp_path: Path) -> None:
    plan = parse_plan(PLAN, "plan")
    with (
        open_store(tmp_path, plan, PLAN, HOST, "process"),
        pytest.raises(UserError, match="another sweep is running there"),
        open_store(tmp_path, plan, PLAN, HOST, "process"),
    ):
        pass
    with open_store(tmp_path, plan, PLAN, HOST, "process"):
        pass


def test_a_file_is_replaced_as_a_whole_and_a_line_appended_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"one\n")
    append_durably(path, "two\n")
    assert path.read_text() == "one\ntwo\n"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert without_torn_tail(b"one\ntw") == b"one\n"
    assert without_torn_tail(b"tw") == b""
