"""What a measurement costs: from the campaign's own starts and windows, else from the plan's estimate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum, log2
from typing import Literal

from collector.core.configuration import Configuration, Stage, row_id
from collector.core.estimate import START_S, stage_seconds
from collector.core.follow_up import Wanted
from collector.core.rows import Row
from collector.core.speculative import synthetic_of

Source = Literal["rows", "estimate", "both"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Seconds, engine starts with them, and where they are from."""

    seconds: float
    starts: int
    source: Source

    @property
    def minutes(self) -> float:
        return self.seconds / 60


def cost_of(cells: Iterable[Wanted], rows: Sequence[Row]) -> Cost:
    """Return what is left to measure of these cells; each repeat of a configuration is a start of its own."""
    have = {row.row_id for row in rows}
    rows = [row for row in rows if synthetic_of(row.speculative_config) is None]  # no drafter's pace
    runs: dict[tuple[str, int], dict[Stage, Configuration]] = defaultdict(dict)
    for one in cells:
        for repeat in range(1, one.repeats + 1):
            if row_id(one.configuration, one.stage, repeat) not in have:
                runs[one.configuration.configuration_id, repeat][one.stage] = one.configuration
    parts = []
    for stages in runs.values():
        configuration = next(iter(stages.values()))
        parts.append(_start(configuration, rows))
        parts += [_stage(configuration, stage, rows) for stage in stages]
    known = {from_rows for _, from_rows in parts}
    source: Source = "both" if len(known) > 1 else "rows" if True in known else "estimate"
    return Cost(seconds=fsum(seconds for seconds, _ in parts), starts=len(runs), source=source)


def _nearest(configuration: Configuration, rows: Iterable[Row], has: Callable[[Row], bool]) -> list[Row]:
    """Return the rows of the configuration, else of its model with and without speculation alike, else of its model."""
    own = [row for row in rows if row.model == configuration.model and has(row)]
    same = [row for row in own if row.configuration_id == configuration.configuration_id]
    alike = [row for row in own if row.speculation == configuration.speculation]
    return same or alike or own


def _start(configuration: Configuration, rows: Sequence[Row]) -> tuple[float, bool]:
    found = [row.start_s for row in _nearest(configuration, rows, lambda row: row.start_s is not None)]
    seconds = [one for one in found if one is not None]
    return (fsum(seconds) / len(seconds), True) if seconds else (START_S, False)


def _stage(configuration: Configuration, stage: Stage, rows: Sequence[Row]) -> tuple[float, bool]:
    """Return seconds of a stage: its tokens at the throughput of the nearest concurrency, warm-up included."""
    near = _nearest(configuration, rows, lambda row: bool(row.system_throughput_tok_s))
    if not near:
        return stage_seconds(stage), False

    def distance(row: Row) -> tuple[bool, float, str]:
        return row.prompt_set != stage.prompt_set, abs(log2(row.concurrency / stage.concurrency)), row.row_id

    row = min(near, key=distance)
    tokens = stage.requests * stage.output_tokens + stage.warmup_requests * stage.warmup_output_tokens
    return tokens / (row.system_throughput_tok_s or 1.0), True
