"""The facts of one configuration that the embedded engine acts on, with the defaults of vLLM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from collector.core.configuration import Configuration
from collector.core.speculative import SCHEDULE, tokens_of
from collector.emulator.profile import Conditional, Outcome, Profile

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

    def budget(self, profile: Profile) -> int:
        """Return how many tokens a step may hold: a parallel drafter's slots are taken off."""
        whole = self.max_num_batched_tokens or profile.max_num_batched_tokens
        taken = self.num_speculative_tokens - 1 if self.speculation in PARALLEL else 0
        return whole - taken * self.max_num_seqs

    def drafts_at(self, batch: int) -> int:
        """Return k for the drafts proposed in a step of `batch` requests, as vLLM reads a schedule."""
        if not self.schedule:
            return self.num_speculative_tokens
        started = [entry for entry in sorted(self.schedule) if entry[0] <= batch]
        return min(self.num_speculative_tokens, started[-1][2])

    def outcome(self, profile: Profile) -> Outcome | None:
        """Return the scripted outcome whose facts are all those of this configuration."""
        return next((one for one in profile.outcomes if self._is(one.match)), None)

    def lone_runs(self, profile: Profile) -> dict[str, Conditional]:
        """Return the conditional acceptance of a request that runs alone, by prompt kind, where it is known."""
        return {one.kind: one.conditional for one in reversed(profile.lone_runs) if self._is(one.match)}

    def _is(self, match: Mapping[str, Any]) -> bool:
        facts = asdict(self)
        return all(facts.get(key) == value for key, value in match.items())


def setup_of(configuration: Configuration) -> Setup:
    """Return the facts of a plan's configuration; flags that the engine does not act on are left out."""
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
        schedule=tuple((first, last, k) for first, last, k in speculative.get(SCHEDULE, ())),
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
    )
