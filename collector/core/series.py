"""Which exposed series supplies which quantity, for every vLLM from 0.10 on, in one table.

Sources: scrapes of 0.10.2, 0.11.2, 0.14.1, 0.18.1, 0.22.1, 0.27.0 and 0.32.0. Several names of a
quantity are in order of preference and are never added up: 0.10 exposes old and new names side by side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from collector.core.errors import DataError

#: Exposed name and label set to value, as parsed from one scrape.
LabelSet = tuple[tuple[str, str], ...]
Samples = Mapping[str, Mapping[LabelSet, float]]

COUNTERS: dict[str, tuple[str, ...]] = {
    "generation_tokens": ("vllm:generation_tokens_total",),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "requests_succeeded": ("vllm:request_success_total",),
    "preemptions": ("vllm:num_preemptions_total",),
    "prefix_queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix_hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "drafts": ("vllm:spec_decode_num_drafts_total",),
    "draft_tokens": ("vllm:spec_decode_num_draft_tokens_total",),
    "accepted_tokens": ("vllm:spec_decode_num_accepted_tokens_total",),
    "frontend_cpu_s": ("process_cpu_seconds_total",),
}

#: One label value of a counter: quantity to (names, label, value).
LABELLED: dict[str, tuple[tuple[str, ...], str, str]] = {
    "prompt_tokens_computed": (("vllm:prompt_tokens_by_source_total",), "source", "local_compute"),
}

POSITION_COUNTER = ("vllm:spec_decode_num_accepted_tokens_per_pos_total",)
POSITION_LABEL = "position"

HISTOGRAMS: dict[str, tuple[str, ...]] = {
    "ttft": ("vllm:time_to_first_token_seconds",),
    # The old name has the same content: one observation per request and step.
    "itl": ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    "tpot": ("vllm:request_time_per_output_token_seconds",),
    "queue": ("vllm:request_queue_time_seconds",),
    "prefill": ("vllm:request_prefill_time_seconds",),
    "e2e": ("vllm:e2e_request_latency_seconds",),
    "iteration": ("vllm:iteration_tokens_total",),
}

GAUGES: dict[str, tuple[str, ...]] = {
    "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
}

CACHE_INFO = "vllm:cache_config_info"
PROCESS_START = "process_start_time_seconds"
#: When the counter began; absent, as PROCESS_START is, with several API servers.
COUNTER_START = "vllm:generation_tokens_created"

#: Without these a window has no throughput and no latency.
REQUIRED_COUNTERS = ("generation_tokens", "prompt_tokens", "requests_succeeded")
REQUIRED_HISTOGRAMS = ("ttft", "itl")


def pick(samples: Samples, names: tuple[str, ...], suffix: str = "") -> str | None:
    """Return the first of the names that the scrape has."""
    return next((name for name in names if name + suffix in samples), None)


def total(samples: Samples, names: tuple[str, ...]) -> float | None:
    """Return the sum over all engines and labels, or None where the scrape has none of the names."""
    name = pick(samples, names)
    return None if name is None else sum(samples[name].values())


def labelled(samples: Samples, names: tuple[str, ...], label: str, value: str) -> float | None:
    name = pick(samples, names)
    if name is None:
        return None
    found = [number for labels, number in samples[name].items() if (label, value) in labels]
    return sum(found) if found else None


def by_position(samples: Samples) -> dict[int, float] | None:
    """Return accepted tokens per draft position (0-based), summed over engines; None without speculation."""
    name = pick(samples, POSITION_COUNTER)
    if name is None:
        return None
    found: dict[int, float] = {}
    for labels, number in samples[name].items():
        position = _whole(dict(labels).get(POSITION_LABEL))
        if position is None:
            return None
        found[position] = found.get(position, 0.0) + number
    return dict(sorted(found.items()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """Sum, count and cumulative buckets (upper bound to count), summed over engines."""

    sum: float
    count: float
    buckets: tuple[tuple[float, float], ...]


def histogram(samples: Samples, names: tuple[str, ...]) -> Histogram | None:
    """Return a histogram, or None where the scrape has none of the names. Raises DataError for an odd bucket."""
    name = pick(samples, names, "_count")
    if name is None:
        return None
    buckets: dict[float, float] = {}
    for labels, number in samples.get(f"{name}_bucket", {}).items():
        bound = _bound(labels, name)
        buckets[bound] = buckets.get(bound, 0.0) + number
    return Histogram(
        sum=sum(samples.get(f"{name}_sum", {}).values()),
        count=sum(samples[f"{name}_count"].values()),
        buckets=tuple(sorted(buckets.items())),
    )


def _bound(labels: LabelSet, name: str) -> float:
    text = dict(labels).get("le")
    try:
        bound = float(text or "")
    except ValueError:
        bound = math.nan
    if math.isnan(bound):
        raise DataError(f"{name}_bucket: found le={text!r}, expected a bound")
    return bound


def missing_series(samples: Samples) -> tuple[str, ...]:
    """Return the names of required series that the scrape lacks, the preferred name of each."""
    counters = [COUNTERS[one] for one in REQUIRED_COUNTERS if pick(samples, COUNTERS[one]) is None]
    histograms = [HISTOGRAMS[one] for one in REQUIRED_HISTOGRAMS if pick(samples, HISTOGRAMS[one], "_count") is None]
    return tuple(names[0] for names in counters + histograms)


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheInfo:
    """The engine's own statement of its KV cache, summed over data-parallel engines."""

    tokens: int | None  # as the engine computes it; group-aware, so right for hybrid models
    block_tokens: int | None  # num_gpu_blocks x block_size: wrong for hybrid models, the last resort
    prefix_caching: bool | None
    dtype: str | None  # as the engine was asked for it: auto is not resolved


def cache_info(samples: Samples) -> CacheInfo:
    """Read vllm:cache_config_info. Token size is stated per engine; num_gpu_blocks is already the sum."""
    infos = [dict(labels) for labels in samples.get(CACHE_INFO, {})]
    sizes = [_whole(info.get("kv_cache_size_tokens")) for info in infos]
    first = infos[0] if infos else {}
    blocks, block_size = _whole(first.get("num_gpu_blocks")), _whole(first.get("block_size"))
    prefix = {"True": True, "False": False}.get(first.get("enable_prefix_caching", ""))
    return CacheInfo(
        tokens=sum(one for one in sizes if one is not None) if sizes and None not in sizes else None,
        block_tokens=blocks * block_size if blocks and block_size else None,
        prefix_caching=prefix,
        dtype=first.get("cache_dtype"),
    )


def _whole(text: str | None) -> int | None:
    try:
        return int(float(text)) if text else None
    except (ValueError, OverflowError):
        return None
