"""A profile against the published figures: every throughput, ratio, gain, latency and traffic with its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Any

from benchmarks.calibration.figures import Cell, Figure, of, relations, throughputs
from benchmarks.calibration.profile import TENSOR_PARALLEL, expected, published_runs
from benchmarks.calibration.simulate import Result, Stage, Walk, walk
from collector.core.dimensions import Gpu
from collector.core.footprint import free_bytes, kv_capacity_tokens, nvlink_bytes
from collector.core.hardware import configured, drafter_dimensions, model_dimensions, record

GIB = 2**30
REQUESTS = {1: 8, 8: 32, 16: 48, 32: 64}
#: Latency is published as a range over all configurations at this concurrency.
FULL = 32

cached_walk = lru_cache(maxsize=None)(walk)


@dataclass(frozen=True, slots=True)
class Compared:
    """A published figure and the simulation's. `error` is relative, but in points for a gain in percent."""

    figure: str
    what: str
    cell: Cell
    published: float
    emulated: float
    error: float


def stage_of(profile: Mapping[str, Any], cell: Cell, chances: Mapping[Cell, tuple[float, ...]]) -> Stage:
    model = profile["models"][cell.model]
    return Stage(
        prompt_tokens=model["dimensions"]["prompt_tokens"],
        concurrency=cell.concurrency,
        requests=REQUESTS[cell.concurrency],
        k=cell.k,
        conditional=chances.get(cell) or _synthetic(profile, cell),
        parallel_drafter=cell.speculation == "dflash",
        capacity_tokens=capacity(profile, cell),
        window=model["sliding_window"],
    )


def _synthetic(profile: Mapping[str, Any], cell: Cell) -> tuple[float, ...]:
    if not cell.k:
        return ()
    tables = profile["acceptance"][cell.model][cell.speculation]
    return tuple(next(iter(tables.values()))["synthetic"][: cell.k])


def capacity(profile: Mapping[str, Any], cell: Cell) -> int:
    """Return the KV tokens of a configuration; peer-to-peer buffers count with NVLink only."""
    memory, dimensions = profile["memory"], profile["models"][cell.model]["dimensions"]
    reserve = memory["non_torch_bytes"] + memory["activation_bytes"] + memory["graph_bytes"]
    reserve += memory["peer_bytes"] if cell.nvlink == "on" else 0
    target, drafter = model_dimensions(dimensions), drafter_dimensions(dimensions, cell.speculation)
    gpu = record(Gpu, profile["hardware"]["gpu"])
    free = free_bytes(gpu, target, drafter, profile["gpu_memory_utilization"], reserve)
    return kv_capacity_tokens(free, target, cell.kv_dtype)


class Evaluation:
    """All cells that a published figure speaks of, walked once and timed for one profile."""

    def __init__(self, profile: Mapping[str, Any], figures: Sequence[Figure]) -> None:
        self.profile = profile
        self.figures = list(figures)
        self._runs = published_runs(figures)
        self._results: dict[Cell, Result] = {}

    def walked(self, cell: Cell) -> Walk:
        return cached_walk(stage_of(self.profile, cell, self._runs))

    def result(self, cell: Cell) -> Result:
        if cell not in self._results:
            times = configured(
                self.profile["hardware"],
                self.profile["models"][cell.model]["dimensions"],
                kv_dtype=cell.kv_dtype,
                method=cell.speculation,
                nvlink=cell.nvlink,
                tensor_parallel=TENSOR_PARALLEL,
            )
            self._results[cell] = self.walked(cell).result(times.seconds)
        return self._results[cell]

    def throughput(self, cell: Cell) -> float:
        return self.result(cell).throughput_tok_s

    def throughputs(self) -> list[Compared]:
        return [
            _relative("+".join(one.figures), "system_throughput", one.cell, one.value, self.throughput(one.cell))
            for one in throughputs(self.figures)
        ]

    def relations(self, metric: str) -> list[Compared]:
        """Return ratios and gains between cells, as factors."""
        wanted = {one.id for one in of(self.figures, metric)}
        found = [one for one in relations(self.figures) if one[3] in wanted]
        return [
            _relative(figure, metric, cell, factor, self.throughput(cell) / self.throughput(other))
            for cell, other, factor, figure in found
        ]

    def nvlink_gains(self) -> list[Compared]:
        found = []
        for one in of(self.figures, "nvlink_gain"):
            gain = 100 * (self.throughput(one.cell) / self.throughput(replace(one.cell, nvlink="off")) - 1)
            found.append(Compared(one.id, one.metric, one.cell, one.value, gain, gain - one.value))
        return found

    def decode_rates(self) -> list[Compared]:
        rates = of(self.figures, "request_decode_rate")
        return [_relative(one.id, one.metric, one.cell, one.value, self.result(one.cell).decode_tok_s) for one in rates]

    def traffic(self) -> list[Compared]:
        found = []
        for one in of(self.figures, "nvlink_traffic"):
            if one.value:
                cell = replace(one.cell, concurrency=FULL)
                found.append(_relative(one.id, one.metric, cell, one.value, self._traffic_gib(cell)))
        return found

    def _traffic_gib(self, cell: Cell) -> float:
        dimensions = self.profile["models"][cell.model]["dimensions"]
        target, drafter = model_dimensions(dimensions), drafter_dimensions(dimensions, cell.speculation)
        groups = self.walked(cell).groups
        return sum(one.steps * nvlink_bytes(target, drafter, one.load) for one in groups) / GIB

    def ttft(self) -> dict[Cell, float]:
        """Return TTFT at full concurrency of every configuration that has a figure there."""
        cells = {one.cell for one in throughputs(self.figures) if one.cell.concurrency == FULL}
        return {cell: self.result(cell).ttft_s for cell in sorted(cells)}

    def acceptance(self) -> list[Compared]:
        """Return accepted per forward of each prompt kind, as the profile's probabilities give it."""
        found = []
        for one in of(self.figures, "accepted_per_forward"):
            cell = replace(one.cell, kv_dtype="auto")
            kinds = next(iter(self.profile["acceptance"][cell.model][cell.speculation].values()))
            if "/" in one.prompt_set:
                value = expected(kinds[one.prompt_set.split("/")[1]])
            else:  # equal output per prompt: a ratio of sums over the four prompts
                values = [expected(chances) for kind, chances in kinds.items() if kind != "synthetic"]
                value = len(values) / sum(1 / (1 + each) for each in values) - 1
            found.append(_relative(one.id, f"accepted_per_forward {one.prompt_set}", cell, one.value, value))
        return found


def _relative(figure: str, what: str, cell: Cell, published: float, emulated: float) -> Compared:
    return Compared(figure, what, cell, published, emulated, emulated / published - 1)


def within(ratio: Compared) -> bool:
    """Return whether a speculation ratio is on the published side of 1 and within 0.10 or 10 %."""
    same_side = (ratio.emulated - 1) * (ratio.published - 1) > 0
    return same_side and abs(ratio.emulated - ratio.published) <= max(0.10, 0.10 * ratio.published)


def summary(errors: Sequence[float]) -> dict[str, float]:
    sizes = [abs(one) for one in errors]
    return {"median": round(median(sizes), 4), "worst": round(max(sizes), 4), "figures": len(sizes)}
