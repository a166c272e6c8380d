"""Data and scope: what was counted, how well it repeats, what the conclusions hold for, what is left to measure."""

from __future__ import annotations

from typing import Any

from collector.analysis.noise import noise_of
from collector.analysis.proposals import proposals
from collector.analysis.scope import Smallest, Unmeasured, cells_of, left_open, smallest_effect
from collector.analysis.study import Study
from collector.report.proposal_words import label as pair_label
from collector.report.proposal_words import minutes, reason
from collector.report.sections.parts.conditions import conditions
from collector.report.sections.parts.pair_labels import labels
from collector.report.tables import Label
from collector.report.words import Words

#: With more ways than this a follow-up names the concurrencies only.
NAMED_BRACKETS = 6
#: Measurements that the article proposes; `collector next` knows the others.
MOST_PROPOSED = 3


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return what the section's template is rendered from."""
    noise = noise_of(study)
    smallest = smallest_effect(study, noise)
    left = left_open(study)
    measured = cells_of(study.rows)
    return {
        "configurations": len({row.configuration_id for row in study.rows}),
        "never_ran": len(
            {one.configuration_id for one in study.failures} - {row.configuration_id for row in study.rows}
        ),
        "cells": len(measured),
        "repeats": (min(measured.values()), max(measured.values())) if measured else (0, 0),
        "printed": {name: figure for name in PRINTED for figure in study.figures_of(name)},
        "noise": noise,
        "smallest": smallest,
        "smallest_label": _label(study, smallest) if smallest else None,
        "left": left,
        "brackets": (brackets := _brackets(left.brackets)),
        "named": sum(len(ways) for _, ways in brackets) <= NAMED_BRACKETS,
        "conditions": conditions(study, words),
        "proposed": [
            (pair_label(one), reason(one, words), minutes(one, words))
            for one in (proposals(study, study.plans) if study.plans else [])[:MOST_PROPOSED]
        ],
    }


def _label(study: Study, smallest: Smallest) -> Label:
    """Return what tells its pair from the others of the same factor."""
    pairs = [pair for pair in study.pairs(smallest.factor) if pair.measured]
    return next(label for label, pair in zip(labels(pairs), pairs, strict=True) if pair == smallest.pair)


#: What a published study printed about itself.
PRINTED = ("configurations_started", "configurations_failed", "measurement_rows")


def _brackets(found: tuple[Unmeasured, ...]) -> list[tuple[tuple[int, ...], list[Label]]]:
    """Put the ways together that the same concurrencies would tighten."""
    named = labels([one.pair for one in found])
    grouped: dict[tuple[int, ...], list[Label]] = {}
    for one, label in zip(found, named, strict=True):
        grouped.setdefault((one.bracket.low, one.bracket.high), []).append(label)
    return sorted(grouped.items())
