"""The home page and the list of campaigns: the answer on one screen, from the best study that there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment

from collector.analysis.draft_length import DraftLength, draft_lengths
from collector.analysis.recommend import advice
from collector.analysis.study import Study
from collector.core.rows import PROVENANCES
from collector.report.sections.recommendations import Card, cards
from collector.report.sections.summary import verdict
from collector.report.words import Words

#: With more models than this an answer counts them; the article names each.
NAMED_MODELS = 6
#: At most so many studies answer one question in the table; the others are linked.
MOST_STUDIES = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A study as the home page shows it."""

    study: Study
    found: Mapping[str, Any]  # what summary.verdict gives
    cards: tuple[Card, ...]
    lengths: tuple[DraftLength, ...]

    @property
    def provenance(self) -> str:
        return self.study.provenances[0] if self.study.provenances else ""

    @property
    def models(self) -> int:
        named = {row.model for row in self.study.records} | {one.labels.model for one in self.study.figures}
        return len(named - {None})

    @property
    def nvlink(self) -> Any:
        return self.found["lede"].nvlink


def home(studies: Sequence[Study], words: Words, environment: Environment) -> dict[str, str]:
    """Return index.md and campaigns/index.md."""
    shown = sorted((_shown(study, words) for study in studies), key=_rank)
    grouped = {name: [one for one in shown if one.provenance == name] for name in (*PROVENANCES, "")}
    context = {
        "shown": shown,
        "best": next((one for one in shown if one.study.provenances), None),
        "by_provenance": {name: own for name, own in grouped.items() if own},
        "provenances": PROVENANCES,
        "answers": {name: [one for one in shown if answers(one)] for name, answers in QUESTIONS.items()},
        "few": NAMED_MODELS,
        "most": MOST_STUDIES,
    }
    return {
        "index.md": environment.get_template("index.md.j2").render(**context),
        "campaigns/index.md": environment.get_template("campaigns.md.j2").render(**context),
    }


#: Whether a study has something to say to a question; the template says it.
QUESTIONS: Mapping[str, Callable[[Shown], bool]] = {
    "speculation": lambda one: any(card.speculation for card in one.cards),
    "drafters": lambda one: bool(one.lengths),
    "kv_cache": lambda one: any(card.kv_cache for card in one.cards),
    "nvlink": lambda one: one.nvlink is not None,
    "max_num_seqs": lambda one: any(card.batching for card in one.cards),
}


def _shown(study: Study, words: Words) -> Shown:
    _, found = advice(study)
    return Shown(
        study=study,
        found=verdict(study, words),
        cards=cards(study, found, (), words),
        lengths=tuple(one for model in found for one in draft_lengths(model)),
    )


def _rank(one: Shown) -> tuple[Any, ...]:
    """Measured before emulated before published; then what answers more questions, from more rows."""
    known = PROVENANCES.index(one.provenance) if one.provenance in PROVENANCES else len(PROVENANCES)
    return known, -sum(answers(one) for answers in QUESTIONS.values()), -len(one.study.rows), one.study.name
