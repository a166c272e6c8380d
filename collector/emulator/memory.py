"""What fits on a card: weights, drafter, activations, graphs, and what is left for the KV cache.

The sums are vLLM's: the memory asked for is the card's times the utilisation; what the model needs is taken
off; the rest is divided into blocks. Layers form groups of equal size which share a block's bytes.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from collector.emulator.profile import Model, Profile
from collector.emulator.setup import Setup

GIB = 1 << 30
#: Bytes of a KV element against the 16 bits of `auto`.
KV_SHARE = {
    "auto": 1.0,
    "bfloat16": 1.0,
    "float16": 1.0,
    "fp8": 0.5,
    "fp8_e4m3": 0.5,
    "fp8_e5m2": 0.5,
    "fp8_inc": 0.5,
    "fp8_per_token_head": 0.5,
    "int8_per_token_head": 0.5,
    "int4_per_token_head": 0.25,
}
#: Steps that may be in flight at once under asynchronous scheduling.
STEPS_IN_FLIGHT = 2
#: Groups are as large as the smaller kind of layers, unless the larger has hardly more.
SIMILAR = 1.25


class RefusedStartError(Exception):
    """The engine does not start. `layer`: the process that finds it; `text`: vLLM's own words."""

    def __init__(self, layer: str, text: str, exit_code: int = 1) -> None:
        super().__init__(text)
        self.layer = layer
        self.text = text
        self.exit_code = exit_code


@dataclass(frozen=True, kw_only=True, slots=True)
class KvPlan:
    """The KV cache of one engine."""

    blocks: int  # the null block included
    block_size: int
    windows: tuple[int | None, ...]  # one for each group of layers
    block_bytes: int  # per GPU
    available_bytes: int  # per GPU
    max_model_len: int
    max_concurrency: float  # requests of max_model_len that fit
    in_flight: int  # most tokens scheduled and not yet settled

    @property
    def tokens(self) -> int:
        return int(self.max_concurrency * self.max_model_len)


def gib(size: float) -> str:
    return f"{round(size / GIB, 2)}"


def model_len(model: Model, setup: Setup) -> int:
    """Return the longest sequence. Raises RefusedStartError where the model has no such positions."""
    if setup.max_model_len is None or setup.max_model_len <= model.max_position:
        return setup.max_model_len or model.max_position
    raise RefusedStartError(
        "api",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        f"  Value error, User-specified max_model_len ({setup.max_model_len}) is greater than the derived "
        f"max_model_len (max_position_embeddings={float(model.max_position)} or model_max_length=None in model's "
        "config.json). To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
    )


def check_budget(profile: Profile, setup: Setup) -> None:
    """Raise RefusedStartError where a parallel drafter's slots leave no room for a token in a step."""
    budget = setup.budget(profile.max_num_batched_tokens)
    if budget <= 0:
        raise RefusedStartError(
            "api",
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
            f"  Value error, max_num_scheduled_tokens is set to {budget} based on the speculative decoding settings, "
            "which does not allow any tokens to be scheduled. Increase max_num_batched_tokens to accommodate the "
            "additional draft token slots, or decrease num_speculative_tokens or max_num_seqs.",
        )


def check_kv_dtype(setup: Setup) -> None:
    if setup.kv_cache_dtype not in KV_SHARE:
        choices = ", ".join(f"'{one}'" for one in KV_SHARE)
        said = f"argument --kv-cache-dtype: invalid choice: '{setup.kv_cache_dtype}' (choose from {choices})"
        raise RefusedStartError("argparse", f"vllm serve: error: {said}", 2)


def utilization(profile: Profile, setup: Setup) -> float:
    return setup.gpu_memory_utilization or profile.gpu_memory_utilization


def check_free(profile: Profile, setup: Setup, held_bytes: int) -> None:
    """Raise RefusedStartError where other processes hold what this one wants."""
    total, share = profile.memory.gpu_bytes, utilization(profile, setup)
    wanted = math.ceil(total * share)
    free = total - held_bytes
    if free < wanted:
        raise RefusedStartError(
            "worker",
            f"ValueError: Free memory on device cuda:0 ({gib(free)}/{gib(total)} GiB) on startup is less than desired "
            f"GPU memory utilization ({share}, {gib(wanted)} GiB). Decrease GPU memory utilization or reduce GPU "
            "memory used by other processes.",
        )


def loaded_bytes(model: Model, setup: Setup) -> int:
    """Return the weights of model and drafter on one GPU."""
    drafter = model.drafters.get(setup.speculation)
    return -(-(model.weights_bytes + (drafter.weights_bytes if drafter else 0)) // setup.tensor_parallel)


def check_weights(profile: Profile, setup: Setup) -> None:
    """Raise RefusedStartError where the weights alone are larger than the card."""
    total = profile.memory.gpu_bytes
    loaded = loaded_bytes(profile.model(setup.model), setup) + profile.memory.non_torch_bytes
    if loaded > total:
        raise RefusedStartError(
            "load",
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {gib(loaded - total)} GiB. "
            f"GPU 0 has a total capacity of {gib(total)} GiB of which 0 bytes is free.",
        )


def groups(model: Model, setup: Setup) -> tuple[int, tuple[int | None, ...]]:
    """Return how many layers a group has, and the window of each group."""
    drafter = model.drafters.get(setup.speculation)
    sliding = model.sliding_layers if model.sliding_window else 0
    full = model.layers - sliding + (drafter.layers if drafter else 0)
    if not sliding or not full:
        return max(full, sliding), (model.sliding_window if sliding else None,)
    small, large = sorted((full, sliding))
    size = large if large < SIMILAR * small else small
    windows = (None,) * -(-full // size) + (model.sliding_window,) * -(-sliding // size)
    return size, windows


def kv_plan(profile: Profile, setup: Setup) -> KvPlan:
    """Divide what is left into blocks. Raises RefusedStartError, in vLLM's words, where one request does not fit."""
    model, memory = profile.model(setup.model), profile.memory
    longest = model_len(model, setup)
    block_size = setup.block_size or profile.block_size
    layers, windows = groups(model, setup)
    per_token = model.kv_bytes_per_token_layer * KV_SHARE[setup.kv_cache_dtype] / setup.tensor_parallel
    block_bytes = int(block_size * layers * per_token)
    in_flight = STEPS_IN_FLIGHT * (setup.max_num_batched_tokens or profile.max_num_batched_tokens)
    graphs = 0 if setup.enforce_eager else memory.graph_bytes
    peer = memory.peer_bytes if setup.tensor_parallel > 1 and setup.nvlink != "off" else 0
    used = loaded_bytes(model, setup) + memory.non_torch_bytes + memory.activation_bytes + graphs + peer
    available = setup.kv_cache_memory_bytes or math.ceil(memory.gpu_bytes * utilization(profile, setup)) - used
    blocks = max(0, available) // block_bytes
    if setup.num_gpu_blocks_override:
        blocks = setup.num_gpu_blocks_override
        available = blocks * block_bytes

    def needed(tokens: int) -> int:
        """Return the blocks of one request of so many tokens."""
        return sum(_held(tokens, window, block_size, in_flight) for window in windows)

    _check_one_fits(available, block_bytes, longest, needed)
    return KvPlan(
        blocks=blocks,
        block_size=block_size,
        windows=windows,
        block_bytes=block_bytes,
        available_bytes=available,
        max_model_len=longest,
        max_concurrency=blocks / needed(longest),
        in_flight=in_flight,
    )


def _held(tokens: int, window: int | None, block_size: int, in_flight: int) -> int:
    if window is None:
        return -(-tokens // block_size)
    return -(-min(window - 1 + in_flight, tokens) // block_size) + 1


def _check_one_fits(available: int, block_bytes: int, longest: int, needed: Callable[[int], int]) -> None:
    more = "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
    if available <= 0:
        raise RefusedStartError(
            "core",
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
            "initializing the engine (this flag also controls CPU memory reservation on the CPU backend, despite "
            f"its name). {more}",
        )
    wanted = needed(longest) * block_bytes
    if wanted <= available:
        return
    fitting = bisect_right(range(1, longest + 1), available, key=lambda tokens: needed(tokens) * block_bytes)
    estimate = f"Based on the available memory, the estimated maximum model length is {fitting}. " if fitting else ""
    raise RefusedStartError(
        "core",
        f"ValueError: To serve at least one request with the model's max seq len ({longest}), ({gib(wanted)} GiB KV "
        f"cache is needed, which is larger than the available KV cache memory ({gib(available)} GiB). {estimate}Try "
        "increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or decreasing "
        f"`max_model_len` when initializing the engine. {more}",
    )
