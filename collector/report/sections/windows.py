"""The two window methods side by side; nothing where no cell was measured by both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from collector.analysis.study import Study
from collector.analysis.windows import Cell, Effect, Windows, windows
from collector.report.naming import conditions, row_labels
from collector.report.sections.parts.pair_labels import labels
from collector.report.tables import Label
from collector.report.words import Words


@dataclass(frozen=True, kw_only=True, slots=True)
class Of:
    """The cells of one configuration under one load, by rising concurrency."""

    label: Label
    prompts: str
    cells: list[Cell]


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return what the section's template is rendered from."""
    found = windows(study)
    if found is None:
        return {"found": None}
    own = _by_configuration(found)
    slower = [(one, cell) for one in own for cell in one.cells if cell.decode and found.decode.side(cell.decode) < 0]
    systems = sorted((cell.system for one in own for cell in one.cells), key=lambda ratio: ratio.value)
    return {
        "found": found,
        "own": own,
        "prompts": len({one.prompts for one in own}) > 1,
        "systems": (systems[0], systems[-1]),
        "moved": any(found.system.side(one) for one in systems),
        "slowest": min(slower, key=lambda item: item[1].decode.value if item[1].decode else 0.0, default=None),
        "effects": _effects(found),
        "conditions": conditions([cell.record for cell in found.cells], words),
    }


def _by_configuration(found: Windows) -> list[Of]:
    named = row_labels([cell.record for cell in found.cells])
    grouped: dict[tuple[str, str, int], Of] = {}
    for cell, label in zip(found.cells, named, strict=True):
        row = cell.record
        of = Of(label=label, prompts=row.prompt_set, cells=[])
        grouped.setdefault((row.configuration_id, row.prompt_set, row.output_tokens), of).cells.append(cell)
    return list(grouped.values())


def _effects(found: Windows) -> list[tuple[Label, list[Effect]]]:
    pairs = list({id(one.pair): one.pair for one in found.effects}.values())
    return [
        (label, [one for one in found.effects if one.pair is pair])
        for pair, label in zip(pairs, labels(pairs), strict=True)
    ]
