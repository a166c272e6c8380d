"""Reading a campaign that is already there: its tables, and whether they still follow from the evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from collector.core.codec import cells_of, check_objects, from_csv
from collector.core.configuration import Plan
from collector.core.errors import DataError, UserError, close_words
from collector.core.failure_words import CATEGORIES, PHASES
from collector.core.plan import parse_plan
from collector.core.record import make_row
from collector.core.rows import PROVENANCES, Failure, Position, Row
from collector.core.schema import data_package
from collector.measure import evidence
from collector.measure.store import stored_host

#: Tables whose absence is a fault; an interrupted sweep leaves all three.
TABLES = ("rows.csv", "failures.csv", "positions.csv")


def find_campaign(path: Path, data: Path = Path("data")) -> Path:
    """Return the folder of a campaign, given as a folder or by its name. Raises UserError where there is none."""
    for folder in (path, data / path):
        if (folder / "rows.csv").is_file():
            return folder
        if (folder / "figures.csv").is_file():
            raise UserError(f"{folder}: figures that others published, not rows; name a campaign, such as {data}/NAME")
    known = sorted(one.parent.name for one in data.glob("*/rows.csv"))
    near = close_words(path.name, known)
    raise UserError(f"{path}: no campaign there (no rows.csv){near}; name a folder such as {data}/NAME")


def read_tables(folder: Path) -> tuple[list[Row], list[Failure], list[Position]]:
    """Read the three tables. Raises DataError with file, line and column."""
    texts = {}
    for name in TABLES:
        path = folder / name
        try:
            texts[name] = path.read_text(encoding="utf-8")
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not UTF-8 text (byte {error.start})") from error
    rows = from_csv(Row, texts["rows.csv"], str(folder / "rows.csv"))
    check_objects(rows, str(folder / "rows.csv"))
    return (
        rows,
        from_csv(Failure, texts["failures.csv"], str(folder / "failures.csv")),
        from_csv(Position, texts["positions.csv"], str(folder / "positions.csv")),
    )


def read_plans(folder: Path) -> tuple[Plan, ...]:
    """Read the plan that began a campaign and those that continued it, in the order of their names."""
    paths = [folder / "plan.yaml", *sorted(folder.glob("plan-*.yaml"))]
    try:
        return tuple(parse_plan(path.read_text(encoding="utf-8"), str(path)) for path in paths)
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be read: {error.strerror}; restore the campaign's plan") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{folder}: its plan cannot be read: {error}") from error


def recomputed(folder: Path, rows: list[Row]) -> tuple[list[Row], list[Position]]:
    """Make every row again from its evidence, in the order of the table. Raises DataError where that is not there."""
    made_rows: list[Row] = []
    made_positions: list[Position] = []
    lost: list[str] = []
    for row in rows:
        try:
            again, positions = make_row(*evidence.load(folder / "raw", row.row_id))
        except evidence.LostError as error:
            lost.append(str(error))
            continue
        made_rows.append(again)
        made_positions += positions
    if lost:
        raise DataError(_without_evidence(folder, rows, lost))
    return made_rows, made_positions


def _without_evidence(folder: Path, rows: list[Row], lost: list[str]) -> str:
    """Say in one sentence of how many rows the evidence is not there, and what brings it back."""
    raw = folder / "raw"
    what = f"that of {len(lost)} of {len(rows)} rows is missing (the first: {lost[0]})" if raw.is_dir() else "not there"
    fix = "restore it from where it was measured"
    if {row.provenance for row in rows} == {"emulated"}:
        fix = "a sweep of the campaign's plan into another folder makes the same rows and their evidence again"
    return f"{raw}: {what}, so that {len(lost)} rows cannot be held against their evidence; {fix}"


def problems(folder: Path) -> Iterator[str]:
    """Yield what is wrong with a campaign, a sentence each."""
    rows, failures, positions = read_tables(folder)
    yield from _key_problems(folder, rows, failures, positions)
    yield from _word_problems(folder, rows, failures)
    yield from _descriptor_problems(folder)
    yield from _origin_problems(folder, rows)
    yield from _evidence_problems(folder, rows, positions)


def _evidence_problems(folder: Path, rows: list[Row], positions: list[Position]) -> Iterator[str]:
    """Hold the rows against their evidence; rows that have none are one problem."""
    lost: list[str] = []
    for row in rows:
        try:
            again, positions_again = make_row(*evidence.load(folder / "raw", row.row_id))
        except evidence.LostError as error:
            lost.append(str(error))
            continue
        except DataError as error:
            yield str(error)
            continue
        ours = [cells_of(one) for one in positions if one.row_id == row.row_id]
        if ours != [cells_of(one) for one in positions_again]:
            yield f"{folder / 'positions.csv'}: the positions of row {row.row_id} do not follow from its evidence"
        stored, made = cells_of(row), cells_of(again)
        names = [name for name, cell in stored.items() if made[name] != cell]
        if names:
            yield f"{folder / 'rows.csv'}: row {row.row_id} does not follow from its evidence ({', '.join(names[:5])})"
    if lost:
        yield _without_evidence(folder, rows, lost)


def _key_problems(folder: Path, rows: list[Row], failures: list[Failure], positions: list[Position]) -> Iterator[str]:
    row_ids = [row.row_id for row in rows]
    yield from _twice(folder / "rows.csv", "row_id", row_ids)
    yield from _twice(folder / "failures.csv", "failure_id", [one.failure_id for one in failures])
    yield from _twice(folder / "positions.csv", "row and position", [f"{p.row_id}/{p.position}" for p in positions])
    known = set(row_ids)
    for orphan in sorted({p.row_id for p in positions} - known):
        yield f"{folder / 'positions.csv'}: row {orphan} is not in rows.csv"
    for one in failures:
        if one.log and not (folder / one.log).is_file():
            yield f"{folder / 'failures.csv'}: the log {one.log} is not there"


def _twice(path: Path, what: str, keys: list[str]) -> Iterator[str]:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            yield f"{path}: {what} {key} stands twice"
        seen.add(key)


def _word_problems(folder: Path, rows: list[Row], failures: list[Failure]) -> Iterator[str]:
    for row in rows:
        if row.campaign != folder.resolve().name:
            yield f"{folder / 'rows.csv'}: row {row.row_id} belongs to campaign {row.campaign}"
        if row.provenance not in PROVENANCES:
            yield f"{folder / 'rows.csv'}: row {row.row_id} has the unknown provenance {row.provenance!r}"
    for one in failures:
        if one.category not in CATEGORIES:
            yield f"{folder / 'failures.csv'}: {one.failure_id} has the unknown category {one.category!r}"
        if one.phase not in PHASES:
            yield f"{folder / 'failures.csv'}: {one.failure_id} has the unknown phase {one.phase!r}"


def _origin_problems(folder: Path, rows: list[Row]) -> Iterator[str]:
    """Hold the rows against the plans and the host beside them."""
    path = folder / "host.json"
    try:
        digests = {plan.digest for plan in read_plans(folder)}
        host_id = stored_host(path).get("host_id")
    except (OSError, UserError) as error:
        yield f"{folder}: plan or host cannot be read: {error}"
        return
    for what, others in (
        ("plan than plan.yaml", [row.row_id for row in rows if row.plan_digest not in digests]),
        ("host than host.json", [row.row_id for row in rows if row.host_id != host_id]),
    ):
        if others:
            yield f"{folder / 'rows.csv'}: {len(others)} rows come from another {what}: {others[0]} …"


def _descriptor_problems(folder: Path) -> Iterator[str]:
    path = folder / "datapackage.json"
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        yield f"{path}: cannot be read: {error}"
        return
    if not isinstance(stored, dict) or stored != data_package(folder.resolve().name, stored.get("description", "")):
        yield f"{path}: does not describe the tables of this version"
