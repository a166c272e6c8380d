"""A campaign with its plans: which configuration and stage a row was measured as, so that more can be asked like it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from collector.analysis.compared import Pair
from collector.analysis.narrowing import Cell, cells_of
from collector.analysis.pairing import SPECULATION
from collector.analysis.schedule import is_pure
from collector.analysis.study import Study
from collector.core.configuration import Configuration, Plan, row_id
from collector.core.rows import Row


@dataclass(frozen=True, kw_only=True)  # no slots: what was looked up once is kept
class Planned:
    """A study and the plans that its rows come from."""

    study: Study
    plans: Sequence[Plan]

    @cached_property
    def rows(self) -> dict[str, Row]:
        return {row.row_id: row for row in self.study.rows}

    @cached_property
    def cells(self) -> dict[str, Cell]:
        return {name: cell for plan in self.plans for name, cell in cells_of(plan).items()}

    @cached_property
    def pure(self) -> list[Pair]:
        return [pair for pair in self.study.pairs(SPECULATION) if is_pure(pair)]

    def cell(self, row: Row) -> Cell | None:
        """Return the configuration and stage of a row, also where the stage was added to its plan."""
        if row.row_id in self.cells:
            return self.cells[row.row_id]
        for configuration, stage in self.cells.values():
            if configuration.configuration_id == row.configuration_id:
                own = replace(
                    stage,
                    concurrency=row.concurrency,
                    requests=row.requests,
                    warmup_requests=row.warmup_requests,
                )
                if row_id(configuration, own, row.repeat) == row.row_id:
                    return configuration, own
        return None

    def cells_at(self, ids: Iterable[str]) -> list[Cell]:
        """Return the cells of rows, each once, by concurrency."""
        found = {}
        for name in ids:
            cell = self.cell(self.rows[name]) if name in self.rows else None
            if cell:
                found[cell[0].configuration_id, cell[1]] = cell
        return sorted(found.values(), key=lambda cell: (cell[1].concurrency, cell[0].configuration_id))

    def never_starts(self, configuration: Configuration) -> bool:
        failures = self.study.failures
        return any(one.configuration_id == configuration.configuration_id and not one.row_id for one in failures)


def _weight(pair: Pair) -> tuple[int, float]:
    """Return what makes a setting the one to decide about: its concurrencies, then its highest throughput."""
    sides = [side for point in pair.points for side in (point.on_tok_s, point.off_tok_s) if side]
    return len(pair.measured), max(sides, default=0.0)


def leading(pairs: Iterable[Pair]) -> list[Pair]:
    """Return one pair of each model and way of speculating, the weightiest first."""
    found: dict[object, Pair] = {}
    for pair in sorted(pairs, key=_weight, reverse=True):
        found.setdefault((pair["model"], pair.get("speculation"), pair.get("num_speculative_tokens")), pair)
    return list(found.values())
