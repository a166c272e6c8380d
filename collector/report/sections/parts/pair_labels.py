"""What the pairs of a panel are called, so that no two of them look alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from collector.analysis.compared import Pair
from collector.analysis.pairing import sortable
from collector.report.tables import FINE_COLUMNS, Label, label_of
from collector.report.words import Words

#: Shown on every label where the panel varies it: a reader asks for it.
ASKED_FOR = ("kv_cache_dtype", "nvlink", "prompt_set")
#: Shown only where the columns above leave two pairs of one model and way alike.
WHERE_NEEDED = ("series", *FINE_COLUMNS)
_ORDER = ("model", "kv_cache_dtype", "nvlink", "speculation", "num_speculative_tokens", "series", "prompt_set")


def ordered(pairs: Iterable[Pair]) -> list[Pair]:
    """Return pairs by model, dtype and way: the order of legends and tables."""
    return sorted(pairs, key=lambda pair: sortable(pair.get(name) for name in _ORDER))


def labels(pairs: Sequence[Pair], left_out: Sequence[str] = ()) -> list[Label]:
    """Return the label of each pair. `left_out` are columns that stand above the table already."""
    asked = [name for name in ASKED_FOR if _varies(pairs, name)]
    alike: dict[object, list[Pair]] = defaultdict(list)
    for pair in pairs:
        way = ("model", "speculation", "num_speculative_tokens", *asked)
        alike[tuple(pair.get(name) for name in way)].append(pair)
    needed = [name for name in WHERE_NEEDED if any(_varies(own, name) for own in alike.values())]
    return [label_of(pair, [name for name in (*asked, *needed) if name not in left_out]) for pair in pairs]


def _varies(pairs: Iterable[Pair], name: str) -> bool:
    return len({pair.get(name) for pair in pairs}) > 1


def plain_label(label: Label, words: Words, *, model: bool = True) -> str:
    """Return a label as plain text, for legends of charts and titles."""
    off = str(words.t("추측 끔", "speculation off"))
    way = off if label.off else label.speculation + ("" if label.k is None else f" k={label.k}")
    names = {
        "schedule": str(words.t("배치별 k", "k by batch")),
        "kv_cache_dtype": "KV",
        "nvlink": "NVLink",
        "series": str(words.t("묶음", "series")),
    }
    varying = [f"{names[name]} {value}" if name in names else value for name, value in label.varying]
    return " · ".join([*([label.model] if model else []), way, *varying])
