"""What a step costs: time, link traffic and memory from hardware, model dimensions and a few efficiencies.

A step is the sum of its parts: matrix products of the quantised body, attention's KV reads, all-reduces, the
head, the drafter, the host. A product takes its memory time and its compute time joined by a p-norm: the larger
one where they differ, more than either where they are alike. Bytes, FLOPs and positions follow from dimensions;
only `Efficiencies` and the links' efficiency and latency are fitted. All of it is per GPU of a
tensor-parallel group; no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from collector.core.dimensions import BF16_BYTES, DrafterDimensions, Gpu, Link, ModelDimensions
from collector.core.step import StepLoad

KV_BYTES = {"auto": 2, "bfloat16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
#: Each layer reduces after its attention and after its MLP.
REDUCES_PER_LAYER = 2
#: A row of tokens is looked up in an embedding split over the cards: one more reduce a pass.
REDUCES_PER_PASS = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Efficiencies:
    """The free parameters. Fractions of a peak are at most 1; seconds are at least 0."""

    w4_bandwidth: float  # of peak memory bandwidth, reading quantised weights
    w4_compute: float  # of peak FLOPs, products of dequantised weights
    bf16_bandwidth: float  # the same two for head and drafter
    bf16_compute: float
    kv_read: Mapping[str, float]  # of peak memory bandwidth, per attention backend
    head_sharing: float  # of the query heads of a group, the fraction that shares one read of its KV
    step_host_s: float  # host time of a step that the GPU waits for
    request_host_s: float  # the same per request in the step
    pass_host_s: float  # the same per pass of a drafter
    piecewise_host_s: float  # more per step of speculation with fp8 KV, cause not known; a schedule is given it, too
    overlap_norm: float  # p of the norm that joins memory and compute time; 1 adds them, infinity overlaps all

    def __post_init__(self) -> None:
        fractions = {name: getattr(self, name) for name in FRACTIONS} | dict(self.kv_read)
        wrong = [name for name, value in fractions.items() if not 0 < value <= 1]
        wrong += [name for name in SECONDS if getattr(self, name) < 0]
        if wrong or self.overlap_norm < 1 or not 0 <= self.head_sharing <= 1:
            raise ValueError(f"not physical: {', '.join(wrong) or 'overlap_norm or head_sharing'}")


FRACTIONS = ("w4_bandwidth", "w4_compute", "bf16_bandwidth", "bf16_compute")
SECONDS = ("step_host_s", "request_host_s", "pass_host_s", "piecewise_host_s")


class StepBreakdown(NamedTuple):
    """Seconds of one step, by what they are spent on."""

    weights: float  # products of the quantised body: reading weights and computing, joined
    attention: float
    all_reduce: float
    head: float
    drafter: float
    overhead: float
    total: float


@dataclass(frozen=True, slots=True)
class Product:
    """Rows times a weight matrix on one card."""

    memory_s: float  # reading the weights once
    position_s: float  # computing one row
    norm: float

    def seconds(self, positions: float) -> float:
        if positions <= 0 or self.memory_s <= 0:
            return 0.0
        memory, compute = self.memory_s, self.position_s * positions
        larger = max(memory, compute)
        return float(larger * (1 + (min(memory, compute) / larger) ** self.norm) ** (1 / self.norm))


@dataclass(frozen=True, slots=True)
class Collective:
    """A number of collectives whose messages grow with the positions."""

    latency_s: float
    position_s: float

    def seconds(self, positions: float) -> float:
        return self.latency_s + self.position_s * positions if positions > 0 else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafting:
    """What follows a step under speculation."""

    dimensions: DrafterDimensions
    context: Product
    body: Product
    head: Product
    gather: Collective
    reduce: Collective
    attention_share: float  # of the target's KV read: the drafter's layers read theirs
    pass_s: float

    def seconds(self, load: StepLoad, attention: float) -> float:
        if not load.drafting:
            return 0.0
        total = self.context.seconds(load.prefill_positions + load.decode_positions)
        for positions, proposed in passes(self.dimensions.parallel, load):
            total += self.body.seconds(positions) + self.reduce.seconds(positions)
            total += self.head.seconds(proposed) + self.gather.seconds(proposed)
            total += attention * self.attention_share + self.pass_s
        return total

    def read_share(self, load: StepLoad) -> float:
        """Return what all passes read of the KV, as a share of what the target reads."""
        return self.attention_share * len(passes(self.dimensions.parallel, load))


@dataclass(frozen=True, kw_only=True, slots=True)
class StepModel:
    """One engine configuration on its hardware, in seconds. Made by `step_model`."""

    body: Product
    head: Product
    gather: Collective  # the head's logits
    reduce: Collective
    full_read_s: float  # KV of one token in all full layers
    sliding_read_s: float
    overhead_s: float
    request_s: float
    drafting: Drafting | None

    def step_time(self, load: StepLoad) -> StepBreakdown:
        positions = load.prefill_positions + load.decode_positions
        weights = self.body.seconds(positions)
        attention = self._attention(load)
        reduce = self.reduce.seconds(positions)
        head = self.head.seconds(load.sampled) + self.gather.seconds(load.sampled)
        drafter = self.drafting.seconds(load, attention) if self.drafting else 0.0
        overhead = self.overhead_s + self.request_s * load.requests
        total = weights + attention + reduce + head + drafter + overhead
        return StepBreakdown(weights, attention, reduce, head, drafter, overhead, total)

    def _attention(self, load: StepLoad) -> float:
        return self.full_read_s * load.kv_read_tokens + self.sliding_read_s * load.kv_read_tokens_sliding

    def seconds(self, load: StepLoad) -> float:
        """Return the whole step's seconds: a `StepTime`."""
        return self.step_time(load).total

    def read_seconds(self, load: StepLoad) -> float:
        """Return the part of the whole that is in proportion to the KV read: the target's and the drafter's."""
        drafted = self.drafting.read_share(load) if self.drafting else 0.0
        return self._attention(load) * (1 + drafted)


def passes(parallel: bool, load: StepLoad) -> list[tuple[int, int]]:
    """Return positions computed and positions proposed of each pass of the drafter after a step.

    A parallel drafter looks at k + 1 positions a request at once. A sequential one goes over all positions
    of the step first (its own KV must follow the target's) and over one a request from then on. Where a schedule
    says k = 0 the first pass is still made, for the drafter's KV, and proposes nothing (vLLM's propose()).
    """
    k, requests = load.drafted_per_request, load.drafting
    if not requests:
        return []
    if parallel:
        return [((k + 1) * requests, k * requests)]
    first = load.prefill_positions + load.decode_positions, requests if k else 0
    return [first, *[(requests, requests)] * (k - 1)]


def step_model(  # noqa: PLR0913 - what a step's time depends on
    gpu: Gpu,
    link: Link,
    model: ModelDimensions,
    drafter: DrafterDimensions | None,
    efficiencies: Efficiencies,
    *,
    kv_dtype: str,
    backend: str,
    tensor_parallel: int = 2,
    scheduled: bool = False,
) -> StepModel:
    """Return the step times of one configuration. Raises KeyError for an unknown KV dtype or backend.

    `scheduled`: k follows the batch size, which in vLLM costs the full CUDA graphs. What that takes nobody has
    published; it is given the time by which speculation with fp8 KV was fitted to be slower.
    """
    e, on = efficiencies, _Resources(gpu, link, efficiencies, tensor_parallel)
    gather = on.collectives(1, model.vocabulary * BF16_BYTES / tensor_parallel)
    read_s = KV_BYTES[kv_dtype] / tensor_parallel / (gpu.bandwidth_bytes_s * e.kv_read[backend])
    full, sliding = _read_elements(model, e.head_sharing)
    piecewise = e.piecewise_host_s if drafter and (KV_BYTES[kv_dtype] == 1 or scheduled) else 0.0
    return StepModel(
        body=on.product(model.body_parameters(), model.body_bytes(), e.w4_bandwidth, e.w4_compute),
        head=on.bf16(model.head_parameters()),
        gather=gather,
        reduce=on.collectives(reduces(model.layers), model.hidden * BF16_BYTES),
        full_read_s=full * read_s,
        sliding_read_s=sliding * read_s,
        overhead_s=e.step_host_s + piecewise,
        request_s=e.request_host_s,
        drafting=_drafting(on, drafter, model, gather) if drafter else None,
    )


@dataclass(frozen=True, slots=True)
class _Resources:
    gpu: Gpu
    link: Link
    efficiencies: Efficiencies
    tensor_parallel: int

    def product(self, weights: int, stored: float, reading: float, computing: float) -> Product:
        memory = stored / self.tensor_parallel / (self.gpu.bandwidth_bytes_s * reading)
        compute = 2 * weights / self.tensor_parallel / (self.gpu.flops_s * computing)
        return Product(memory, compute, self.efficiencies.overlap_norm)

    def bf16(self, weights: int) -> Product:
        return self.product(
            weights, weights * BF16_BYTES, self.efficiencies.bf16_bandwidth, self.efficiencies.bf16_compute
        )

    def collectives(self, count: int, message_bytes: float) -> Collective:
        if self.tensor_parallel == 1:
            return Collective(0.0, 0.0)
        seconds = message_bytes / (self.link.peak_bytes_s * self.link.efficiency)
        return Collective(count * self.link.latency_s, count * seconds)


def _drafting(on: _Resources, drafter: DrafterDimensions, model: ModelDimensions, gather: Collective) -> Drafting:
    return Drafting(
        dimensions=drafter,
        context=on.bf16(drafter.context_parameters),
        body=on.bf16(drafter.body_parameters),
        head=on.bf16(model.vocabulary * drafter.head_hidden),
        gather=gather,
        reduce=on.collectives(reduces(drafter.layers), drafter.hidden * BF16_BYTES),
        attention_share=drafter.layers / model.layers,
        pass_s=on.efficiencies.pass_host_s,
    )


def reduces(layers: int) -> int:
    return REDUCES_PER_LAYER * layers + REDUCES_PER_PASS


def _read_elements(model: ModelDimensions, sharing: float) -> tuple[float, float]:
    """Return the KV elements read for one token of context, in full and in sliding layers.

    A query head that does not share its group's read has the KV read once more.
    """

    def reads(kv_heads: int) -> float:
        return kv_heads + (model.heads - kv_heads) * (1 - sharing)

    kv_heads, head_dim = model.full_layout()
    full = (model.layers - model.sliding_layers) * 2 * reads(kv_heads) * head_dim
    return full, model.sliding_layers * 2 * reads(model.kv_heads) * model.head_dim
