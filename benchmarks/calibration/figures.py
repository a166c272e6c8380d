"""The published figures as targets: throughputs of cells, printed or implied by printed ratios, and the rest."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

FIGURES = Path(__file__).parents[2] / "data" / "published" / "figures.csv"


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Cell:
    """A configuration at a concurrency."""

    model: str
    kv_dtype: str
    speculation: str
    k: int
    nvlink: str
    concurrency: int
    series: str

    def plain(self) -> Cell:
        return replace(self, speculation="off", k=0)

    def label(self) -> str:
        speculation = self.speculation if not self.k else f"{self.speculation} k={self.k}"
        series = "" if self.series == "main" else f" ({self.series})"
        return f"{self.model} {self.kv_dtype} {speculation} nvlink {self.nvlink} c={self.concurrency}{series}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One printed number."""

    id: str
    metric: str
    value: float
    cell: Cell
    prompt_set: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Throughput:
    """A cell's system throughput; `figures` are the printed numbers that give it."""

    cell: Cell
    value: float
    figures: tuple[str, ...]

    @property
    def printed(self) -> bool:
        return len(self.figures) == 1


def read(path: Path = FIGURES) -> list[Figure]:
    with path.open(encoding="utf-8", newline="") as lines:
        return [_figure(line) for line in csv.DictReader(lines)]


def _figure(line: dict[str, str]) -> Figure:
    cell = Cell(
        model=line["model"],
        kv_dtype=line["kv_cache_dtype"],
        speculation=line["speculation"],
        k=int(line["num_speculative_tokens"] or 0),
        nvlink=line["nvlink"],
        concurrency=int(line["concurrency"] or 0),
        series=line["series"],
    )
    return Figure(
        id=line["figure_id"],
        metric=line["metric"],
        value=float(line["value"]),
        cell=cell,
        prompt_set=line["prompt_set"],
    )


def of(figures: Sequence[Figure], metric: str) -> list[Figure]:
    return [one for one in figures if one.metric == metric]


def throughputs(figures: Sequence[Figure]) -> list[Throughput]:
    """Return every throughput that is printed, or that follows from a printed one by printed ratios."""
    known: dict[Cell, Throughput] = {}
    for one in of(figures, "system_throughput"):
        known.setdefault(one.cell, Throughput(cell=one.cell, value=one.value, figures=(one.id,)))
    found = True
    while found:
        found = False
        for above, below, factor, figure in relations(figures):
            for target, origin, times in ((above, below, factor), (below, above, 1 / factor)):
                if target not in known and origin in known:
                    source = known[origin]
                    known[target] = Throughput(
                        cell=target, value=source.value * times, figures=(*source.figures, figure)
                    )
                    found = True
    return [known[cell] for cell in sorted(known)]


def relations(figures: Sequence[Figure]) -> Iterator[tuple[Cell, Cell, float, str]]:
    """Yield (cell, other cell, factor, figure): the first's throughput is the second's times the factor."""
    for one in figures:
        if one.metric == "speculation_ratio":
            yield one.cell, one.cell.plain(), one.value, one.id
        elif one.metric == "kv_fp8_gain":
            yield one.cell, replace(one.cell, kv_dtype="auto"), 1 + one.value / 100, one.id
        elif one.metric == "throughput_change_c16_to_c32":
            late, early = replace(one.cell, concurrency=32), replace(one.cell, concurrency=16)
            yield late, early, 1 + one.value / 100, one.id
