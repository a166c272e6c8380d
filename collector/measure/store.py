"""A campaign's folder: opened and proved writable before the first engine, appended to after each stage.

A row is committed by its line in rows.csv; evidence and positions are on the disk before it, and what a
crash left of them without a row is removed when the campaign is opened again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from collector.core.codec import from_csv, header_line, line_of, to_csv
from collector.core.configuration import Plan, plan_digest
from collector.core.errors import DataError, UserError
from collector.core.rows import Failure, Position, Row
from collector.core.schema import data_package
from collector.measure.files import append_durably, sync_folder, without_torn_tail, write_atomically
from collector.measure.host import Host

NEWLINE = b"\n"

Record = TypeVar("Record", Row, Failure, Position)


@dataclass(kw_only=True, slots=True)
class Store:
    """The records of a campaign in memory and on the disk."""

    folder: Path
    rows: list[Row] = field(default_factory=list)
    row_ids: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)

    @property
    def raw(self) -> Path:
        return self.folder / "raw"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def replaced(self) -> Path:
        """Rows that were measured once more: a folder for each, with its lines and its evidence."""
        return self.folder / "replaced"

    def append_row(self, row: Row, positions: tuple[Position, ...]) -> None:
        if positions:
            append_durably(self.folder / "positions.csv", "".join(map(line_of, positions)))
        append_durably(self.folder / "rows.csv", line_of(row))
        self.rows.append(row)
        self.row_ids.add(row.row_id)

    def refuse_other(self, provenance: str) -> None:
        """Raise UserError where there are rows of another provenance than a sweep's."""
        _refuse_mixed(self.folder, self.rows, provenance)

    def append_failure(self, failure: Failure) -> None:
        """Append a failure; one that is there already was written just before a crash."""
        if any(one.failure_id == failure.failure_id for one in self.failures):
            return
        append_durably(self.folder / "failures.csv", line_of(failure))
        self.failures.append(failure)

    def replace(self, rows: Sequence[Row]) -> None:
        """Take rows out of the tables, so that their cells are measured again. They are kept, whole, before that."""
        gone = {row.row_id for row in rows}
        positions = _records(self.folder, Position)
        for row in rows:
            kept = self.replaced / f"{row.row_id}-{row.measured_at.replace(':', '')}"
            kept.mkdir(parents=True, exist_ok=True)
            write_atomically(kept / "rows.csv", to_csv(Row, [row]).encode())
            own = [one for one in positions if one.row_id == row.row_id]
            write_atomically(kept / "positions.csv", to_csv(Position, own).encode())
            for path in self.raw.glob(f"{row.row_id}-*"):
                write_atomically(kept / path.name, path.read_bytes())
        self.rows = [row for row in self.rows if row.row_id not in gone]
        self.row_ids -= gone
        write_atomically(self.folder / "rows.csv", to_csv(Row, self.rows).encode())
        _settle_positions(self.folder, self.row_ids)
        _settle_raw(self.raw, self.row_ids)


@contextlib.contextmanager
def open_store(data: Path, plan: Plan, plan_text: str, host: Host, kind_name: str) -> Iterator[Store]:
    """Open or make the campaign's folder for one sweep alone. Raises UserError where that cannot be."""
    folder = data / plan.campaign
    try:
        for one in (folder, folder / "raw", folder / "logs"):
            one.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("a")
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}; choose another folder with --out") from error
    with lock:
        _lock(lock.fileno(), folder)
        try:
            _settle_kind(folder, kind_name)
            _settle_plan(folder, plan, plan_text)
            _settle_host(folder, host)
            package = json.dumps(data_package(plan.campaign, plan.about), ensure_ascii=False, indent=2) + "\n"
            write_atomically(folder / "datapackage.json", package.encode())
            store = Store(folder=folder, rows=_records(folder, Row), failures=_records(folder, Failure))
            store.row_ids |= {row.row_id for row in store.rows}
            _settle_positions(folder, store.row_ids)
            _settle_raw(store.raw, store.row_ids)
            sync_folder(folder)
        except OSError as error:
            raise UserError(f"{folder}: cannot be written: {error}; choose another folder with --out") from error
        yield store


def _lock(descriptor: int, folder: Path) -> None:
    """Take the folder for this process. The kernel lets go of it when the process ends, however it ends."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{folder}: another sweep is running there; wait for it or end it") from None


def _settle_kind(folder: Path, kind_name: str) -> None:
    """Refuse an engine kind that would add emulated rows to measured ones, or the other way round.

    Of a kind that may turn out to run the embedded engine on a port, the engine says so once it is ready.
    """
    rows = _records(folder, Row) if (folder / _FILES[Row]).exists() else []
    if kind_name == "emulated":
        _refuse_mixed(folder, rows, "emulated")
    elif any(row.engine_kind == "emulated" for row in rows):
        _refuse_mixed(folder, rows, "measured")


def _refuse_mixed(folder: Path, rows: Sequence[Row], provenance: str) -> None:
    other = next((row.provenance for row in rows if row.provenance != provenance), None)
    if other:
        raise UserError(
            f"{folder}: its rows are {other}, those of this sweep would be {provenance}, and a campaign never has "
            "both; give this one a folder of its own with --out, or the plan another campaign name"
        )


def _settle_plan(folder: Path, plan: Plan, text: str) -> None:
    """Keep the plan with the rows: the one that begins the campaign, and each that says it continues that one."""
    path = folder / "plan.yaml"
    stored = path.read_bytes().decode("utf-8", errors="replace") if path.exists() else None
    if stored == text:
        return
    if plan.continues is None and stored is not None:
        raise UserError(
            f"{path}: this campaign was begun with another plan; give the changed plan a campaign name of its own, "
            f"sweep the stored plan to go on, or add cells by a plan with `continues: {plan_digest(stored)}` "
            "(`collector next` writes one)"
        )
    if plan.continues is not None and (stored is None or plan.continues != plan_digest(stored)):
        found = "there is no campaign yet" if stored is None else f"its plan's digest is {plan_digest(stored)}"
        raise UserError(
            f"{path}: the plan continues {plan.continues}, but {found}; name the campaign's folder with --out, "
            "or let `collector next` write the plan again"
        )
    name = path.name if plan.continues is None else f"plan-{plan.digest}.yaml"
    write_atomically(folder / name, text.encode())


def _settle_host(folder: Path, host: Host) -> None:
    path = folder / "host.json"
    if not path.exists():
        write_atomically(path, (json.dumps(host.as_json(), ensure_ascii=False, indent=2) + "\n").encode())
        return
    if stored_host(path).get("host_id") != host.host_id:
        raise UserError(
            f"{path}: this campaign was measured on another host; a campaign is one plan on one host, "
            "so give this one a folder of its own with --out"
        )


def stored_host(path: Path) -> dict[str, Any]:
    """Read a campaign's host.json. Raises DataError."""
    try:
        stored = json.loads(path.read_bytes())
    except ValueError as error:  # not JSON, or not text
        raise DataError(f"{path}: not JSON ({error}); restore it, or remove it to have it written again") from error
    if not isinstance(stored, dict):
        raise DataError(f"{path}: expected an object; restore it, or remove it to have it written again")
    return stored


_FILES: dict[type, str] = {Row: "rows.csv", Failure: "failures.csv", Position: "positions.csv"}


def _records(folder: Path, record: type[Record]) -> list[Record]:
    """Read a table, dropping a last line that a crash cut short; make it with its header where there is none.

    A table of an older version, or with a spreadsheet's marks, is written anew: what is appended has none.
    """
    path = folder / _FILES[record]
    content = path.read_bytes() if path.exists() else b""
    if b"\r" in content and NEWLINE not in content:  # all of it would be taken for one torn line
        raise DataError(f"{path}: its lines end with a bare carriage return; save it with line feeds, or restore it")
    whole = without_torn_tail(content) or header_line(record).encode()
    try:
        text = whole.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}, line {whole.count(NEWLINE, 0, error.start) + 1}: not UTF-8 text") from error
    records = from_csv(record, text, str(path))
    whole = to_csv(record, records).encode()
    if whole != content:
        write_atomically(path, whole)
    return records


def _settle_raw(raw: Path, row_ids: set[str]) -> None:
    """Drop evidence whose row was never committed, and files that were being written."""
    for path in raw.iterdir():
        if path.name.endswith(".part") or path.name.partition("-")[0] not in row_ids:
            path.unlink()


def _settle_positions(folder: Path, row_ids: set[str]) -> None:
    """Drop positions whose row was never committed."""
    found = _records(folder, Position)
    kept = [one for one in found if one.row_id in row_ids]
    if len(kept) != len(found):
        write_atomically(folder / _FILES[Position], to_csv(Position, kept).encode())
