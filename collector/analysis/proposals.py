"""The few measurements that would decide most, each with its reason, the rows it rests on and what it costs.

Ranked by a rule: the best proposal of each kind first, in the order of KINDS, then the second of each, and so on.
Within a kind it is the one with the widest bracket, the effect nearest to noise, or the most throughput; one proposal
for each model and way of speculating, at its setting of the most concurrencies and then of the highest throughput.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import log
from typing import Literal

from collector.analysis.compared import Pair, RatioPoint
from collector.analysis.cost import Cost, cost_of
from collector.analysis.narrowing import narrowing
from collector.analysis.needed import needed
from collector.analysis.noise import Noise, noise_of
from collector.analysis.pairing import KV_CACHE, NVLINK, SPECULATION
from collector.analysis.planned import Planned, leading
from collector.analysis.quantity import Quantity
from collector.analysis.recommend import advice
from collector.analysis.schedule import Ranges, is_pure, measured, suggestions
from collector.analysis.study import Study
from collector.core.configuration import Plan
from collector.core.follow_up import Wanted, configuration_with
from collector.core.prompt_names import GENERAL_SETS
from collector.core.rows import Row
from collector.core.speculative import SAMPLER, SYNTHETIC, SYNTHETIC_RATES

Kind = Literal["withheld", "partner", "bracket", "repeat", "schedule", "acceptance"]
#: A verdict that is missing, a ratio, the place of a break-even, how sure an effect is, then what is only predicted.
KINDS: tuple[Kind, ...] = ("withheld", "partner", "bracket", "repeat", "schedule", "acceptance")
#: Repeats that an effect near noise gets: the fewest whose range says which of them is off.
REPEATS = 3
#: An effect between noise divided and multiplied by this is near it: another measurement may change its side.
NEAR = 2
#: The version whose source offers synthetic acceptance (vLLM's config/speculative.py), and the build that cannot.
SYNTHETIC_SINCE = (0, 27)
WITHOUT_SYNTHETIC = "cpu"


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """What to measure and why. Which of the last six are known depends on the kind."""

    kind: Kind
    pair: Pair  # the comparison that it would decide
    cells: tuple[Wanted, ...]
    row_ids: tuple[str, ...]
    cost: Cost
    concurrencies: tuple[int, ...] = ()
    prompt_sets: tuple[str, ...] = ()
    bracket: tuple[int, int] | None = None
    value: Quantity | None = None  # acceptance when withheld, the effect as a gain, or the tokens a step needed
    ranges: Ranges = ()
    noise: float | None = None  # per cent


@dataclass(frozen=True, kw_only=True)
class _Campaign(Planned):
    """A campaign that makes its proposals."""

    def proposal(
        self, kind: Kind, pair: Pair, cells: Sequence[Wanted], ids: Iterable[str], **facts: object
    ) -> Proposal:
        return Proposal(
            kind=kind,
            pair=pair,
            cells=tuple(cells),
            row_ids=tuple(dict.fromkeys(ids)),
            cost=cost_of(cells, self.study.rows),
            **facts,  # type: ignore[arg-type]  # the fields of a proposal
        )


def proposals(study: Study, plans: Sequence[Plan]) -> list[Proposal]:
    """Return what to measure next, what decides most first; [] where nothing is open."""
    campaign = _Campaign(study=study, plans=plans)
    noise = noise_of(study)
    made: dict[Kind, Iterable[Proposal]] = {
        "withheld": _withheld(campaign),
        "partner": _partners(campaign),
        "bracket": _brackets(campaign),
        "repeat": _repeats(campaign, noise),
        "schedule": _schedules(campaign),
        "acceptance": _acceptances(campaign, noise),
    }
    rounds = zip_longest(*(list(made[kind]) for kind in KINDS))
    return [one for ranked in rounds for one in ranked if one and one.cost.seconds]


def _ids(point: RatioPoint) -> tuple[str, ...]:
    return (*point.row_ids_on, *point.row_ids_off)


def _pair_ids(pair: Pair) -> tuple[str, ...]:
    return tuple(name for point in pair.points for name in _ids(point))


def _repeated(pair: Pair) -> int:
    """Return how often a pair's points were measured, at most."""
    return max((min(point.n_on, point.n_off) for point in pair.measured), default=1)


def _brackets(campaign: _Campaign) -> Iterator[Proposal]:
    """Halve the widest brackets."""
    found = [one for pair in leading(campaign.pure) if (one := narrowing(pair, campaign.cells))]
    for one in sorted(found, key=lambda one: one.bracket.low / one.bracket.high):
        cells = [Wanted(configuration=c, stage=stage, repeats=_repeated(one.pair)) for c, stage in one.cells]
        yield campaign.proposal(
            "bracket",
            one.pair,
            cells,
            one.row_ids,
            concurrencies=one.concurrencies,
            bracket=(one.bracket.low, one.bracket.high),
        )


def _withheld(campaign: _Campaign) -> Iterator[Proposal]:
    """Measure both sides on general prompts, at both ends of the load, where a drafter did nothing on its own."""
    judged = [one for found in advice(campaign.study)[1] for one in found.speculation if one.verdict == "withheld"]
    for pair in leading(one.pair for one in judged if is_pure(one.pair)):
        own = [(point.concurrency, _ids(point)) for point in (pair.measured[0], pair.measured[-1])]
        known = {
            other["prompt_set"]
            for other in campaign.pure
            if other.measured and all(other.get(name) == pair.get(name) for name in ("model", *SPECULATION.way))
        }
        sets = tuple(name for name in GENERAL_SETS if name not in known)
        cells = [
            Wanted(configuration=c, stage=replace(stage, prompt_set=name, prompt_tokens=None))
            for c, stage in campaign.cells_at(name for _, ids in own for name in ids)
            for name in sets
        ]
        value = next(one.evidence.acceptance for one in judged if one.pair is pair)
        if cells:
            yield campaign.proposal(
                "withheld",
                pair,
                cells,
                _pair_ids(pair),
                prompt_sets=sets,
                concurrencies=tuple(dict.fromkeys(at for at, _ in own)),
                value=value,
            )


def _partners(campaign: _Campaign) -> Iterator[Proposal]:
    """Measure the side that a comparison lacks."""
    missing: dict[str, list[tuple[Pair, RatioPoint, list[Wanted]]]] = {}
    for factor in (SPECULATION, KV_CACHE, NVLINK):
        for pair in campaign.study.pairs(factor):
            for point in pair.points:
                cells = _partner(campaign, pair, point)
                if cells:
                    missing.setdefault(cells[0].configuration.configuration_id, []).append((pair, point, cells))
    found = [
        campaign.proposal(
            "partner",
            own[0][0],
            [cell for _, _, cells in own for cell in cells],
            [name for _, point, _ in own for name in _ids(point)],
            concurrencies=tuple(sorted({point.concurrency for _, point, _ in own})),
            prompt_sets=tuple(dict.fromkeys(pair["prompt_set"] for pair, _, _ in own)),
        )
        for own in missing.values()
    ]
    yield from sorted(found, key=lambda one: (-len(one.cells), one.cost.seconds))


def _partner(campaign: _Campaign, pair: Pair, point: RatioPoint) -> list[Wanted]:
    """Return the cells that a point lacks on one side; [] where it lacks none, or its engine did not start."""
    if point.reason is None or point.reason.kind not in ("missing", "settings_differ") or point.row_ids_left_out:
        return []
    there = campaign.cells_at(_ids(point))
    if not there:
        return []
    on_is_missing = not point.row_ids_on
    ids = [name for one in pair.points for name in (one.row_ids_on if on_is_missing else one.row_ids_off)]
    other = [configuration for configuration, _ in campaign.cells_at(ids)]
    if not other and pair.factor is SPECULATION and not on_is_missing:
        other = [configuration_with(there[0][0], None)]
    if not other or campaign.never_starts(other[0]):
        return []
    return [Wanted(configuration=other[0], stage=stage, repeats=len(_ids(point))) for _, stage in there]


def _repeats(campaign: _Campaign, noise: Noise) -> Iterator[Proposal]:
    """Repeat the effects nearest to noise: there one more measurement may change what is said."""
    found = []
    for factor in (SPECULATION, KV_CACHE, NVLINK):
        pairs = campaign.pure if factor is SPECULATION else campaign.study.pairs(factor)
        for pair in pairs:
            for point in pair.measured:
                gain = point.value.as_gain if point.value else None
                if gain and gain.value and min(point.n_on, point.n_off) < REPEATS:
                    percent = noise.percent_of(gain)
                    off = abs(log(abs(gain.value) / percent))
                    found += [(off, _ids(point), pair, point, gain, percent)] if off <= log(NEAR) else []
    seen = set()
    for _, ids, pair, point, gain, percent in sorted(found, key=lambda one: one[:2]):
        if (pair["model"], pair.factor.name) not in seen:
            seen.add((pair["model"], pair.factor.name))
            cells = [Wanted(configuration=c, stage=stage, repeats=REPEATS) for c, stage in campaign.cells_at(ids)]
            at = (point.concurrency,)
            yield campaign.proposal("repeat", pair, cells, ids, concurrencies=at, value=gain, noise=percent)


def _schedules(campaign: _Campaign) -> Iterator[Proposal]:
    """Measure the schedule that a pair suggests, at every concurrency of the pair."""
    suggested = {id(one.pair): one for one in suggestions(campaign.study)}
    done = {(one.pair["model"], one.pair.speculation) for one in measured(campaign.study)}
    for pair in leading(one.pair for one in suggested.values()):
        one = suggested[id(pair)]
        if (pair["model"], pair.speculation) in done:
            continue
        cells = [
            Wanted(configuration=configuration_with(c, json.loads(one.config)), stage=stage, repeats=_repeated(pair))
            for c, stage in campaign.cells_at(name for point in pair.measured for name in point.row_ids_on)
        ]
        at = tuple(point.concurrency for point in pair.measured)
        yield campaign.proposal("schedule", pair, cells, one.ids, concurrencies=at, ranges=one.ranges)


def _acceptances(campaign: _Campaign, noise: Noise) -> Iterator[Proposal]:
    """Ask the engine for the acceptance at which a loss should end, at the lowest concurrency that loses."""
    known = {row.speculative_config for row in campaign.study.rows}
    for pair in leading(campaign.pure):
        found = needed(pair, campaign.study.rows)
        losses = {point.concurrency for point in pair.measured if point.value and noise.side(point.value) < 0}
        at = next((one for one in found.stages if one.concurrency in losses and one.possible), None) if found else None
        point = pair.at(at.concurrency) if at else None
        if at is None or point is None or not _offers(campaign.rows[point.row_ids_on[0]]):
            continue
        for configuration, stage in campaign.cells_at(point.row_ids_on):
            config = json.loads(configuration.speculative_config or "{}")
            asked = configuration_with(configuration, config | {SAMPLER: SYNTHETIC, SYNTHETIC_RATES: at.rates})
            if asked.speculative_config not in known:
                cells = [Wanted(configuration=asked, stage=stage, repeats=_repeated(pair))]
                stages = (at.concurrency,)
                yield campaign.proposal("acceptance", pair, cells, _ids(point), concurrencies=stages, value=at.needed)


def _offers(row: Row) -> bool:
    """Whether the engine of a row samples with a synthetic acceptance."""
    version, _, build = row.engine_version.partition("+")
    parts = [int(one) for one in version.split(".")[:2] if one.isdigit()]
    return tuple(parts) >= SYNTHETIC_SINCE and WITHOUT_SYNTHETIC not in build
