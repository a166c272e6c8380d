"""Rows and failures to table cells: values as text, what they are called left to the templates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

from collector.analysis.pairing import sortable
from collector.analysis.speculation import OFF, Pair
from collector.core.rows import Failure, Row, failed_checks
from collector.core.units import METRICS, Metric
from collector.report.text import CAUSE_LIMIT, cut

Record = Row | Failure

#: Columns that a label shows where a campaign varies them; what is constant stands under its facts.
BROAD_COLUMNS = ("series", "kv_cache_dtype", "nvlink")
#: Columns that a label shows only where one model and way of speculating has several values of them.
FINE_COLUMNS = (
    "drafter", "attention_backend", "tensor_parallel", "max_model_len", "max_num_seqs", "extra_flags",
    "engine_version", "image", "gpu_model", "gpu_count", "driver_version",
)  # fmt: skip
STAGE_COLUMNS = ("prompt_set", "output_tokens", "window_method")
#: Empty by nature, not for want of a measurement, when the engine does not speculate.
OF_SPECULATION = ("acceptance_rate", "accepted_per_forward")
#: A flag list or path longer than this is cut in a label; the CSV has it in full.
LABEL_VALUE_LIMIT = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """What a configuration is called on a page."""

    model: str
    speculation: str
    k: int | None
    varying: tuple[tuple[str, str], ...]

    @property
    def off(self) -> bool:
        return self.speculation == OFF


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    text: str | None
    applicable: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class RowLine:
    row_id: str
    concurrency: int
    requests: int
    stage: tuple[tuple[str, str], ...]
    repeat: int
    cells: tuple[Cell, ...]
    failed: tuple[str, ...]
    not_run: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigurationLines:
    """The measurements of one configuration."""

    label: Label
    lines: tuple[RowLine, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureLine:
    label: Label
    nvlink: str | None
    phase: str
    category: str
    cause: str
    cut: bool
    retryable: bool
    exit_code: int | None
    exit_signal: int | None
    log: str | None


def label_columns(records: Sequence[Record]) -> tuple[str, ...]:
    """Return the columns that labels of these records must show so that no two configurations look alike."""
    named: dict[object, list[Row]] = defaultdict(list)
    for one in records:
        if isinstance(one, Row):
            named[one.model, one.speculation, one.num_speculative_tokens].append(one)
    broad = [name for name in BROAD_COLUMNS if _varies(records, name)]
    fine = [name for name in FINE_COLUMNS if any(_varies(rows, name) for rows in named.values())]
    return (*broad, *fine)


def _varies(records: Iterable[Record], name: str) -> bool:
    return len({getattr(one, name) for one in records}) > 1


def label_of(record: Record | Pair, varying: Sequence[str]) -> Label:
    value: Callable[[str], Any] = (
        record.__getitem__ if isinstance(record, Pair) else lambda name: getattr(record, name, None)
    )
    return Label(
        model=value("model"),
        speculation=record.speculation,
        k=record.num_speculative_tokens,
        varying=_stated(varying, value),
    )


def _stated(columns: Iterable[str], value: Callable[[str], Any]) -> tuple[tuple[str, str], ...]:
    found = [(name, value(name)) for name in columns]
    return tuple((name, cut(str(one), LABEL_VALUE_LIMIT)[0]) for name, one in found if one not in (None, ""))


def row_lines(rows: Sequence[Row], varying: Sequence[str]) -> list[ConfigurationLines]:
    """Return the table of cells, ordered by what was measured."""
    stage = [name for name in STAGE_COLUMNS if _varies(rows, name)]
    grouped = groupby(sorted(rows, key=row_order), key=attrgetter("configuration_id"))
    found = []
    for _, members in grouped:
        measured = list(members)
        lines = tuple(_row_line(row, stage) for row in measured)
        found.append(ConfigurationLines(label=label_of(measured[0], varying), lines=lines))
    return found


def _row_line(row: Row, stage: Sequence[str]) -> RowLine:
    return RowLine(
        row_id=row.row_id,
        concurrency=row.concurrency,
        requests=row.requests,
        stage=_stated(stage, partial(getattr, row)),
        repeat=row.repeat,
        cells=tuple(_cell(row, metric) for metric in METRICS),
        failed=failed_checks(row),
        not_run=tuple(row.checks_not_run.split()),
    )


def _cell(row: Row, metric: Metric) -> Cell:
    value = getattr(row, metric.column)
    if value is None:
        return Cell(text=None, applicable=not (row.speculation == OFF and metric.column in OF_SPECULATION))
    return Cell(text=metric.text(value))


def row_order(row: Row) -> Any:
    """Return what orders rows as tables show them: by what was measured."""
    columns = (
        "model",
        "series",
        "kv_cache_dtype",
        "nvlink",
        "configuration_id",
        "prompt_set",
        "output_tokens",
    )
    configuration = tuple(getattr(row, name) for name in columns)
    way = (row.speculation != OFF, row.speculation, row.num_speculative_tokens)
    return sortable((*configuration[:4], *way, *configuration[4:], row.concurrency, row.repeat, row.row_id))


def failure_lines(failures: Sequence[Failure], varying: Sequence[str]) -> list[FailureLine]:
    """Return the lines of the failure table. NVLink has a column of its own there."""
    columns = (
        "model",
        "series",
        "kv_cache_dtype",
        "speculation",
        "nvlink",
        "repeat",
        "attempt",
        "failure_id",
    )
    ordered = sorted(failures, key=lambda one: sortable(getattr(one, name) for name in columns))
    return [_failure_line(one, [name for name in varying if name != "nvlink"]) for one in ordered]


def _failure_line(failure: Failure, varying: Sequence[str]) -> FailureLine:
    cause, was_cut = cut(failure.cause, CAUSE_LIMIT)
    return FailureLine(
        label=label_of(failure, varying),
        nvlink=failure.nvlink,
        phase=failure.phase,
        category=failure.category,
        cause=cause,
        cut=was_cut,
        retryable=failure.retryable,
        exit_code=failure.exit_code,
        exit_signal=failure.exit_signal,
        log=failure.log,
    )
