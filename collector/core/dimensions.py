"""The sizes of cards, links, models and drafters: what a step's time, traffic and memory follow from."""

from __future__ import annotations

from dataclasses import dataclass

BF16_BYTES = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One card, by its data sheet."""

    memory_bytes: float
    bandwidth_bytes_s: float  # peak of the device memory
    flops_s: float  # peak of dense bf16 tensor products with fp32 sums


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """The way between the cards, as a collective sees it."""

    peak_bytes_s: float  # one direction
    efficiency: float  # of the peak, at most 1
    latency_s: float  # of one collective, however small


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelDimensions:
    """A decoder of identical layers, quantised body, bf16 embedding and head. Whole model, not per card."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool  # head and embedding are one matrix
    sliding_layers: int = 0  # of the layers, those with a bounded window
    window: int = 0  # tokens
    full_kv_heads: int | None = None  # where full layers are laid out differently from sliding ones
    full_head_dim: int | None = None
    full_keys_are_values: bool = False  # no value projection in full layers; both are cached
    weight_bits: int = 4
    scale_bytes_per_weight: float = BF16_BYTES / 128  # one bf16 scale for a group of 128 weights
    source: str = ""  # where each figure is from; what is assumed says so

    def _attention_parameters(self, kv_heads: int, head_dim: int, shared: bool) -> int:
        return self.hidden * head_dim * (2 * self.heads + (1 if shared else 2) * kv_heads)

    def body_parameters(self) -> int:
        """Return the weights of all layers, norms left out."""
        sliding = self._attention_parameters(self.kv_heads, self.head_dim, False)
        full = self._attention_parameters(*self.full_layout(), self.full_keys_are_values)
        mlp = 3 * self.hidden * self.intermediate
        return self.layers * mlp + self.sliding_layers * sliding + (self.layers - self.sliding_layers) * full

    def full_layout(self) -> tuple[int, int]:
        return self.full_kv_heads or self.kv_heads, self.full_head_dim or self.head_dim

    def head_parameters(self) -> int:
        return self.vocabulary * self.hidden

    def body_bytes(self) -> float:
        return self.body_parameters() * (self.weight_bits / 8 + self.scale_bytes_per_weight)

    def weight_bytes(self) -> float:
        return self.body_bytes() + self.head_parameters() * BF16_BYTES * (1 if self.tied else 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class DrafterDimensions:
    """A bf16 drafter, split over the cards as the target is."""

    parallel: bool  # one pass over k + 1 positions, else k passes one after another
    layers: int
    hidden: int
    body_parameters: int  # without head and embedding
    context_parameters: int  # applied once to every position that the target computed
    head_hidden: int  # width of the head's input: the target's head, or its own
    weight_bytes: float  # resident beyond the target's, over all cards
    source: str = ""
