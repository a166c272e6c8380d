"""Which configurations to serve a load with: as few as the rows carry, and the one for a load that varies.

At each concurrency a configuration is near the best where the best is ahead of it by no more than noise. The fewest
that are near everywhere are chosen, and of two that are near at one concurrency the plainer: speculation off, then no
schedule, then the engine's own KV dtype. A load that varies wants one configuration: the one whose worst ratio to the
best, over all concurrencies, is highest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collector.analysis.compared import THROUGHPUT
from collector.analysis.noise import Noise, effects, noise_among
from collector.analysis.pairing import KV_CACHE, OFF, STAGE, Key, sortable
from collector.analysis.pairing import key as key_of
from collector.analysis.quantity import Quantity, mean_of, usable
from collector.analysis.steps import ratio_between
from collector.analysis.study import Study
from collector.core.rows import Row
from collector.core.speculative import schedule_of

#: What the stages of one load share; concurrency is what varies.
LOAD = ("provenance", "series", "prompt_set", "prompt_set_digest", "output_tokens", "window_method", "nvlink")
#: What nobody chooses among the configurations of one host: where it differs, throughputs are not held together.
WHERE = (
    "campaign", "engine_kind", "engine_version", "image", "image_digest", "model_path", "model_revision",
    "model_commit", "host_id", "gpu_model", "gpu_count", "driver_version",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The configuration to run at one concurrency; its row holds the flags."""

    concurrency: int
    row: Row
    throughput: Quantity
    considered: int  # configurations that were measured there


@dataclass(frozen=True, kw_only=True, slots=True)
class Anywhere:
    """The configuration for a load that varies. `worst`: its lowest ratio to the best, None where it is near all."""

    choices: tuple[Choice, ...]
    worst: Quantity | None
    worst_at: int | None


@dataclass(frozen=True, slots=True)
class Judging:
    """What tells configurations apart: a pair by the noise that its verdict has, any two others by one of their own."""

    pairs: Noise
    others: Noise
    paired: frozenset[frozenset[frozenset[str]]]

    def side(self, ratio: Quantity) -> int:
        return (self.pairs if _sides(ratio) in self.paired else self.others).side(ratio)


@dataclass(frozen=True, slots=True)
class _Arms:
    """The configurations of one load: throughputs by concurrency and configuration, and a row of each."""

    means: Mapping[int, Mapping[str, Quantity]]
    rows: Mapping[tuple[int, str], Row]

    def best(self, at: int) -> Quantity:
        own = self.means[at]
        return own[max(own, key=lambda name: (own[name].value, name))]

    def near(self, at: int, judging: Judging) -> set[str]:
        best = self.best(at)
        return {name for name, mean in self.means[at].items() if judging.side(ratio_between(best, mean)) <= 0}

    def choice(self, at: int, name: str) -> Choice:
        own = self.means[at]
        return Choice(concurrency=at, row=self.rows[at, name], throughput=own[name], considered=len(own))

    def extras(self, name: str) -> tuple[bool, bool, bool]:
        row = next(row for (_, one), row in self.rows.items() if one == name)
        return row.speculation != OFF, bool(schedule_of(row.speculative_config)), row.kv_cache_dtype != KV_CACHE.base


def grouped(study: Study) -> dict[tuple[Any, ...], list[Row]]:
    """Return the comparable rows by model, LOAD and WHERE, in a fixed order; NVLink on and off are two loads."""
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in usable(study.basis, THROUGHPUT):
        if row.system_throughput_tok_s:
            found[row.model, *key_of(row, (*LOAD, *WHERE))].append(row)
    nvlink = 1 + LOAD.index("nvlink")
    return {key: found[key] for key in sorted(found, key=lambda key: (key[0], key[nvlink] == OFF, *sortable(key)))}


def main_load(study: Study, model: str) -> list[Row]:
    """Return the rows of the load of a model that was compared at the most concurrencies; [] where there is none."""
    own = [rows for (name, *_), rows in grouped(study).items() if name == model]
    return max(own, key=lambda rows: _extent(compared_rows(rows)), default=[])


def _extent(rows: Iterable[Row]) -> tuple[int, int]:
    known = [(row.concurrency, row.configuration_id) for row in rows]
    return len({at for at, _ in known}), len({name for _, name in known})


def compared_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the concurrencies at which there is more than one configuration.

    Of several stages at one concurrency, the one that most configurations have; of equal ones the longest.
    """
    names: dict[int, dict[Key, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        names[row.concurrency][key_of(row, STAGE)].add(row.configuration_id)
    stage = {at: max(own, key=lambda one: (len(own[one]), one)) for at, own in names.items()}
    alike = [row for row in rows if key_of(row, STAGE) == stage[row.concurrency]]
    return [row for row in alike if len(names[row.concurrency][stage[row.concurrency]]) > 1]


def judging_of(study: Study, noise: Noise) -> Judging:
    """Return what tells the configurations of a study apart; `noise` is that of its pairs (noise_of)."""
    paired = frozenset(map(_sides, effects(study)))
    others = [
        ratio
        for rows in grouped(study).values()
        for arms in (_arms(compared_rows(rows)),)
        for at in arms.means
        for mean in arms.means[at].values()
        if mean is not arms.best(at) and _sides(ratio := ratio_between(arms.best(at), mean)) not in paired
    ]
    return Judging(noise, noise_among(others, noise.rows, noise.errors), paired)


def choose(rows: Iterable[Row], judging: Judging) -> tuple[Choice, ...]:
    """Return what to run at each concurrency of these rows of one load; each must have a throughput."""
    arms = _arms(rows)
    near = {at: arms.near(at, judging) for at in arms.means}
    left, chosen = set(near), set[str]()
    while left:
        covers = {name: {at for at in left if name in near[at]} for name in {one for at in left for one in near[at]}}
        best = min(covers, key=lambda name: (-len(covers[name]), arms.extras(name), -_total(arms, covers, name), name))
        chosen.add(best)
        left -= covers[best]

    def plainest(at: int) -> str:
        own = arms.means[at]
        return min(near[at] & chosen, key=lambda name: (arms.extras(name), -own[name].value, name))

    return tuple(arms.choice(at, plainest(at)) for at in sorted(near))


def anywhere(rows: Iterable[Row], judging: Judging) -> Anywhere | None:
    """Return the configuration for a load that varies; None where none was measured at every concurrency."""
    arms = _arms(rows)
    names = set.intersection(*(set(own) for own in arms.means.values())) if arms.means else set()
    worst = {name: _worst(arms, name, judging) for name in names}
    if not worst:
        return None
    at_worst = {name: found[0].value if found else 1.0 for name, found in worst.items()}
    chosen = min(worst, key=lambda name: (-at_worst[name], arms.extras(name), name))
    ratio, at = worst[chosen] or (None, None)
    return Anywhere(choices=tuple(arms.choice(at, chosen) for at in sorted(arms.means)), worst=ratio, worst_at=at)


def _worst(arms: _Arms, name: str, judging: Judging) -> tuple[Quantity, int] | None:
    behind = [
        (ratio_between(arms.means[at][name], arms.best(at)), at)
        for at in arms.means
        if name not in arms.near(at, judging)
    ]
    return min(behind, key=lambda one: (one[0].value, one[1]), default=None)


def _total(arms: _Arms, covers: Mapping[str, Iterable[int]], name: str) -> float:
    """Return how near to the best a configuration is over what it covers: of equally plain ones the faster wins."""
    return sum(arms.means[at][name].value / arms.best(at).value for at in sorted(covers[name]))


def _arms(rows: Iterable[Row]) -> _Arms:
    by_cell: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_cell[row.concurrency, row.configuration_id].append(row)
    means: dict[int, dict[str, Quantity]] = defaultdict(dict)
    for (at, name), own in sorted(by_cell.items()):
        if mean := mean_of(own, THROUGHPUT):
            means[at][name] = mean
    return _Arms(means, {cell: own[0] for cell, own in by_cell.items()})


def _sides(ratio: Quantity) -> frozenset[frozenset[str]]:
    return frozenset((frozenset(ratio.ids), frozenset(ratio.base)))
