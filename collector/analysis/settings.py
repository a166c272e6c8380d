"""What to paste: for each model and load the configurations to serve with, as their own rows have them.

They are as few as the rows carry (choosing.py). Where that is more than one, each holds for its concurrencies, and one
is named for a load that varies. Where speculation gains at some and loses at others, the schedule that its ratios
suggest stands beside them: a prediction until it is measured itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from collector.analysis.batching import last_step
from collector.analysis.choosing import (
    LOAD,
    Anywhere,
    Choice,
    Judging,
    anywhere,
    choose,
    compared_rows,
    grouped,
    judging_of,
)
from collector.analysis.compared import THROUGHPUT
from collector.analysis.latency import Within, bucket_of, within
from collector.analysis.noise import Noise
from collector.analysis.pairing import OFF
from collector.analysis.quantity import mean_of
from collector.analysis.recommend import Advice, Judged
from collector.analysis.schedule import Suggested, suggestions
from collector.analysis.study import Study
from collector.core.configuration import content_id
from collector.core.rows import Row
from collector.core.serving import Asked, Serving, serving_of
from collector.core.speculative import reachable

#: alone: a configuration with nothing to compare it with. too_slow: at no concurrency does p95 meet the target.
#: undecided: the bucket that holds p95 lies on both sides of the target. no_p95: the engine exposes none.
Missing = Literal["alone", "too_slow", "undecided", "no_p95"]

#: Why max_num_seqs is lower than it was measured with. other: at higher concurrency another one was chosen. no_gain:
#: the last step of concurrency brought no throughput. target: above it p95 of TTFT misses the target.
Limit = Literal["other", "no_gain", "target"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One configuration to serve with. `choices`: by rising concurrency, what it was chosen by at each."""

    choices: tuple[Choice, ...]
    serving: Serving
    limit: Limit | None = None  # then no row has this max_num_seqs
    varying: Anywhere | None = None  # what makes it the one for a load that varies
    suggested: Suggested | None = None  # the schedule put into it, which nobody has measured
    target: Within | None = None  # what a target for TTFT allows it

    @property
    def row(self) -> Row:
        return self.choices[-1].row

    @property
    def concurrencies(self) -> tuple[int, ...]:
        return tuple(one.concurrency for one in self.choices)

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the rows that prove it."""
        own = [name for one in self.choices for name in one.throughput.ids]
        return tuple(dict.fromkeys([*own, *(self.suggested.ids if self.suggested else ())]))

    @property
    def file(self) -> str:
        """Return what its files are called, without a suffix."""
        limit = f"-seqs-{self.serving.option('max-num-seqs')}" if self.limit else ""
        schedule = f"-schedule-{content_id({'config': self.suggested.config})[:6]}" if self.suggested else ""
        return f"{self.serving.configuration_id}{limit}{schedule}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """A model under one load: what to set, or why nothing can be said."""

    model: str
    known: tuple[tuple[str, Any], ...]  # choosing.LOAD
    concurrencies: tuple[int, ...]
    settings: tuple[Setting, ...]
    missing: Missing | None = None

    def __getitem__(self, column: str) -> Any:
        return dict(self.known)[column]

    @property
    def compared(self) -> tuple[int, ...]:
        """Return the concurrencies that its settings were chosen at."""
        return tuple(sorted({at for one in self.settings for at in one.concurrencies}))


def loads(study: Study, noise: Noise, ttft_p95_s: float | None = None) -> tuple[Load, ...]:
    """Return every load of every model.

    With a target for the 95th percentile of TTFT: the one setting with most throughput within it.
    """
    known = asked_of(study)
    judging = judging_of(study, noise)
    suggested = suggestions(study, judging)
    found = []
    for (model, *load), rows in grouped(study).items():
        setting = (
            _targeted(rows, ttft_p95_s, known) if ttft_p95_s is not None else _chosen(rows, judging, suggested, known)
        )
        found.append(
            Load(
                model=model,
                known=tuple(zip(LOAD, load, strict=True)),
                concurrencies=tuple(sorted({row.concurrency for row in rows})),
                settings=() if isinstance(setting, str) else setting,
                missing=setting if isinstance(setting, str) else None,
            )
        )
    return tuple(found)


def main_of(found: Iterable[Load]) -> Load | None:
    """Return the load that was compared at the most concurrencies, of equal ones the first; None where none was."""
    return max((one for one in found if one.settings), key=lambda one: len(one.compared), default=None)


def asked_of(study: Study) -> dict[str, Asked]:
    """Return what the stored plans say of each configuration, by its id."""
    return {
        one.configuration_id: Asked(configuration=one, container=plan.engine.container)
        for plan in study.plans
        for one in plan.configurations
    }


def withheld(load: Load, advice: Iterable[Advice]) -> list[Judged]:
    """Return the verdicts on speculation that were withheld under this load: no setting of it carries them.

    What is accepted of a prompt does not depend on the link between the cards, so one verdict serves both.
    """
    judged = [one for found in advice if found.model == load.model for one in found.speculation]
    like = [one for one in judged if all(one.pair[name] == load[name] for name in LOAD if name != "nvlink")]
    return [one for one in like if one.verdict == "withheld"]


def _chosen(
    rows: Sequence[Row], judging: Judging, suggested: Iterable[Suggested], plans: Mapping[str, Asked]
) -> tuple[Setting, ...] | Missing:
    compared = compared_rows(rows)
    chosen = choose(compared, judging)
    by_configuration: dict[str, list[Choice]] = defaultdict(list)
    for one in chosen:
        by_configuration[one.row.configuration_id].append(one)
    if not chosen:
        return "alone"
    highest = chosen[-1].concurrency
    found = [_setting(own, highest, rows, judging, plans) for own in by_configuration.values()]
    scheduled = [one for setting in found for one in _scheduled(setting, suggested, plans)]
    if len(found) > 1 and (varying := anywhere(compared, judging)):
        found = _with_varying(found, varying, plans)
    return (*found, *scheduled)


def _with_varying(found: Sequence[Setting], varying: Anywhere, plans: Mapping[str, Asked]) -> list[Setting]:
    """Mark the setting for a load that varies; where none of those chosen may go everywhere, it comes first."""
    row = varying.choices[-1].row
    for one in found:
        if one.row.configuration_id == row.configuration_id and one.limit != "other":
            return [replace(each, varying=varying) if each is one else each for each in found]
    serving = serving_of(row, plans.get(row.configuration_id))
    return [Setting(choices=varying.choices, serving=serving, varying=varying), *found]


def _targeted(rows: Sequence[Row], target_s: float, plans: Mapping[str, Asked]) -> tuple[Setting, ...] | Missing:
    """Return the configuration with most throughput within a target, at the highest concurrency that meets it."""
    arms: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        arms[row.configuration_id][row.concurrency].append(row)
    limits = {name: within([(at, bucket_of(own[at])) for at in sorted(own)], target_s) for name, own in arms.items()}
    found = []
    for name, limit in sorted(limits.items()):
        at = limit.concurrency
        throughput = mean_of(arms[name][at], THROUGHPUT) if at else None
        if at and throughput:
            row = arms[name][at][0]
            chosen = Choice(concurrency=at, row=row, throughput=throughput, considered=len(arms))
            lowered: Limit | None = "target" if row.max_num_seqs is None or at < row.max_num_seqs else None
            serving = serving_of(row, plans.get(name), max_num_seqs=at)
            found.append(Setting(choices=(chosen,), serving=serving, limit=lowered, target=limit))
    if found:
        return (max(found, key=lambda one: one.choices[0].throughput.value),)
    if any(one.undecided for one in limits.values()):
        return "undecided"
    return "too_slow" if any(bucket_of(own) for arm in arms.values() for own in arm.values()) else "no_p95"


def _setting(
    own: Sequence[Choice], highest: int, rows: Sequence[Row], judging: Judging, plans: Mapping[str, Asked]
) -> Setting:
    """What was not chosen at the highest concurrency may not get there, nor where more sequences gain nothing."""
    row, most = own[-1].row, own[-1].concurrency
    limit: Limit | None = None
    step = last_step((one for one in rows if one.configuration_id == row.configuration_id), judging.pairs)
    if most < highest:
        limit = "other"
    elif step and step.high == highest and not step.pays:
        limit, most = "no_gain", step.low
    if limit is None or (row.max_num_seqs is not None and most >= row.max_num_seqs):
        return Setting(choices=tuple(own), serving=serving_of(row, plans.get(row.configuration_id)))
    config = reachable(row.speculative_config, most)
    serving = serving_of(row, plans.get(row.configuration_id), max_num_seqs=most, speculative_config=config)
    return Setting(choices=tuple(own), serving=serving, limit=limit)


def _scheduled(setting: Setting, suggested: Iterable[Suggested], plans: Mapping[str, Asked]) -> list[Setting]:
    """Return the setting with the schedule that was suggested from its own rows, for any concurrency."""
    row = setting.row
    own = [one for one in suggested if row.row_id in one.ids and row.speculation != OFF]
    return [
        Setting(
            choices=setting.choices,
            serving=serving_of(row, plans.get(row.configuration_id), speculative_config=one.config),
            suggested=one,
        )
        for one in own[:1]
    ]
