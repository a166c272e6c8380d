"""`collector compare A B`: did another host, engine version or day make it faster or slower? For people and for CI."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collector.core.errors import UserError
from collector.core.rows import Failure, Row
from collector.core.units import DISPLAYED
from collector.measure.campaign import find_campaign, read_tables

if TYPE_CHECKING:  # analysis is loaded when the command runs
    from collector.analysis.between import Change, Compared, Comparison
    from collector.analysis.repeats import Kin, RepeatError
    from collector.analysis.unlike import Refused

#: Worst first.
ORDER = ("regression", "gain", "small", "unknown", "within")
WORDS = {"small": "small", "unknown": "noise unknown", "within": "within noise"}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "compare",
        help="two campaigns cell by cell: regressions and gains larger than noise",
        description="Compare the cells that two campaigns share, B against A. Exit code 0: no regression larger than "
        "noise; 1: a regression, a configuration that ran in A and fails in B, or a cell of A without a comparable row "
        "in B; 2: nothing could be compared.",
    )
    parser.add_argument("a", type=Path, metavar="A", help="campaign to compare with: a folder, or a name under --data")
    parser.add_argument("b", type=Path, metavar="B", help="campaign to judge")
    parser.add_argument("--data", type=Path, default=Path("data"), help="where campaigns lie (default: %(default)s)")
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="let B lack cells of A: not measured, or with failed checks; a failed start is a regression all the same",
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the comparison; 1 where B is worse or lacks cells. Raises UserError where the campaigns share no cell."""
    from collector.analysis.between import compare
    from collector.analysis.study import Study

    studies: list[Study] = []
    for path in (args.a, args.b):
        folder = find_campaign(path, args.data)
        rows, failures, _ = read_tables(folder)
        if not rows and (not failures or not studies):  # a B in which nothing starts any more is worse than A
            raise UserError(f"{folder / 'rows.csv'}: no row yet, so there is nothing to compare; sweep its plan first")
        studies.append(Study(name=str(folder), rows=tuple(rows), failures=tuple(failures)))
    found = compare(*studies)
    if args.json:
        print(json.dumps(as_json(found), indent=2, ensure_ascii=False))
    elif sys.stdout.isatty():
        _show(found)
    else:
        print("\n".join([*head(found), *(_line(one) for one in _changes(found)), *tail(found)]))
    if not found.cells and not found.worse:
        raise UserError(f"{args.a} and {args.b} share no cell that may be compared; see what differs above")
    return 1 if found.worse or (found.missing and not args.allow_missing) else 0


def head(found: Comparison) -> Iterator[str]:
    """Yield what differs between the campaigns as such, and their noise floors."""
    for column, (a, b) in found.differs.items():
        values = (", ".join("none" if one is None else str(one) for one in side) for side in (a, b))
        yield f"differs: {column}: {' -> '.join(values)}"
    if not found.differs:
        yield "differs: nothing that rows tell"
    for metric, errors in found.errors.items():
        for side, known in errors.items():
            for floor in [_floor(kin, error) for kin, error in known.items()] or ["no spread measured"]:
                yield f"noise of {side}: {DISPLAYED[metric].en}: {floor}"


def _floor(kin: Kin, error: RepeatError) -> str:
    ends = " / ".join(f"{one.value:.2f}" for one in (error.least, error.mean, error.most))
    way = f"{kin.provenance}, speculation {'on' if kin.speculating else 'off'}"
    return f"{way}: {ends} % between repeats (min / mean / max of {error.cells} cells)"


def tail(found: Comparison) -> Iterator[str]:
    """Yield what was refused and a summary."""
    lost = {*found.missing, *found.broke}
    for (side, kind, names), cells in _grouped(one for one in found.refused if one not in lost).items():
        yield f"not compared: {len(cells)} cells of {side}: {_why(side, kind, names)}; such as {label(cells[0])}"
    for (side, kind, names), cells in _grouped((*found.missing, *found.broke)).items():
        yield f"missing in B: {len(cells)} cells of A: {_why(side, kind, names)}; such as {label(cells[0])}"
    for one in found.new_failures:
        yield f"regression: {_setting_of(one)}: failed in B and not in A: {one.category} ({one.phase})"
    counts = [f"{found.count(one)} {WORDS.get(one, one)}" for one in ORDER]  # type: ignore[arg-type]  # its words
    yield f"{len(found.cells)} cells compared in {sum(len(one.changes) for one in found.cells)} metrics: " + ", ".join(
        counts
    )
    if lost:
        broke = f"{len(found.broke)} of them as their configuration failed"
        yield f"{len(lost)} cells of A have no comparable row in B, {broke}"
    left = found.left_out
    yield f"left out: rows with failed checks: {left['A']} of A, {left['B']} of B"


def label(row: Row) -> str:
    """Return what names a cell to a person."""
    return f"{_setting_of(row)} · {row.prompt_set} · concurrency {row.concurrency}"


def _setting_of(one: Row | Failure) -> str:
    k = f" k={one.num_speculative_tokens}" if one.num_speculative_tokens is not None else ""
    link = f" · NVLink {one.nvlink}" if one.nvlink else ""
    series = f" · {one.series}" if one.series != "main" else ""
    return f"{one.model} · KV {one.kv_cache_dtype} · speculation {one.speculation}{k}{link}{series}"


def _changes(found: Comparison) -> list[tuple[Compared, Change]]:
    every = [(cell, change) for cell in found.cells for change in cell.changes]
    return sorted(every, key=lambda one: ORDER.index(one[1].verdict))


def _cells_of(one: tuple[Compared, Change]) -> tuple[str, ...]:
    """Return verdict, cell, metric, both values, change, interval and multiple as text."""
    cell, change = one
    shape, judged = DISPLAYED[change.metric], change.judgement
    ends = judged.interval
    interval = f"[{_percent(ends[0])}, {_percent(ends[1])}]" if ends else _without_interval(change)
    multiple = f"{judged.multiple:.1f}x noise" if judged.multiple is not None else ""
    values = (shape.text(change.a.value), f"{shape.text(change.b.value)} {shape.unit}")
    verdict = WORDS.get(change.verdict, change.verdict)
    return (verdict, label(cell.cell), shape.en, *values, _percent(change.ratio.value), interval, multiple)


def _without_interval(change: Change) -> str:
    return "no spread measured" if change.ratio.n < 2 else "too few repeats for an interval"


def _line(one: tuple[Compared, Change]) -> str:
    verdict, cell, metric, a, b, change, interval, multiple = _cells_of(one)
    return f"{verdict}: {cell}: {metric} {a} -> {b}, {change} {interval}{f', {multiple}' if multiple else ''}"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _grouped(refused: Iterable[Refused]) -> dict[tuple[str, str, tuple[str, ...]], list[Row]]:
    found: dict[tuple[str, str, tuple[str, ...]], list[Row]] = {}
    for one in refused:
        found.setdefault((one.side, one.kind, one.names), []).append(one.cell)
    return found


def _why(side: str, kind: str, names: tuple[str, ...]) -> str:
    other, told = "B" if side == "A" else "A", ", ".join(names)
    return {
        "differs": f"the nearest cell of {other} differs in {told}",
        "checks": f"failed checks ({told})",
        "checks_there": f"failed checks of its rows in {other} ({told})",
        "failed": f"the configuration failed in {other} ({told})",
        "ambiguous": f"several configurations look alike in the columns and {other} has none of the same id",
    }[kind]


def _show(found: Comparison) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console.print(Text("\n".join(head(found))))
    table = Table(*("", "cell", "metric", "A", "B", "change", "interval", "of noise"))
    looks = {"regression": "bold red", "gain": "green"}
    for one in _changes(found):
        table.add_row(*(Text(text) for text in _cells_of(one)), style=looks.get(one[1].verdict, ""))
    console.print(table)
    console.print(Text("\n".join(tail(found))))


def as_json(found: Comparison) -> dict[str, Any]:
    """Return all of it; a change names the rows that prove it."""
    return {
        "differs": {column: {"a": list(a), "b": list(b)} for column, (a, b) in found.differs.items()},
        "noise_percent": {
            metric: {side.lower(): [_error(*one) for one in known.items()] for side, known in errors.items()}
            for metric, errors in found.errors.items()
        },
        "cells": [
            {"cell": _setting(one.cell), "metrics": {change.metric: _change(change) for change in one.changes}}
            for one in found.cells
        ],
        "not_compared": [
            {"side": one.side.lower(), "cell": _setting(one.cell), "kind": one.kind, "names": list(one.names)}
            for one in found.refused
        ],
        "missing": [
            {"cell": _setting(one.cell), "kind": one.kind, "names": list(one.names)}
            for one in (*found.missing, *found.broke)
        ],
        "failed_in_b_only": [
            {"setting": _setting_of(one), "category": one.category, "phase": one.phase, "cause": one.cause}
            for one in found.new_failures
        ],
        "rows_left_out": {side.lower(): count for side, count in found.left_out.items()},
        "summary": {one: found.count(one) for one in ORDER},  # type: ignore[arg-type]  # its words
        "worse": found.worse,
    }


def _error(kin: Kin, error: RepeatError) -> dict[str, Any]:
    ends = {name: getattr(error, name).value for name in ("least", "mean", "most")}
    told = {"provenance": kin.provenance, "speculating": kin.speculating}
    return told | {"kind": error.kind, "cells": error.cells} | ends


def _change(change: Change) -> dict[str, Any]:
    judged = asdict(change.judgement)
    return {
        "a": change.a.value,
        "b": change.b.value,
        "ratio": change.ratio.value,
        "interval": judged["interval"] and list(judged["interval"]),
        "multiple_of_noise": judged["multiple"],
        "verdict": change.verdict,
        "rows_a": [one.removeprefix("A/") for one in change.ratio.base],
        "rows_b": [one.removeprefix("B/") for one in change.ratio.ids],
    }


def _setting(row: Row) -> dict[str, Any]:
    from collector.analysis.unlike import LIKE

    return {name: getattr(row, name) for name in LIKE}
