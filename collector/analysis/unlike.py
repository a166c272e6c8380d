"""Which cells of two campaigns are alike, and why one has no partner on the other side."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from collector.analysis.pairing import SAME_LOAD, SPECULATING, STAGE, Key, key, sortable
from collector.core.due import refused_cell
from collector.core.rows import Failure, Row, comparable, failed_checks

#: What makes two cells alike.
LIKE = (
    "provenance", "series", "model", "model_path", "kv_cache_dtype", *SPECULATING, "nvlink", "tensor_parallel",
    "max_model_len", "max_num_seqs", *SAME_LOAD, *STAGE,
)  # fmt: skip
#: Of these the last part of a path counts: another host keeps the same weights elsewhere.
_PATHS = ("model_path", "drafter")
#: What a failure tells of this.
TOLD = ("provenance", "series", "model", "kv_cache_dtype", "speculation", "num_speculative_tokens", "nvlink")
#: What differs with a column by nature is not named beside it.
_FOLLOWS = {
    "prompt_set": {"prompt_set_digest"},
    "concurrency": {"requests", "warmup_requests"},
    "speculation": {"num_speculative_tokens", "drafter", "speculative_config"},
    "num_speculative_tokens": {"speculative_config"},
    "model": {"model_path", "drafter"},
}

Side = Literal["A", "B"]
#: checks: its own rows failed theirs. checks_there: those of its partner did.
RefusalKind = Literal["differs", "checks", "checks_there", "failed", "ambiguous"]
Cells = dict[Key, dict[str, list[Row]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A cell of one side that is not compared. `names`: columns, checks or failure categories, by kind."""

    side: Side
    cell: Row
    kind: RefusalKind
    names: tuple[str, ...]


def cells_of(rows: Iterable[Row]) -> Cells:
    """Return the rows of each cell, by configuration, in the order of their repeats."""
    found: Cells = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: (row.repeat, row.row_id)):
        found[_like(row)][row.configuration_id].append(row)
    return found


def _like(row: Row) -> Key:
    """Return what makes a cell alike, without the folders in which a host keeps its weights."""
    found = {name: getattr(row, name) for name in LIKE}
    found |= {name: PurePath(found[name]).name for name in _PATHS if found[name]}
    if row.speculative_config:
        given = json.loads(row.speculative_config)
        named = {name: PurePath(value).name for name, value in given.items() if name == "model"}
        found["speculative_config"] = json.dumps(given | named, sort_keys=True)
    return tuple(found.values())


def refused(side: Side, own: Cells, other: Cells, failures: Sequence[Failure]) -> Iterable[Refused]:
    """Yield the cells of one side that are not compared, with the reason. `failures`: of the other side."""
    ran = {key(row, TOLD) for cells in other.values() for rows in cells.values() for row in rows}
    for setting in sorted(own, key=sortable):
        for name, rows in sorted(own[setting].items()):
            partner = _partner(setting, name, own, other)
            if not any(map(comparable, rows)):
                if side == "A" or not any(map(comparable, partner)):  # else the refusal of A's cell says it
                    yield Refused(side=side, cell=rows[0], kind="checks", names=_checks(rows))
            elif not partner:
                kind, names = _reason(rows, other, failures, ran, setting in other)
                yield Refused(side=side, cell=rows[0], kind=kind, names=names)
            elif side == "A" and not any(map(comparable, partner)):
                yield Refused(side=side, cell=rows[0], kind="checks_there", names=_checks(partner))


def _partner(setting: Key, name: str, own: Cells, other: Cells) -> list[Row]:
    """Return the rows of the same cell on the other side, none where it has none or they cannot be told apart."""
    there = other.get(setting, {})
    if len(own[setting]) == len(there) == 1:
        return next(iter(there.values()))
    return there.get(name, [])


def _checks(rows: Iterable[Row]) -> tuple[str, ...]:
    return tuple(sorted({one for row in rows for one in failed_checks(row)}))


def _reason(
    rows: Sequence[Row], other: Cells, failures: Iterable[Failure], ran: Collection[Key], alike: bool
) -> tuple[RefusalKind, tuple[str, ...]]:
    if alike:
        return "ambiguous", ()
    failed = {one.category for one in failures if _is_why(one, rows, ran)}
    return ("failed", tuple(sorted(failed))) if failed else ("differs", nearest(_like(rows[0]), other))


def _is_why(failure: Failure, rows: Sequence[Row], ran: Collection[Key]) -> bool:
    """Whether a failure of the other side is why these rows have no partner there.

    The ids of one plan are the same everywhere. Those of two plans differ: then it must have failed outright, or died.
    """
    if refused_cell(failure):
        return failure.row_id in {row.row_id.partition("/")[2] for row in rows}
    told = key(failure, TOLD)
    alike = told == key(rows[0], TOLD) and (failure.row_id is not None or told not in ran)
    return alike or failure.configuration_id == rows[0].configuration_id


def nearest(setting: Key, others: Iterable[Key]) -> tuple[str, ...]:
    """Return the columns in which the nearest of these cells differs, one of the same model if there is any."""
    model = LIKE.index("model")
    known = list(others)
    kindred = [one for one in known if one[model] == setting[model]] or known
    return min((_differing(setting, one) for one in kindred), key=lambda names: (len(names), names), default=())


def _differing(setting: Key, other: Key) -> tuple[str, ...]:
    names = [name for name, mine, theirs in zip(LIKE, setting, other, strict=True) if mine != theirs]
    follows = {name for column in names for name in _FOLLOWS.get(column, ())}
    return tuple(name for name in names if name not in follows)
