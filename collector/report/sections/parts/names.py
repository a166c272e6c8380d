"""What drafters are called, and pairs of several series."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from collector.analysis.compared import Pair
from collector.analysis.drafters import OF_DRAFTER, Drafter
from collector.report.sections.parts.pair_labels import labels
from collector.report.tables import LABEL_VALUE_LIMIT, Label
from collector.report.text import cut

#: A sentence names at most this many models; of more it tells the number and the ends.
LISTED = 4
_WAY = ("model", "speculation", "num_speculative_tokens")


def drafter_labels(drafters: Sequence[Drafter]) -> list[Label]:
    """Return a label for each drafter, with the columns in which those of one model and way differ."""
    alike: dict[Any, list[Drafter]] = defaultdict(list)
    for one in drafters:
        alike[tuple(one[name] for name in _WAY)].append(one)
    found = []
    for one in drafters:
        others = alike[tuple(one[name] for name in _WAY)]
        differing = [name for name in OF_DRAFTER if len({other[name] for other in others}) > 1]
        stated = ((name, one[name]) for name in differing if name != "provenance" and one[name])
        found.append(
            Label(
                model=one["model"],
                speculation=one["speculation"],
                k=one["num_speculative_tokens"],
                varying=tuple((name, cut(str(value), LABEL_VALUE_LIMIT)[0]) for name, value in stated),
            )
        )
    return found


def pair_labels(pairs: Sequence[Pair], left_out: Sequence[str] = ()) -> list[Label]:
    """Return the label of each pair; a series is named only where two labels would be the same without it."""
    found = labels(pairs, left_out)
    plain = [replace(one, varying=tuple(item for item in one.varying if item[0] != "series")) for one in found]
    counts = Counter(plain)
    return [without if counts[without] == 1 else label for label, without in zip(found, plain, strict=True)]
