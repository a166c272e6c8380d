"""Pairs that lie on one pair of axes: a chart and its table. What can be compared, and most of it, comes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from collector.analysis.compared import Pair
from collector.analysis.pairing import OFF, sortable
from collector.core.rows import PROVENANCES
from collector.core.window import STEADY

#: Other prompts, lengths or links get a chart of their own.
COLUMNS = ("provenance", "prompt_set", "prompt_set_digest", "output_tokens", "window_method", "nvlink")


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """Pairs that share a chart. `setting` holds what tells this panel from the others of its study."""

    setting: tuple[tuple[str, str], ...]
    pairs: tuple[Pair, ...]

    @property
    def measured(self) -> tuple[Pair, ...]:
        """Return the pairs with at least one ratio."""
        return tuple(pair for pair in self.pairs if pair.measured)

    @property
    def provenance(self) -> str:
        return str(self.pairs[0]["provenance"])


def panels(found: Sequence[Pair]) -> tuple[Panel, ...]:
    """Return the panels of these pairs, the main one first."""
    grouped: dict[tuple[Any, ...], list[Pair]] = defaultdict(list)
    for pair in found:
        if pair.points:
            grouped[tuple(pair[name] for name in COLUMNS)].append(pair)
    differing = {name for place, name in enumerate(COLUMNS) if len({key[place] for key in grouped}) > 1}
    if "prompt_set" in differing:
        differing.discard("prompt_set_digest")
    return tuple(
        Panel(
            setting=tuple(
                (name, str(value)) for name, value in zip(COLUMNS, key, strict=True) if value and name in differing
            ),
            pairs=tuple(grouped[key]),
        )
        for key in sorted(grouped, key=lambda key: _rank(key, grouped[key]))
    )


def _rank(key: tuple[Any, ...], pairs: Sequence[Pair]) -> tuple[Any, ...]:
    provenance, *_, window, nvlink = key
    trust = PROVENANCES.index(provenance) if provenance in PROVENANCES else len(PROVENANCES)
    compared = sum(1 for pair in pairs if pair.measured)
    return (not compared, trust, -compared, window == STEADY, nvlink == OFF, sortable(key))


def like_main(found: Sequence[Panel]) -> tuple[Pair, ...]:
    """Return the compared pairs under the main panel's provenance, link and window, on whatever prompts."""
    if not found:
        return ()
    return tuple(pair for panel in found for pair in panel.measured if _same_link(pair, found[0].pairs[0]))


def pairs_of(model: str, found: Sequence[Panel]) -> tuple[Pair, ...]:
    """Return the compared pairs of a model like the main panel; where it has none there, of its first other panel."""
    main = tuple(pair for pair in like_main(found) if pair["model"] == model)
    others = [tuple(pair for pair in panel.measured if pair["model"] == model) for panel in found]
    return main or next((pairs for pairs in others if pairs), ())


def _same_link(one: Pair, other: Pair) -> bool:
    return all(one[name] == other[name] for name in ("provenance", "nvlink", "window_method"))
