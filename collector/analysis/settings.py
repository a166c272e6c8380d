"""What to paste: for each model and load the configuration to serve with, as its own row has it.

A setting holds for the concurrencies at which it was chosen. Where speculation gains at some and loses at others, the
schedule that its ratios suggest stands beside it: a prediction until it is measured itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from collector.analysis.batching import LOAD, Choice, choice
from collector.analysis.latency import Within, bucket_of, within
from collector.analysis.noise import Noise
from collector.analysis.pairing import OFF, sortable
from collector.analysis.quantity import mean_of, usable
from collector.analysis.recommend import Advice, Judged
from collector.analysis.repeats import THROUGHPUT
from collector.analysis.schedule import Suggested, suggestions
from collector.analysis.study import Study
from collector.core.configuration import content_id
from collector.core.rows import Row
from collector.core.serving import Asked, Serving, serving_of

#: alone: a configuration with nothing to compare it with. too_slow: at no concurrency does p95 meet the target.
#: undecided: the bucket that holds p95 lies on both sides of the target. no_p95: the engine exposes none.
Missing = Literal["alone", "too_slow", "undecided", "no_p95"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One configuration to serve with. `choices`: by rising concurrency, what it was chosen by at each."""

    choices: tuple[Choice, ...]
    serving: Serving
    limited: bool = False  # max_num_seqs is lower than measured: at higher concurrency another one was chosen
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
        limit = f"-seqs-{self.serving.option('max-num-seqs')}" if self.limited else ""
        schedule = f"-schedule-{content_id({'config': self.suggested.config})[:6]}" if self.suggested else ""
        return f"{self.serving.configuration_id}{limit}{schedule}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """A model under one load: what to set, or why nothing can be said."""

    model: str
    known: tuple[tuple[str, Any], ...]  # batching.LOAD
    concurrencies: tuple[int, ...]
    settings: tuple[Setting, ...]
    missing: Missing | None = None

    def __getitem__(self, column: str) -> Any:
        return dict(self.known)[column]


def loads(
    study: Study,
    noise: Noise,
    ttft_p95_s: float | None = None,
) -> tuple[Load, ...]:
    """Return every load of every model.

    With a target for the 95th percentile of TTFT: the one setting with most throughput within it.
    """
    known = asked_of(study)
    done = {row.speculative_config for row in study.rows}
    suggested = [one for one in suggestions(study) if one.config not in done]
    found = []
    for (model, *load), rows in _grouped(study).items():
        setting = (
            _targeted(rows, ttft_p95_s, known) if ttft_p95_s is not None else _chosen(rows, noise, suggested, known)
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


def _grouped(study: Study) -> dict[tuple[Any, ...], list[Row]]:
    """Return the comparable rows by model and load, in a fixed order; NVLink on and off are two loads of a model."""
    grouped: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in usable(study.basis, THROUGHPUT):
        if row.system_throughput_tok_s:
            grouped[row.model, *(getattr(row, name) for name in LOAD)].append(row)
    nvlink = 1 + LOAD.index("nvlink")
    return {key: grouped[key] for key in sorted(grouped, key=lambda key: (key[0], key[nvlink] == OFF, *sortable(key)))}


def _chosen(
    rows: Sequence[Row], noise: Noise, suggested: Iterable[Suggested], plans: Mapping[str, Asked]
) -> tuple[Setting, ...] | Missing:
    by_stage: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_stage[row.concurrency].append(row)
    compared = [one for at in sorted(by_stage) if (one := choice(by_stage[at], noise)).considered > 1]
    grouped: dict[str, list[Choice]] = defaultdict(list)
    for one in compared:
        grouped[one.row.configuration_id].append(one)
    found = [_setting(own, compared[-1].concurrency, plans) for own in grouped.values()]
    scheduled = [one for setting in found for one in _scheduled(setting, suggested, plans)]
    return (*found, *scheduled) or "alone"


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
            limited = row.max_num_seqs is None or at < row.max_num_seqs
            serving = serving_of(row, plans.get(name), max_num_seqs=at)
            found.append(Setting(choices=(chosen,), serving=serving, limited=limited, target=limit))
    if found:
        return (max(found, key=lambda one: one.choices[0].throughput.value),)
    if any(one.undecided for one in limits.values()):
        return "undecided"
    return "too_slow" if any(bucket_of(own) for arm in arms.values() for own in arm.values()) else "no_p95"


def _setting(own: Sequence[Choice], highest: int, plans: Mapping[str, Asked]) -> Setting:
    """What was not chosen at the highest concurrency may not get there."""
    row, last = own[-1].row, own[-1].concurrency
    limited = last < highest and (row.max_num_seqs is None or last < row.max_num_seqs)
    serving = serving_of(row, plans.get(row.configuration_id), max_num_seqs=last if limited else None)
    return Setting(choices=tuple(own), serving=serving, limited=limited)


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
