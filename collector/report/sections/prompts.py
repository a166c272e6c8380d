"""Where the acceptance depends on the prompt: whom a verdict on one prompt does not speak for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from collector.analysis.acceptance import ACCEPTS_NOTHING
from collector.analysis.drafters import SYNTHETIC, Drafter, drafters, in_order
from collector.analysis.figures import Figure
from collector.analysis.noise import noise_of
from collector.analysis.pairing import OFF
from collector.analysis.prompt_kinds import (
    STRONGLY,
    Case,
    cases,
    compared_on_both,
    costs_more_with_k,
    largest_sample,
)
from collector.analysis.quantity import Quantity, mean_of, pooled_of
from collector.analysis.study import Study
from collector.analysis.under_load import Span, spans
from collector.core.rows import Row, comparable
from collector.report.prompt_words import prompt_word
from collector.report.sections.parts.conditions import conditions
from collector.report.sections.parts.names import LISTED, drafter_labels
from collector.report.sections.parts.shown import number
from collector.report.tables import Label
from collector.report.words import Words

#: What a published count says of itself when none of its drafts was accepted.
NONE_ACCEPTED = "0 of them accepted"
#: ... and an acceptance that holds at every concurrency.
EVERYWHERE = "at every measured concurrency"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The acceptance of one configuration in one stage; its repeats are pooled."""

    dtype: str
    nvlink: str | None
    prompts: str
    concurrency: int
    drafted: Quantity
    accepted: Quantity
    rate: Quantity


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A case as the page shows it. `everywhere`: nothing was accepted in any stage of the synthetic prompt."""

    label: Label
    case: Case
    stages: tuple[Stage, ...]
    everywhere: bool

    @property
    def busiest(self) -> Stage | None:
        """Return the stage of the synthetic prompt with most requests in flight, with NVLink where it was varied."""
        own = [one for one in self.stages if one.prompts == SYNTHETIC]
        return max(own, key=lambda one: (one.concurrency, one.nvlink or ""), default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranged:
    """A drafter whose gain was measured on several prompts."""

    label: Label
    span: Span


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The cases of one model. `count` is a published number of drafts of which none was accepted."""

    model: str
    provenance: str
    entries: tuple[Entry, ...]
    worse_with_k: bool
    count: Figure | None
    sample: Quantity | None
    weights: Figure | None


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return the drafters whose acceptance depends on the prompt, and how many were compared."""
    found = drafters(study)
    labels = {id(one): label for one, label in zip(found, drafter_labels(found), strict=True)}
    ranges = [Ranged(label=labels[id(one.drafter)], span=one) for one in spans(study, found)]
    groups = [_group(study, members, labels) for members in cases(study, found)]
    return {
        "drafters": found,
        "both": compared_on_both(found),
        "sets": in_order({name for one in found for name in one.rate if name != "general"}),
        "groups": groups,
        "spans": ranges,
        "span_sets": in_order({name for one in ranges for name, _ in one.span.points}),
        "noise": noise_of(study),
        "conditions": conditions(study, words),
        "prompt": partial(prompt_word, words),
        "number": number(study, words),
        "STRONGLY": STRONGLY,
        "ACCEPTS_NOTHING": ACCEPTS_NOTHING,
        "LISTED": LISTED,
    }


def _group(study: Study, members: tuple[Case, ...], labels: dict[int, Label]) -> Group:
    model = members[0].drafter["model"]
    counts = [one for one in study.figures_of("drafts", model=model) if one.note.startswith(NONE_ACCEPTED)]
    return Group(
        model=model,
        provenance=members[0].drafter["provenance"],
        entries=tuple(_entry(study, one, labels[id(one.drafter)]) for one in members),
        worse_with_k=costs_more_with_k(members),
        count=counts[0] if counts else None,
        sample=largest_sample(study, model),
        weights=next(iter(study.figures_of("mtp_weights", model=model)), None),
    )


def _entry(study: Study, case: Case, label: Label) -> Entry:
    stages = _stages(case.drafter)
    synthetic = [one for one in stages if one.prompts == SYNTHETIC]
    if study.is_published:
        notes = [one.note for one in study.figures_of("acceptance_rate", prompt_set=SYNTHETIC, model=label.model)]
        everywhere = any(note.startswith(EVERYWHERE) for note in notes)
    else:
        everywhere = bool(synthetic) and all(one.rate.value <= ACCEPTS_NOTHING for one in synthetic)
    return Entry(label=label, case=case, stages=stages, everywhere=everywhere)


def _stages(drafter: Drafter) -> tuple[Stage, ...]:
    """Return a line for each configuration and stage whose checks held."""
    places = {name: place for place, name in enumerate(in_order({row.prompt_set for row in drafter.rows}))}

    def of(row: Row) -> tuple[Any, ...]:
        without_link = row.nvlink == OFF
        return row.kv_cache_dtype, without_link, row.configuration_id, places[row.prompt_set], row.concurrency

    rows = sorted((row for row in drafter.rows if comparable(row) and row.draft_tokens), key=of)
    found = []
    for _, group in groupby(rows, key=of):
        members = list(group)
        rate = pooled_of(members, "accepted_tokens", "draft_tokens")
        drafted, accepted = (mean_of(members, name) for name in ("draft_tokens", "accepted_tokens"))
        if rate and drafted and accepted:
            found.append(
                Stage(
                    dtype=members[0].kv_cache_dtype,
                    nvlink=members[0].nvlink,
                    prompts=members[0].prompt_set,
                    concurrency=members[0].concurrency,
                    drafted=drafted,
                    accepted=accepted,
                    rate=rate,
                )
            )
    return tuple(found)
