"""What a configuration puts on the link and into memory: bytes that follow from dimensions alone."""

from __future__ import annotations

from collector.core.dimensions import BF16_BYTES, DrafterDimensions, Gpu, ModelDimensions
from collector.core.roofline import KV_BYTES, passes, reduces
from collector.core.step import StepLoad

#: Two cards, each of which sends a message and receives one: what NVML counts, both ways, over both.
COUNTED_PER_MESSAGE = 4


def nvlink_bytes(model: ModelDimensions, drafter: DrafterDimensions | None, load: StepLoad) -> float:
    """Return bytes sent plus received over both cards in one step: reduced activations and gathered logits."""
    gathered = model.vocabulary * BF16_BYTES / 2  # each card sends its half of the vocabulary
    positions = load.prefill_positions + load.decode_positions
    total = positions * reduces(model.layers) * model.hidden * BF16_BYTES + load.sampled * gathered
    if drafter is not None:
        for computed, proposed in passes(drafter.parallel, load):
            total += computed * reduces(drafter.layers) * drafter.hidden * BF16_BYTES + proposed * gathered
    return total * COUNTED_PER_MESSAGE


def kv_bytes_per_token(model: ModelDimensions, kv_dtype: str) -> float:
    """Return bytes over all cards for one token, while the context is within the window of sliding layers."""
    kv_heads, head_dim = model.full_layout()
    full = (model.layers - model.sliding_layers) * kv_heads * head_dim
    return float(2 * (full + model.sliding_layers * model.kv_heads * model.head_dim) * KV_BYTES[kv_dtype])


def kv_capacity_tokens(free_bytes_per_gpu: float, model: ModelDimensions, kv_dtype: str, tp: int = 2) -> int:
    """Return the tokens of context that fit into what weights and activations leave on each card."""
    return max(0, int(free_bytes_per_gpu * tp / kv_bytes_per_token(model, kv_dtype)))


def free_bytes(
    gpu: Gpu, model: ModelDimensions, drafter: DrafterDimensions | None, utilisation: float, reserve_bytes: float
) -> float:
    """Return the bytes left for KV on each of two cards; `reserve_bytes` holds activations, graphs, buffers."""
    weights = (model.weight_bytes() + (drafter.weight_bytes if drafter else 0.0)) / 2
    return gpu.memory_bytes * utilisation - weights - reserve_bytes
