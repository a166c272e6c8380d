"""What all measurements of a campaign have in common, or the values they take: the setup on its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from collector.report.tables import Record

#: Columns of the facts about a campaign, in the order of the page.
FACT_COLUMNS = (
    "gpu_model", "cpu_model", "driver_version", "engine_kind", "engine_version", "image", "attention_backend",
    "tensor_parallel", "max_model_len", "max_num_seqs", "nvlink", "extra_flags", "model", "kv_cache_dtype",
    "speculation", "drafter", "prompt_set", "prompt_tokens_mean", "output_tokens", "concurrency",
    "window_method", "collector_version", "plan_digest",
)  # fmt: skip


def facts(records: Sequence[Record]) -> list[tuple[str, tuple[str, ...]]]:
    """Return each fact with its distinct values; a fact that nothing states is left out."""
    found = []
    for name in FACT_COLUMNS:
        states = _FACTS.get(name, _plain(name))
        values = {states(one) for one in records if getattr(one, name, None) not in (None, "")}
        fuller = {key for key, text in values if text != str(key)}
        kept = [(key, text) for key, text in values if text != str(key) or key not in fuller]
        if kept:
            found.append((name, _in_order(name, [text for _, text in sorted(kept)])))
    return found


def _in_order(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Means of prompt lengths differ a little from row to row: their range says enough."""
    if name == "prompt_tokens_mean" and len(texts) > 1:
        return (f"{texts[0]}–{texts[-1]}",)
    return tuple(texts)


def _plain(name: str) -> Callable[[Any], tuple[Any, str]]:
    return lambda one: (getattr(one, name), str(getattr(one, name)))


def _gpu(one: Any) -> tuple[Any, str]:
    return one.gpu_model, one.gpu_model if one.gpu_count is None else f"{one.gpu_count} × {one.gpu_model}"


def _model(one: Any) -> tuple[Any, str]:
    path = getattr(one, "model_path", None)
    revision = f" @ {one.model_revision}" if getattr(one, "model_revision", None) else ""
    return one.model, f"{one.model} ({path}{revision})" if path else one.model


def _speculation(one: Any) -> tuple[Any, str]:
    k = f" k={one.num_speculative_tokens}" if one.num_speculative_tokens is not None else ""
    return one.speculation, f"{one.speculation}{k}"


def _concurrency(one: Any) -> tuple[Any, str]:
    return one.concurrency, f"{one.concurrency} ({one.requests})"


def _prompt_tokens(one: Any) -> tuple[Any, str]:
    return round(one.prompt_tokens_mean), f"{one.prompt_tokens_mean:.0f}"


_FACTS: dict[str, Callable[[Any], tuple[Any, str]]] = {
    "gpu_model": _gpu,
    "model": _model,
    "speculation": _speculation,
    "concurrency": _concurrency,
    "prompt_tokens_mean": _prompt_tokens,
}
