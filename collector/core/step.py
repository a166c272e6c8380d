"""What one engine step computes: the interface between a scheduler and a step-time model."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class StepLoad(NamedTuple):
    """One forward pass of the target model, and the drafting that follows it, for all its requests."""

    prefill_positions: int  # prompt tokens computed (chunks of prompts, re-prefill after preemption included)
    decode_positions: int  # positions of decoding requests: 1 each, 1 + drafted tokens each under speculation
    requests: int  # requests in the step
    decoding: int  # of them, those that decode
    kv_read_tokens: int  # context tokens whose KV is read by full-attention layers, summed over requests
    kv_read_tokens_sliding: int  # the same for sliding-window layers: each request bounded by the window
    drafted_per_request: int  # k proposed after this step for the next one; 0 without speculation
    drafting: int  # requests for which the drafter runs
    sampled: int  # positions whose logits are computed (the last of a prefill, all of a decode)


#: Seconds of one step.
StepTime = Callable[[StepLoad], float]
