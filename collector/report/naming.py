"""Names of configurations as plain text for charts, and the scope of a claim: what it was measured on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from collector.core.rows import Row
from collector.report.facts import facts
from collector.report.tables import FINE_COLUMNS, Label, label_of
from collector.report.words import Words

#: What a claim about rows holds for, in this order.
SCOPE = ("gpu_model", "engine_version", "model_path", "kv_cache_dtype", "nvlink", "prompt_set", "prompt_tokens_mean")
#: Columns whose value is clear by itself; others are said with their name.
CLEAR = ("gpu_model",)

#: Shown on every label where anything varies them: a reader asks for them.
ASKED_FOR = ("kv_cache_dtype", "nvlink")
#: Shown where configurations look alike without them.
WHERE_NEEDED = ("series", *FINE_COLUMNS)

_WORDS = {
    "series": ("묶음", "series"),
    "kv_cache_dtype": ("KV", "KV"),
    "nvlink": ("NVLink", "NVLink"),
    "drafter": ("드래프터", "drafter"),
    "schedule": ("배치별 k", "k by batch"),
    "synthetic_acceptance": ("지정 수용", "acceptance set"),
    "engine_version": ("vLLM", "vLLM"),
    "prompt_set": ("프롬프트", "prompts"),
    "prompt_tokens_mean": ("프롬프트 토큰", "prompt tokens"),
    "model_path": ("가중치", "weights"),
}


def way_name(label: Label, words: Words) -> str:
    """Return how a configuration speculates."""
    if label.off:
        return str(words.t("추측 끔", "speculation off"))
    return label.speculation if label.k is None else f"{label.speculation} k={label.k}"


def chart_name(label: Label, words: Words) -> str:
    """Return what a configuration is called beside a line of a chart."""
    varying = (f"{_word(name, words)} {value}" for name, value in label.varying)
    return " · ".join((label.model, way_name(label, words), *varying))


def row_labels(rows: Sequence[Row]) -> list[Label]:
    """Return a label for each row, a configuration's. Beyond dtype and link it has what else tells it from others."""
    asked = [name for name in ASKED_FOR if len({getattr(row, name) for row in rows}) > 1]
    alike: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        alike[_told(row)].append(row)
    return [
        label_of(row, [*asked, *(name for name in WHERE_NEEDED if _varies(alike[_told(row)], name))]) for row in rows
    ]


def _told(row: Row) -> tuple[object, ...]:
    return (row.model, row.speculation, row.num_speculative_tokens, *(getattr(row, name) for name in ASKED_FOR))


def _varies(rows: Sequence[Row], name: str) -> bool:
    return len({getattr(row, name) for row in rows}) > 1


def conditions(rows: Sequence[Row], words: Words) -> list[str]:
    """Return what rows have in common, as the scope of a claim about them; what differs is left out."""
    known = {name: values[0] for name, values in facts(rows) if len(values) == 1}
    names = {weights(row) for row in rows}
    if len(names) == 1:
        known["model_path"] = names.pop()
    shown = [name for name in SCOPE if name in known]
    return [known[name] if name in CLEAR else f"{_word(name, words)} {known[name]}" for name in shown]


def weights(row: Row) -> str:
    """Return the last part of where the weights are; a folder may be written with a slash at its end."""
    return row.model_path.rstrip("/").rpartition("/")[2] or row.model_path


def _word(name: str, words: Words) -> str:
    return str(words.t(*_WORDS.get(name, (name, name))))
