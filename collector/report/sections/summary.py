"""The lede: the verdict first, as sentences with numbers, chosen by what the study holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from collector.analysis import lede as finding
from collector.analysis.compared import RatioPoint
from collector.analysis.lede import Behaviour
from collector.analysis.study import Study
from collector.report.sections.parts.conditions import conditions, spread_note
from collector.report.sections.parts.outcomes import ORDER, outcome, rank, short_outcome
from collector.report.sections.parts.pair_labels import labels, ordered
from collector.report.tables import Label, label_of
from collector.report.words import Words

#: With more ways than this they are counted by what they do; the chart and its table name each.
NAMED_WAYS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """A way of speculating as the lede shows it."""

    label: Label
    found: Behaviour


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return what the section's template is rendered from."""
    return {"found": verdict(study, words)}


def verdict(study: Study, words: Words) -> dict[str, Any]:
    """Return the findings that lead a study. The home page shows them as well."""
    found = finding.lede(study)
    ways = _ways(found)
    return {
        "lede": found,
        "ways": ways,
        "reversal": next((one for one in ways if one.found is found.reversal), None),
        "few": len(ways) <= NAMED_WAYS,
        "peak_label": label_of(found.peak_row, ()) if found.peak_row else None,
        "outcome": lambda name: outcome(name, words),
        "short": lambda name: short_outcome(name, words),
        "order": ORDER,
        "by_model": _by_model(ways),
        "HALF": finding.HALF,
        "conditions": _conditions(study, found, words),
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelWays:
    """The ways of one model together: how many do what, and the ends of their ratios."""

    ways: tuple[Way, ...]

    @property
    def outcomes(self) -> list[tuple[str, int]]:
        counted = Counter(one.found.verdict.outcome for one in self.ways)
        return sorted(counted.items(), key=lambda one: rank(one[0]))

    @property
    def closest(self) -> Way | None:
        """Return the way whose break-even lies between the two nearest concurrencies."""
        known = [(one.found.bracket, one) for one in self.ways]
        placed = [(found.high / found.low, place) for place, (found, _) in enumerate(known) if found]
        return known[min(placed)[1]][1] if placed else None

    @property
    def best(self) -> RatioPoint:
        return max((one.found.verdict.best for one in self.ways), key=lambda point: point.ratio or 0.0)

    @property
    def worst(self) -> RatioPoint:
        return min((one.found.verdict.worst for one in self.ways), key=lambda point: point.ratio or 0.0)


def _by_model(ways: list[Way]) -> dict[str, ModelWays]:
    """Put the ways of each model together; nothing where there are too many models to name."""
    found: dict[str, list[Way]] = {}
    for one in ways:
        found.setdefault(one.label.model, []).append(one)
    return {name: ModelWays(ways=tuple(own)) for name, own in found.items()} if len(found) <= NAMED_WAYS else {}


def _conditions(study: Study, found: finding.Lede, words: Words) -> tuple[str, ...]:
    if found.panel is None:
        return conditions(study, words)
    pairs = [one.pair for one in found.behaviours]
    return (*conditions(study, words, pairs), spread_note(study, pairs, words))


def _ways(found: finding.Lede) -> list[Way]:
    """Return the ways of the main panel, grouped by what they do."""
    by_pair = {id(one.pair): one for one in found.behaviours}
    pairs = ordered(one.pair for one in found.behaviours)
    ways = [Way(label=label, found=by_pair[id(pair)]) for pair, label in zip(pairs, labels(pairs), strict=True)]
    return sorted(ways, key=lambda one: rank(one.found.verdict.outcome))
