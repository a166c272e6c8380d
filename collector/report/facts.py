"""What all measurements of a campaign have in common, or the values they take: the setup on its page."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from collector.report.tables import Record

#: Columns of the facts about a campaign, in the order of the page.
FACT_COLUMNS = (
    "gpu_model", "cpu_model", "driver_version", "p2p_driver", "nccl_p2p",
    "custom_all_reduce", "engine_kind", "engine_version", "image", "attention_backend",
    "tensor_parallel", "max_model_len", "max_num_seqs", "nvlink", "extra_flags", "model", "kv_cache_dtype",
    "speculation", "drafter", "prompt_set", "prompt_tokens_mean", "output_tokens", "concurrency",
    "window_method", "collector_version", "plan_digest",
)  # fmt: skip

#: Facts of host.json that no row has, in the order of the page; PCIe follows them.
HOST_FACTS = ("board", "kernel", "iommu", "cpu_governor")
#: What host.json says of the lanes of a GPU, and the word for it: in use, of the card, of the slot.
LANES = (("link_width", ""), ("link_width_max", "card "), ("slot_width_max", "slot "))


def host_facts(text: str | None) -> list[tuple[str, tuple[str, ...]]]:
    """Return what host.json states of board, kernel and PCIe; a fact that it does not state is left out."""
    stated: Any = json.loads(text) if text else {}
    if not isinstance(stated, dict):
        return []
    found = [(name, (str(stated[name]),)) for name in HOST_FACTS if stated.get(name)]
    gpus = stated.get("gpus")
    links = [_lanes(one) for one in gpus if isinstance(one, dict)] if isinstance(gpus, list) else []
    return found + ([("pcie", tuple(filter(None, links)))] if any(links) else [])


def _lanes(gpu: dict[str, Any]) -> str:
    """Return the lanes of a GPU, such as `x8 (card x16, slot x8)`; empty where none is known."""
    known = [(word, f"x{gpu[name]}") for name, word in LANES if gpu.get(name)]
    used = " ".join(lanes for word, lanes in known if not word)
    most = ", ".join(f"{word}{lanes}" for word, lanes in known if word)
    return f"{used} ({most})" if used and most else used or most


def facts(records: Sequence[Record]) -> list[tuple[str, tuple[str, ...]]]:
    """Return each fact with its distinct values; a fact that nothing states is left out."""
    found = []
    for name in FACT_COLUMNS:
        states = _FACTS.get(name, _plain(name))
        values = {states(one) for one in records if getattr(one, name, None) not in (None, "")}
        fuller = {key for key, text in values if text != _text(key)}
        kept = [(key, text) for key, text in values if text != _text(key) or key not in fuller]
        if kept:
            found.append((name, _in_order(name, [text for _, text in sorted(kept)])))
    return found


def _in_order(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Means of prompt lengths differ a little from row to row: their range says enough."""
    if name == "prompt_tokens_mean" and len(texts) > 1:
        return (f"{texts[0]}–{texts[-1]}",)
    return tuple(texts)


def _plain(name: str) -> Callable[[Any], tuple[Any, str]]:
    return lambda one: (getattr(one, name), _text(getattr(one, name)))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
