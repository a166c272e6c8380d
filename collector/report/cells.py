"""The cells page: for every row and failure what it is, whether its checks held, and where its evidence lies.

A campaign may have thousands of rows with a hundred columns each. A value is printed once for the campaign, or
once for a configuration, where it is the same all over; only what differs from cell to cell is in a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from operator import attrgetter

from jinja2 import Environment

from collector.analysis.study import Study
from collector.core.codec import cells_of
from collector.core.command import shown_command
from collector.core.configuration import Plan
from collector.core.rows import Failure, Position, Row, failed_checks
from collector.core.units import DISPLAYED
from collector.report import meanings_ko
from collector.report.tables import BROAD_COLUMNS, Label, label_columns, label_of, row_order
from collector.report.text import cut
from collector.report.words import Words

#: Columns that the page says elsewhere: in its title, in a heading or in the line of a row.
SAID = ("campaign", "row_id", "configuration_id", "checks", "checks_not_run")
#: The figures in the line of a row.
KEY = ("system_throughput_tok_s", "ttft_mean_s", "acceptance_rate", "preemptions")
#: A cause is cut here; collector itself stores no longer one.
CAUSE_LIMIT = 2_000
#: The evidence of a row in the order in which it was taken.
KINDS = ("before", "after", "confirm", "stage", "other")
GROUPS = {one.name: str(one.metadata["group"]) for one in fields(Row)}

#: (group, ((column, value as the CSV has it), ...)), ...
Values = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowLine:
    """A row with its evidence: (what it is, path) of each file."""

    row: Row
    key: tuple[str | None, ...]
    failed: tuple[str, ...]
    not_run: tuple[str, ...]
    scrapes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """The columns that differ between the rows of a configuration, of one prompt set: a column for each row."""

    prompt_set: str
    rows: tuple[Row, ...]
    groups: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...]
    positions: tuple[tuple[int, tuple[str, ...]], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureView:
    failure: Failure
    cause: str
    cut: bool
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigurationView:
    """A configuration with its cells and failures. `command` is None where the plan does not tell it."""

    configuration_id: str
    label: Label
    command: str | None
    lines: tuple[RowLine, ...]
    same: Values
    sheets: tuple[Sheet, ...]
    failures: tuple[FailureView, ...]
    logs: tuple[str, ...]


def cells_page(study: Study, words: Words, environment: Environment) -> str:
    """Return the page of a campaign's cells as Markdown."""
    written = {row.row_id: cells_of(row) for row in study.rows}
    common = _same([written[row.row_id] for row in study.rows]) if len(study.rows) > 1 else {}
    return environment.get_template("cells.md.j2").render(
        study=study,
        common=_grouped({name: value for name, value in common.items() if value}, words),
        configurations=_configurations(study, written, common, words),
        key=[DISPLAYED[name] for name in KEY],
        prompt_sets=len({row.prompt_set for row in study.rows}),
    )


def _configurations(
    study: Study, written: Mapping[str, Mapping[str, str]], common: Mapping[str, str], words: Words
) -> list[ConfigurationView]:
    """Return what the page shows, in the order of the article's tables."""
    varying = _heading_columns(study.records)
    commands = _commands(study.plans)
    ordered = sorted(study.rows, key=row_order)
    rows = {key: list(some) for key, some in groupby(ordered, attrgetter("configuration_id"))}
    failures: dict[str, list[Failure]] = {}
    for failure in sorted(study.failures, key=attrgetter("failed_at", "failure_id")):
        failures.setdefault(failure.configuration_id, []).append(failure)
    evidence: dict[str, list[str]] = {}
    for name in study.files:
        evidence.setdefault(name.partition("-")[0], []).append(name)
    positions: dict[str, list[Position]] = {}
    for one in study.positions:
        positions.setdefault(one.row_id, []).append(one)
    found = []
    for key in dict.fromkeys((*rows, *failures)):
        own = rows.get(key, [])
        same = _same([written[row.row_id] for row in own])
        found.append(
            ConfigurationView(
                configuration_id=key,
                label=label_of((*own, *failures.get(key, ()))[0], varying),
                command=commands.get(key),
                lines=tuple(_line(row, evidence.get(f"raw/{row.row_id}", ())) for row in own),
                same=_grouped({name: value for name, value in same.items() if value and name not in common}, words),
                sheets=tuple(_sheets(own, written, same, positions, words)),
                failures=tuple(_failure(one) for one in failures.get(key, ())),
                logs=tuple(evidence.get(f"logs/{key}", ())),
            )
        )
    return found


def _heading_columns(records: Sequence[Row | Failure]) -> tuple[str, ...]:
    """Return what headings must show: what follows from another setting only where configurations look alike."""
    varying = label_columns(records)
    broad = [name for name in varying if name in BROAD_COLUMNS]
    alike: dict[object, list[Row]] = {}
    for one in records:
        if isinstance(one, Row):
            key = (one.model, one.speculation, one.num_speculative_tokens, *(getattr(one, name) for name in broad))
            alike.setdefault(key, []).append(one)
    mixed = [rows for rows in alike.values() if len({row.configuration_id for row in rows}) > 1]
    fine = [name for name in varying if name not in broad]
    return (*broad, *(name for name in fine if any(len({getattr(row, name) for row in rows}) > 1 for rows in mixed)))


def _same(written: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the columns that hold one value, be it an empty one, in all of these rows."""
    if not written:
        return {}
    first, *others = written
    return {
        name: value
        for name, value in first.items()
        if name not in SAID and all(other[name] == value for other in others)
    }


def _grouped(values: Mapping[str, str], words: Words) -> Values:
    return tuple(
        (_group(group, words), tuple((name, values[name]) for name in members))
        for group, members in groupby(values, lambda name: GROUPS[name])
    )


def _group(name: str, words: Words) -> str:
    return meanings_ko.GROUPS[name] if words.language == "ko" else name


def _line(row: Row, files: Sequence[str]) -> RowLine:
    values = [(getattr(row, name), DISPLAYED[name]) for name in KEY]
    return RowLine(
        row=row,
        key=tuple(None if value is None else metric.text(value) for value, metric in values),
        failed=failed_checks(row),
        not_run=tuple(row.checks_not_run.split()),
        scrapes=tuple(sorted(((_kind(name), name) for name in files), key=lambda one: KINDS.index(one[0]))),
    )


def _kind(name: str) -> str:
    kind = name.rpartition("-")[2].partition(".")[0]
    return kind if kind in KINDS else KINDS[-1]


def _sheets(
    rows: Sequence[Row],
    written: Mapping[str, Mapping[str, str]],
    same: Mapping[str, str],
    positions: Mapping[str, Sequence[Position]],
    words: Words,
) -> list[Sheet]:
    """Return a table for each prompt set; one row alone has nothing that differs."""
    differing = [name for name in GROUPS if name not in SAID and name not in same]
    found = []
    for prompt_set, members in groupby(rows, attrgetter("prompt_set")):
        own = tuple(members)
        columns = [(name, tuple(written[row.row_id][name] for row in own)) for name in differing]
        kept = [(name, values) for name, values in columns if any(values)]
        groups = tuple(
            (_group(group, words), tuple(some)) for group, some in groupby(kept, lambda column: GROUPS[column[0]])
        )
        found.append(Sheet(prompt_set=prompt_set, rows=own, groups=groups, positions=_positions(own, positions)))
    return [sheet for sheet in found if sheet.groups or sheet.positions]


def _positions(
    rows: Sequence[Row], positions: Mapping[str, Sequence[Position]]
) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return, per draft position, how many drafts of each row were accepted up to there."""
    accepted = {(row.row_id, one.position): one for row in rows for one in positions.get(row.row_id, ())}
    return tuple(
        (
            place,
            tuple(str(one.accepted_tokens) if (one := accepted.get((row.row_id, place))) else "" for row in rows),
        )
        for place in sorted({place for _, place in accepted})
    )


def _failure(failure: Failure) -> FailureView:
    """Return a failure with all its columns; what stands in its own line is not told twice."""
    cause, was_cut = cut(failure.cause, CAUSE_LIMIT)
    said = ("campaign", "failure_id", "configuration_id", "category", "phase", "cause", "failed_at", "attempt", "log")
    values = tuple((name, value) for name, value in cells_of(failure).items() if value and name not in said)
    return FailureView(failure=failure, cause=cause, cut=was_cut, values=values)


def _commands(plans: Sequence[Plan]) -> dict[str, str]:
    """Return the engine command of each configuration that the stored plans give."""
    return {
        one.configuration_id: shown_command(one, list(plan.engine.command), None)
        for plan in plans
        for one in plan.configurations
    }
