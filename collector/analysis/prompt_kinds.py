"""Does acceptance depend on the prompt? Where it does, a gain measured on one prompt says nothing of others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from collector.analysis.acceptance import accepts_nothing
from collector.analysis.compared import THROUGHPUT, Pair, RatioPoint
from collector.analysis.drafters import SYNTHETIC, Drafter, is_general
from collector.analysis.pairing import SPECULATION
from collector.analysis.published import GENERAL
from collector.analysis.quantity import Quantity, difference_of, printed
from collector.analysis.study import Study
from collector.analysis.under_load import home
from collector.core.rows import Row, comparable

#: The synthetic and the general prompts differ strongly where one accepts this many times as much as the other:
#: then what was gained on one of them is far outside what speculation gains on the other.
STRONGLY = 2
#: By which prompts the acceptance is (nearly) none.
Barren = Literal["synthetic", "general"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A drafter whose acceptance depends on the prompt, or is nearly none on one that was measured.

    `pair` speaks for it; `point` is its highest concurrency with a ratio, `loss` what speculation costs there in
    tok/s (negative: gains). `loaded`: its gain was measured on general prompts as well.
    """

    drafter: Drafter
    barren: tuple[Barren, ...]
    pair: Pair | None
    point: RatioPoint | None
    loss: Quantity | None
    loaded: bool

    @property
    def synthetic(self) -> Quantity | None:
        return self.drafter.rate.get(SYNTHETIC)

    @property
    def general(self) -> Quantity | None:
        return self.drafter.rate.get(GENERAL)

    @property
    def depends(self) -> bool:
        return depends(self.drafter)

    @property
    def same_engine(self) -> bool:
        """Whether one running engine accepted on the one kind of prompt and not on the other."""
        rows = [row for row in self.drafter.rows if comparable(row)]
        general = {row.configuration_id for row in rows if is_general(row.prompt_set)}
        return bool(general & {row.configuration_id for row in rows if row.prompt_set == SYNTHETIC})


def depends(drafter: Drafter) -> bool:
    """Say whether acceptance on synthetic and on general prompts differs strongly; False where one is unknown."""
    rates = [drafter.rate[name].value for name in (SYNTHETIC, GENERAL) if name in drafter.rate]
    return len(rates) > 1 and max(rates) > 0 and max(rates) >= STRONGLY * min(rates)


def barren(drafter: Drafter) -> tuple[Barren, ...]:
    """Return the kinds of prompt on which nearly nothing is accepted."""
    kinds: tuple[Barren, ...] = ("synthetic", "general")
    return tuple(name for name in kinds if accepts_nothing(drafter.rate.get(name)))


def compared_on_both(found: Iterable[Drafter]) -> list[Drafter]:
    """Return the drafters that were measured on synthetic and on general prompts."""
    return [one for one in found if {SYNTHETIC, GENERAL} <= set(one.rate)]


def cases(study: Study, found: Iterable[Drafter]) -> list[tuple[Case, ...]]:
    """Return what depends on the prompt, a group for each model and provenance, in it by k."""
    pairs = study.pairs(SPECULATION)
    rows = {row.row_id: row for row in study.rows}
    grouped: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for drafter in found:
        if barren(drafter) or depends(drafter):
            grouped[drafter["provenance"], drafter["model"]].append(_case(study, drafter, pairs, rows))
    return [tuple(sorted(members, key=_k)) for members in grouped.values()]


def _case(study: Study, drafter: Drafter, pairs: Sequence[Pair], rows: dict[str, Row]) -> Case:
    own = [pair for pair in pairs if all(pair.get(name) == value for name, value in drafter.known)]
    pair = home(drafter, [pair for pair in own if pair["prompt_set"] == SYNTHETIC])
    point = max(pair.measured, key=lambda one: one.concurrency) if pair else None
    return Case(
        drafter=drafter,
        barren=barren(drafter),
        pair=pair,
        point=point,
        loss=_loss(study, pair, point, rows) if pair and point else None,
        loaded=any(pair.measured for pair in own if is_general(pair["prompt_set"])),
    )


def _loss(study: Study, pair: Pair, point: RatioPoint, rows: dict[str, Row]) -> Quantity | None:
    if study.is_published:
        names = ("model", "speculation", "num_speculative_tokens", "kv_cache_dtype", "nvlink")
        found = study.figures_of(
            "throughput_loss", **{name: pair[name] for name in names}, concurrency=point.concurrency
        )
        return printed(found[0]) if found else None
    off, on = ([rows[one] for one in ids] for ids in (point.row_ids_off, point.row_ids_on))
    return difference_of(off, on, THROUGHPUT)


def costs_more_with_k(found: Sequence[Case]) -> bool:
    """Say whether, at one concurrency, every larger k loses more throughput than the smaller one."""
    known = [(one.drafter["num_speculative_tokens"], one.loss.value) for one in found if one.loss]
    stages = {one.point.concurrency for one in found if one.loss and one.point}
    ks = [k for k, _ in known]
    if len(stages) != 1 or len(set(ks)) < 2 or None in ks or len(set(ks)) != len(ks):
        return False
    losses = [loss for _, loss in sorted(known)]
    return losses[0] > 0 and all(low < high for low, high in pairwise(losses))


def largest_sample(study: Study, model: str) -> Quantity | None:
    """Return the printed largest acceptance of single samples, which a mean hides."""
    found = study.figures_of("acceptance_rate_max_sample", model=model)
    return printed(found[0]) if found else None


def _k(case: Case) -> tuple[bool, int, str]:
    k = case.drafter["num_speculative_tokens"]
    return (k is None, k or 0, str(case.drafter["drafter"]))
