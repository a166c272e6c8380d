"""Where an exception that no rule knows was raised -> the part of the engine that refused.

A message can be new, the engine's folders hardly change. So this is asked last, of the root cause alone, and only
of an exception that nobody caught: what was caught and logged on the way is no cause. Code that serves every part
(the runner, collectives' plumbing, a model's forward pass) is not in the table: there the place says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from collector.core.failure_log import Event
from collector.core.failure_words import PHASE_FRAMES

_DRAFTER: Final = re.compile(
    r"/spec_decode/|config/speculative\.py|configs/(?:speculators/|eagle)|models/\S*(?:eagle|mtp)"
)
"""Anything that goes wrong below a drafter's frame is the drafter's: without speculation it is not run."""

_PLACES: Final = tuple(
    (re.compile(place), category)
    for place, category in (
        (r"layers/quantization/|kernels/linear/|fused_moe/oracle/|config/quantization\.py", "quantization"),
        (r"vllm/compilation/|torch/_(?:inductor|dynamo)/|/triton/(?:compiler|runtime)/|flashinfer/jit/", "jit"),
        (r"torch/utils/cpp_extension\.py", "jit"),
        (r"v1/attention/|attention/(?:backends|layers|selector)|/flashinfer/|flash_attn/", "attention_backend"),
        # What is moved between ranks here, not the shared memory that the same folder holds.
        (r"device_communicators/(?!shm_)", "nccl_p2p"),
        (r"distributed/utils\.py:(?:divide|ensure_\w+|verify_\w+|split_\w+|get_pp_indices)$", "tensor_parallel"),
        (r"/(?:huggingface_hub|requests|urllib3|httpx|httpcore|hf_xet)/", "model_unavailable"),
        (r"models/registry\.py|transformers/models/auto/|transformers_utils/config", "architecture"),
        # Settings of a loader; and a shape that does not fit may be the quantization's as well as the file's.
        (r"model_loader/(?:__init__|\w+_loader)\.py:(?:__init__|get_model_loader)$", "cli"),
        (r"model_loader/(?!weight_utils\.py:\w+_weight_loader$)", "model_files"),
        (r"/(?:safetensors|sentencepiece|tiktoken|mistral_common|gguf)/|torch/serialization\.py", "model_files"),
        (r"vllm/tokenizers/|transformers/tokenization_|/tokenizers/", "model_files"),
        (r"vllm/(?:config/|engine/arg_utils|tool_parsers/|reasoning/)", "cli"),
    )
)

_ENGINE: Final = re.compile(r"(?:^|/)vllm/(?!.*-packages/)(?!utils/|_custom_ops|logger|tracing|env_override)")
"""A frame of the engine's own that ends the search outwards; its helpers are looked through, other libraries, too."""

_REPLACEABLE: Final = frozenset({"speculation", "quantization", "attention_backend"})
_UNFORESEEN: Final = re.compile(r"(?:Attribute|Type|Name|UnboundLocal|Recursion|ZeroDivision|Index)Error\b")
"""Errors of the code, often of two libraries that do not fit: believed only of a part that a flag can replace."""

_ENTRY: Final = re.compile(r":(?:<module>|main|cmd|run|_bootstrap|(?:_?run|worker)_(?!asgi)\w+)$")
"""How a process begins: an exception that reached it was caught by nobody before."""


def ended_its_process(chain: Sequence[Event]) -> bool:
    """Whether nobody caught what a chain of exceptions came to: its traceback goes out to where a process begins."""
    frames = chain[-1].frames
    return bool(frames) and (_ENTRY.search(frames[0]) is not None or frames[0].rpartition(":")[2] in PHASE_FRAMES)


def category_by_place(chain: Sequence[Event]) -> str:
    """Return the category of an exception that no rule knows, the first of its chain first; "" for none."""
    if not ended_its_process(chain):
        return ""
    return next((category for event in chain if (category := _refuser(event))), "")


def _refuser(event: Event) -> str:
    category = "speculation" if any(map(_DRAFTER.search, event.frames)) else _innermost(event.frames)
    return "" if _UNFORESEEN.match(event.said) and category not in _REPLACEABLE else category


def _innermost(frames: Sequence[str]) -> str:
    for frame in reversed(frames):
        for place, category in _PLACES:
            if place.search(frame):
                return category
        if _ENGINE.search(frame):
            break
    return ""
