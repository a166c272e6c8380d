"""The two window methods against each other: what a whole stage's ramp and drain do to its figures.

A whole stage begins with all of its requests at once and ends with the last one; a steady window lies inside a running
load. Where the same cell was measured by both, steady ÷ whole says how much of a figure is the edges'. By the
definitions in step_time.py

    system throughput = decode rate of a request × requests that decode

so that the ratio of throughputs is exactly that of decode rates times that of requests that decode: a prompt burst
lets the others wait, and those that decode already are the faster for it. Both windows of a repeat are measured in one
engine, so the noise is that of repeats, as everywhere (noise.py). Nothing else pools or pairs the two (study.basis).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collector.analysis.compared import THROUGHPUT, Pair, compared
from collector.analysis.formula import formula_of, formula_ratio
from collector.analysis.noise import Noise, noise_among
from collector.analysis.pairing import SPECULATION, STAGE, key, sortable
from collector.analysis.quantity import Quantity, mean_of, ratio_of, usable
from collector.analysis.repeats import errors_among
from collector.analysis.study import Study
from collector.core.rows import Row
from collector.core.speculative import synthetic_of
from collector.core.window import STEADY, WHOLE_STAGE

DECODE = "request_decode_rate_tok_s"
#: Requests that decode, up to the share of first tokens among all.
DECODING = f"{THROUGHPUT}/{DECODE}"
#: Share of the lanes' time in a whole stage in which a lane has nothing left to send: its drain.
DRAIN = "1-client_e2e_mean_s*requests_done/(concurrency*window_s)"
WAIT = "ttft_mean_s"
#: What makes two windows one cell. How many requests each holds may differ: a steady window counts others as well.
_CELL = ("campaign", "provenance", "configuration_id", "prompt_set", "prompt_set_digest", "output_tokens",
         "concurrency")  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A cell in both windows. `record` stands for its setting; the three ratios are steady ÷ whole."""

    record: Row
    system: Quantity
    decode: Quantity | None
    decoding: Quantity | None
    waits: tuple[Quantity, Quantity] | None  # mean TTFT in s, whole and steady
    drain: Quantity | None  # share of a whole stage's lane time

    @property
    def ids(self) -> tuple[str, ...]:
        return (*self.system.ids, *self.system.base)


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """What speculation gains at one concurrency by each method; a side is a gain (1), a loss (-1) or neither (0)."""

    pair: Pair  # over whole stages
    concurrency: int
    whole: Quantity  # on ÷ off
    steady: Quantity
    sides: tuple[int, int]  # whole, steady

    @property
    def turns(self) -> bool:
        """Whether one method sees a gain and the other a loss."""
        return self.sides[0] * self.sides[1] < 0

    @property
    def differs(self) -> bool:
        """Whether the methods disagree at all on what counts."""
        return self.sides[0] != self.sides[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Windows:
    """Every cell that both methods measured. `alone`: steady rows whose cell has no whole stage to stand beside."""

    cells: tuple[Cell, ...]
    effects: tuple[Effect, ...]
    system: Noise  # of the cells' ratios
    decode: Noise
    decoding: Noise
    gains: Noise  # of what speculation gains, by either method
    alone: tuple[str, ...]

    @property
    def turning(self) -> tuple[Effect, ...]:
        return tuple(one for one in self.effects if one.turns)

    @property
    def differing(self) -> tuple[Effect, ...]:
        return tuple(one for one in self.effects if one.differs)


def windows(study: Study) -> Windows | None:
    """Return both methods against each other; None where no cell was measured by both."""
    own = [row for row in study.rows if synthetic_of(row.speculative_config) is None]
    cells = _cells(own)
    if not cells:
        return None
    known = {row.row_id: row for row in own}
    beside = {name for cell in cells for name in cell.ids}
    effects = _effects(own)
    gains = _noise([one for each in effects for one in each[2:]], known, THROUGHPUT, "windows-gains")
    return Windows(
        cells=cells,
        effects=tuple(
            Effect(pair=pair, concurrency=at, whole=whole, steady=steady, sides=(gains.side(whole), gains.side(steady)))
            for pair, at, whole, steady in effects
        ),
        system=_noise([one.system for one in cells], known, THROUGHPUT, "windows-system"),
        decode=_noise([one.decode for one in cells if one.decode], known, DECODE, "windows-decode"),
        decoding=_noise([one.decoding for one in cells if one.decoding], known, DECODING, "windows-decoding"),
        gains=gains,
        alone=tuple(row.row_id for row in own if row.window_method == STEADY and row.row_id not in beside),
    )


def _noise(ratios: Sequence[Quantity], rows: Mapping[str, Row], column: str, family: str) -> Noise:
    return noise_among(ratios, rows, errors_among(rows.values(), column), column, family)


def _cells(rows: Iterable[Row]) -> tuple[Cell, ...]:
    grouped: dict[Any, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(usable(rows, THROUGHPUT), key=lambda row: (row.measured_at, row.row_id)):
        grouped[key(row, _CELL)][row.window_method].append(row)
    found = (_cell(own[WHOLE_STAGE], own[STEADY]) for own in grouped.values() if _is_one(own))
    return tuple(sorted((one for one in found if one), key=_order))


def _is_one(own: Mapping[str, Sequence[Row]]) -> bool:
    """Whether each method has one stage of this cell: several are not pooled."""
    return all(len({key(row, STAGE) for row in own.get(name, ())}) == 1 for name in (WHOLE_STAGE, STEADY))


def _cell(whole: Sequence[Row], steady: Sequence[Row]) -> Cell | None:
    system = ratio_of(steady, whole, THROUGHPUT)
    if system is None:
        return None
    waits = mean_of(whole, WAIT), mean_of(steady, WAIT)
    return Cell(
        record=whole[0],
        system=system,
        decode=ratio_of(steady, whole, DECODE),
        decoding=formula_ratio(steady, whole, DECODING),
        waits=(waits[0], waits[1]) if waits[0] and waits[1] else None,
        drain=formula_of(whole, DRAIN) if whole[0].concurrency > 1 else None,  # one lane leaves no other idle
    )


def _order(cell: Cell) -> Any:
    columns = ("model", "kv_cache_dtype", "nvlink", "prompt_set", "speculation", "num_speculative_tokens",
               "configuration_id", "concurrency")  # fmt: skip
    return sortable(key(cell.record, columns))


def _effects(rows: Sequence[Row]) -> list[tuple[Pair, int, Quantity, Quantity]]:
    """Return each ratio on ÷ off that both methods have: pair over whole stages, concurrency, whole, steady."""
    pairs: dict[str, dict[Any, Pair]] = {WHOLE_STAGE: {}, STEADY: {}}
    for pair in compared(SPECULATION, rows):
        method = pair["window_method"]
        if method in pairs:
            alike = (item for item in (*pair.setting, *pair.way) if item[0] != "window_method")
            pairs[method][tuple(alike)] = pair
    found = []
    for setting, pair in pairs[WHOLE_STAGE].items():
        other = pairs[STEADY].get(setting)
        for point in pair.measured if other else ():
            there = other.at(point.concurrency) if other else None
            if point.value and there and there.value:
                found.append((pair, point.concurrency, point.value, there.value))
    return found
