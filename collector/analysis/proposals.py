"""The few measurements that would decide most, each with its reason, the rows it rests on and what it costs.

Ranked by a rule: the best proposal of each kind first, in the order of KINDS, then the second of each, and so on.
Within a kind it is the one with the widest bracket, the effect nearest to noise, or the most throughput; one proposal
for each model and way of speculating, at its setting of the most concurrencies and then of the highest throughput.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from math import log

from collector.analysis.choosing import judging_of
from collector.analysis.compared import Pair, RatioPoint
from collector.analysis.narrowing import narrowing
from collector.analysis.needed import needed
from collector.analysis.noise import Noise, noise_of
from collector.analysis.pairing import KV_CACHE, NVLINK, SPECULATION
from collector.analysis.planned import leading
from collector.analysis.proposal import KINDS, Campaign, Kind, Proposal
from collector.analysis.recommend import advice
from collector.analysis.schedule import is_pure, suggestions
from collector.analysis.settled import (
    campaign_with_acceptance,
    campaign_with_point,
    campaign_with_schedule,
    campaign_within,
)
from collector.analysis.study import Study
from collector.core.configuration import Plan
from collector.core.follow_up import Wanted, configuration_with
from collector.core.prompt_names import GENERAL_SETS
from collector.core.rows import Row
from collector.core.speculative import SAMPLER, SYNTHETIC, SYNTHETIC_RATES

#: Repeats that an effect near noise gets: the fewest whose range says which of them is off.
REPEATS = 3
#: An effect between noise divided and multiplied by this is near it: another measurement may change its side.
NEAR = 2
#: The version whose source offers synthetic acceptance (vLLM's config/speculative.py), and the build that cannot.
SYNTHETIC_SINCE = (0, 27)
WITHOUT_SYNTHETIC = "cpu"


def proposals(study: Study, plans: Sequence[Plan], others: Sequence[Study] = ()) -> list[Proposal]:
    """Return what to measure next, what decides most first; [] where nothing is open.

    `others`: campaigns beside it. A proposal that one of them has measured comes with its name.
    """
    campaign = Campaign(study=study, plans=plans, others=others)
    noise = noise_of(study)
    made: dict[Kind, Iterable[Proposal]] = {
        "withheld": _withheld(campaign),
        "partner": _partners(campaign),
        "bracket": _brackets(campaign),
        "repeat": _repeats(campaign, noise),
        "schedule": _schedules(campaign, noise),
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


def _brackets(campaign: Campaign) -> Iterator[Proposal]:
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
            measured_in=campaign_within(campaign.others, one.pair, one.bracket.low, one.bracket.high),
        )


def _withheld(campaign: Campaign) -> Iterator[Proposal]:
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
            ends = tuple(dict.fromkeys(at for at, _ in own))
            yield campaign.proposal(
                "withheld",
                pair,
                cells,
                _pair_ids(pair),
                prompt_sets=sets,
                concurrencies=ends,
                value=value,
                measured_in=campaign_with_point(campaign.others, pair, ends, sets),
            )


def _partners(campaign: Campaign) -> Iterator[Proposal]:
    """Measure the side that a comparison lacks; a schedule needs none but that of its own proposal."""
    missing: dict[str, list[tuple[Pair, RatioPoint, list[Wanted]]]] = {}
    for factor in (SPECULATION, KV_CACHE, NVLINK):
        for pair in campaign.study.pairs(factor):
            for point in pair.points if is_pure(pair) else ():
                cells = _partner(campaign, pair, point)
                if cells:
                    missing.setdefault(cells[0].configuration.configuration_id, []).append((pair, point, cells))
    found = []
    for own in missing.values():
        at = tuple(sorted({point.concurrency for _, point, _ in own}))
        sets = tuple(dict.fromkeys(pair["prompt_set"] for pair, _, _ in own))
        found.append(
            campaign.proposal(
                "partner",
                own[0][0],
                [cell for _, _, cells in own for cell in cells],
                [name for _, point, _ in own for name in _ids(point)],
                concurrencies=at,
                prompt_sets=sets,
                measured_in=campaign_with_point(campaign.others, own[0][0], at, sets),
            )
        )
    yield from sorted(found, key=lambda one: (-len(one.cells), one.cost.seconds))


def _partner(campaign: Campaign, pair: Pair, point: RatioPoint) -> list[Wanted]:
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


def _repeats(campaign: Campaign, noise: Noise) -> Iterator[Proposal]:
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
            measured_in = campaign_with_point(campaign.others, pair, at, repeats=REPEATS)
            facts = {"concurrencies": at, "value": gain, "noise": percent, "measured_in": measured_in}
            yield campaign.proposal("repeat", pair, cells, ids, **facts)


def _schedules(campaign: Campaign, noise: Noise) -> Iterator[Proposal]:
    """Measure the schedule that a pair suggests, at every concurrency of the pair.

    It waits while the bracket that it turns in can be narrowed: measured before that, it would turn at a guess.
    """
    suggested = {id(one.pair): one for one in suggestions(campaign.study, judging_of(campaign.study, noise))}
    for pair in leading(one.pair for one in suggested.values()):
        one = suggested[id(pair)]
        if one.open and any(narrowing(each, campaign.cells) for each in one.pairs):
            continue
        cells = [
            Wanted(configuration=configuration_with(c, json.loads(one.config)), stage=stage, repeats=_repeated(pair))
            for c, stage in campaign.cells_at(name for point in pair.measured for name in point.row_ids_on)
        ]
        at = tuple(point.concurrency for point in pair.measured)
        facts = {"concurrencies": at, "ranges": one.ranges, "turns": one.open}
        measured_in = campaign_with_schedule(campaign.others, pair)
        yield campaign.proposal("schedule", pair, cells, one.ids, **facts, measured_in=measured_in)


def _acceptances(campaign: Campaign, noise: Noise) -> Iterator[Proposal]:
    """Ask the engine for the acceptance at which a loss should end, at the lowest concurrency that loses."""
    for pair in leading(campaign.pure):
        found = needed(pair, campaign.study.rows)
        losses = {point.concurrency for point in pair.measured if point.value and noise.side(point.value) < 0}
        at = next((one for one in found.stages if one.concurrency in losses and one.possible), None) if found else None
        point = pair.at(at.concurrency) if at else None
        row = campaign.rows[point.row_ids_on[0]] if point else None
        if at is None or point is None or row is None or not _offers(row):
            continue
        asked_in = campaign_with_acceptance((campaign.study, *campaign.others), row, at.needed.value)
        if asked_in == campaign.study.name:
            continue
        for configuration, stage in campaign.cells_at(point.row_ids_on):
            config = json.loads(configuration.speculative_config or "{}")
            asked = configuration_with(configuration, config | {SAMPLER: SYNTHETIC, SYNTHETIC_RATES: at.rates})
            cells = [Wanted(configuration=asked, stage=stage, repeats=_repeated(pair))]
            facts = {"concurrencies": (at.concurrency,), "value": at.needed, "measured_in": asked_in}
            yield campaign.proposal("acceptance", pair, cells, _ids(point), **facts)


def _offers(row: Row) -> bool:
    """Whether the engine of a row samples with a synthetic acceptance."""
    version, _, build = row.engine_version.partition("+")
    parts = [int(one) for one in version.split(".")[:2] if one.isdigit()]
    return tuple(parts) >= SYNTHETIC_SINCE and WITHOUT_SYNTHETIC not in build
