"""The facts of one configuration that the embedded engine acts on, with the defaults of vLLM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collector.core.configuration import Configuration
from collector.core.speculative import (
    SAMPLER,
    SYNTHETIC,
    SYNTHETIC_LENGTH,
    SYNTHETIC_RATES,
    k_at,
    schedule_of,
    tokens_of,
)

#: Methods whose drafter keeps KV of its own and so needs slots ahead of the verified tokens.
WITHOUT_LOOKAHEAD = ("ngram", "ngram_gpu", "suffix", "medusa")
#: Methods that draft all tokens in one pass: the batch then has a slot for each but one.
PARALLEL = ("dflash", "dspark")


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """One engine start. None: the profile's value or vLLM's default."""

    model: str
    series: str = "main"
    model_path: str = ""
    kv_cache_dtype: str = "auto"
    speculation: str = "off"  # or the method
    num_speculative_tokens: int = 0
    schedule: tuple[tuple[int, int, int], ...] = ()  # first and last batch size, k
    synthetic: tuple[float, ...] = ()  # acceptance asked for: conditional on all before, by position
    nvlink: str | None = None
    tensor_parallel: int = 1
    max_model_len: int | None = None
    max_num_seqs: int = 256
    max_num_batched_tokens: int | None = None
    block_size: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    enable_prefix_caching: bool = True
    attention_backend: str | None = None
    custom_all_reduce: bool = True
    enforce_eager: bool = False
    repeat: int = 1
    attempt: int = 1  # counts the starts of this configuration and repeat

    @property
    def speculates(self) -> bool:
        return self.speculation != "off"

    @property
    def lookahead(self) -> int:
        """Slots that a request needs beyond the tokens of its step (vLLM's num_lookahead_tokens)."""
        if not self.speculates or self.speculation in WITHOUT_LOOKAHEAD:
            return 0
        return self.num_speculative_tokens + (self.speculation == "dflash")  # which queries the last token, too

    @property
    def drafts_with_kv(self) -> bool:
        """Whether the last block of a prefix hit is computed again (vLLM's use_eagle)."""
        return self.lookahead > 0 and self.speculation != "draft_model"

    def budget(self, default: int) -> int:
        """Return how many tokens a step may hold: a parallel drafter's slots are taken off."""
        whole = self.max_num_batched_tokens or default
        taken = self.num_speculative_tokens - 1 if self.speculation in PARALLEL else 0
        return whole - taken * self.max_num_seqs

    def drafts_at(self, batch: int) -> int:
        """Return k for the drafts proposed in a step of `batch` requests, as vLLM reads a schedule."""
        if not self.schedule:
            return self.num_speculative_tokens
        return min(self.num_speculative_tokens, k_at(self.schedule, batch))


def setup_of(configuration: Configuration, repeat: int = 1, attempt: int = 1) -> Setup:
    """Return the facts of a start of a plan's configuration; flags that the engine does not act on are left out."""
    c = configuration
    flags = dict(c.flags)
    speculative: Mapping[str, Any] = json.loads(c.speculative_config) if c.speculative_config else {}
    return Setup(
        model=c.model,
        series=c.series,
        model_path=c.model_path,
        kv_cache_dtype=c.kv_cache_dtype,
        speculation=c.speculation,
        num_speculative_tokens=tokens_of(speculative) or 0,
        schedule=schedule_of(c.speculative_config),
        synthetic=_synthetic(speculative),
        nvlink=c.nvlink,
        tensor_parallel=c.tensor_parallel,
        max_model_len=c.max_model_len,
        max_num_seqs=c.max_num_seqs or 256,
        max_num_batched_tokens=flags.get("max-num-batched-tokens"),
        block_size=flags.get("block-size"),
        gpu_memory_utilization=flags.get("gpu-memory-utilization"),
        kv_cache_memory_bytes=flags.get("kv-cache-memory-bytes"),
        num_gpu_blocks_override=flags.get("num-gpu-blocks-override"),
        enable_prefix_caching=not flags.get("no-enable-prefix-caching") and flags.get("enable-prefix-caching", True),
        attention_backend=c.attention_backend,
        custom_all_reduce=c.tensor_parallel > 1 and not flags.get("disable-custom-all-reduce", False),
        enforce_eager=bool(flags.get("enforce-eager", False)),
        repeat=repeat,
        attempt=attempt,
    )


def _synthetic(speculative: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the acceptance that synthetic rejection sampling gives, conditional by position, as vLLM makes it.

    A mean length has the least variance: as many whole positions as fit, then the rest on one (config/speculative.py).
    """
    if speculative.get(SAMPLER) != SYNTHETIC:
        return ()
    k = tokens_of(speculative) or 0
    rates = speculative.get(SYNTHETIC_RATES)
    if rates is None:
        accepted = speculative[SYNTHETIC_LENGTH] - 1
        rates = [min(1.0, max(0.0, accepted - position)) for position in range(k)]
    return tuple(rate / before if before else 0.0 for rate, before in zip(rates, [1.0, *rates], strict=False))
