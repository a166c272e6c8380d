"""What a configuration is called on a page, and the order in which its rows stand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from collector.analysis.pairing import sortable
from collector.analysis.speculation import OFF, Pair
from collector.core.rows import Failure, Row
from collector.core.speculative import schedule_of, synthetic_of
from collector.report.text import cut

Record = Row | Failure

#: Columns that a label shows where a campaign varies them; what is constant stands under its facts.
BROAD_COLUMNS = ("series", "kv_cache_dtype", "nvlink")
#: Columns that a label shows only where one model and way of speculating has several values of them.
FINE_COLUMNS = (
    "drafter", "attention_backend", "tensor_parallel", "max_model_len", "max_num_seqs", "extra_flags",
    "engine_version", "image", "gpu_model", "gpu_count", "driver_version",
)  # fmt: skip
#: What a way of speculating may ask for beside k.
ASKED = ("schedule", "synthetic_acceptance")
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
    value: Callable[[str], Any] = record.get if isinstance(record, Pair) else lambda name: getattr(record, name, None)
    return Label(
        model=value("model"),
        speculation=record.speculation,
        k=record.num_speculative_tokens,
        varying=(*_stated(varying, value), *_asked(value("speculative_config"))),
    )


def _asked(config: str | None) -> tuple[tuple[str, str], ...]:
    """Return what a way of speculating asks for beside k, without which it would look like the pure one."""
    ranges = ", ".join(f"{first}–{last}: {k}" for first, last, k in schedule_of(config))
    length = synthetic_of(config)
    found = zip(ASKED, (ranges, length), strict=True)
    return tuple((name, text) for name, text in found if text)


def _stated(columns: Iterable[str], value: Callable[[str], Any]) -> tuple[tuple[str, str], ...]:
    found = [(name, value(name)) for name in columns]
    return tuple((name, cut(str(one), LABEL_VALUE_LIMIT)[0]) for name, one in found if one not in (None, ""))


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
