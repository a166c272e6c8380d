"""What is known or assumed before any fit: hardware, model dimensions, prompts, acceptance as published."""

from __future__ import annotations

from typing import Any

GIB = 2**30

GPU: dict[str, Any] = {
    "name": "NVIDIA GeForce RTX 3090",
    "memory_bytes": 23.56 * GIB,
    "bandwidth_bytes_s": 936e9,
    "flops_s": 71e12,
}
GPU_SOURCE = "memory as the engine printed it; bandwidth and dense bf16 tensor FLOPs with fp32 sums from the data sheet"

#: Peak of one direction. NVLink: 4 links x 14.06 GB/s. PCIe: generation 3 x16.
LINK_PEAKS = {"on": 4 * 14.06e9, "off": 15.75e9}

MODELS: dict[str, dict[str, Any]] = {
    "muse-glimmer-30b": {
        "layers": 52,
        "hidden": 6656,
        "intermediate": 21504,
        "heads": 52,
        "kv_heads": 2,
        "head_dim": 128,
        "vocabulary": 202048,
        "tied": False,
        "sliding_layers": 39,
        "window": 8192,
        "source": "layers, hidden, KV heads x head dimension, vocabulary and untied head are the model's public "
        "configuration; assumptions: 52 query heads (hidden / head dimension), intermediate from the 30B "
        "parameters, 3 of 4 layers sliding with a window beyond every context measured here (hybrid is published)",
    },
    "exaone-4.5-33b": {
        "layers": 64,
        "hidden": 5120,
        "intermediate": 27392,
        "heads": 40,
        "kv_heads": 8,
        "head_dim": 128,
        "vocabulary": 153600,
        "tied": False,
        "sliding_layers": 48,
        "window": 4096,
        "source": "layers, hidden and KV heads are the model's public configuration; assumptions: intermediate, heads, "
        "head dimension and 3:1 sliding with 4096 as in EXAONE 4.0 32B, vocabulary from the 33B parameters and the "
        "family; they give the published 1.00 GiB of MTP weights",
    },
    "gemma-4-31b": {
        "layers": 60,
        "hidden": 5376,
        "intermediate": 21504,
        "heads": 32,
        "kv_heads": 16,
        "head_dim": 256,
        "vocabulary": 262144,
        "tied": True,
        "sliding_layers": 50,
        "window": 1024,
        "full_kv_heads": 4,
        "full_head_dim": 512,
        "full_keys_are_values": True,
        "source": "layers, hidden and 5:1 sliding are the model's public configuration; assumptions: the other "
        "dimensions from the family (window 1024, 16 x 256 sliding KV heads, 4 x 512 full ones, keys used as values), "
        "which together give its 30.7B parameters",
    },
}

DRAFTERS: dict[str, dict[str, Any]] = {
    "muse-glimmer-30b": {
        "parallel": True,
        "layers": 5,
        "hidden": 6656,
        "body_parameters": 2_340_000_000,
        "context_parameters": 220_000_000,
        "head_hidden": 6656,
        "weight_bytes": 2 * 2.56e9,
        "source": "5 layers and 2.56B bf16 parameters are published; assumptions: of them 0.22B fuse five hidden "
        "states of the target (5 x hidden x hidden), embedding and head are the target's",
    },
    "exaone-4.5-33b": {
        "parallel": False,
        "layers": 1,
        "hidden": 5120,
        "body_parameters": 536_000_000,
        "context_parameters": 0,
        "head_hidden": 5120,
        "weight_bytes": 1.00 * GIB,
        "source": "1.00 GiB in 15 tensors is published, a single layer; assumption: embedding and head are "
        "the target's",
    },
    "gemma-4-31b": {
        "parallel": False,
        "layers": 4,
        "hidden": 1024,
        "body_parameters": 200_000_000,
        "context_parameters": 0,
        "head_hidden": 1024,
        "weight_bytes": 2 * 0.47e9,
        "source": "0.47B bf16 parameters are published; assumptions: 4 layers of width 1024, of the parameters 0.27B "
        "are its own embedding and head",
    },
}

BACKENDS: dict[str, dict[str, str]] = {
    "muse-glimmer-30b": {"auto": "FLASH_ATTN", "fp8_e5m2": "FLASH_ATTN"},
    "exaone-4.5-33b": {"auto": "FLASH_ATTN", "fp8_e5m2": "FLASHINFER"},
    "gemma-4-31b": {"auto": "TRITON_ATTN", "fp8_e5m2": "TRITON_ATTN"},
}
BACKENDS_SOURCE = (
    "as published, where a figure names one; FLASH_ATTN for KV auto is the engine's first choice on compute "
    "capability 8.6 and an assumption. By the engine's source FLASH_ATTN refuses fp8 KV there: what is published "
    "for Muse with fp8 does not fit it"
)

#: Whose KV read efficiency counts. FLASHINFER is the only reader of one-byte KV on these cards by the engine's
#: source; that Muse's fp8 gains fit its efficiency, found on EXAONE, speaks for it.
KV_READERS = {name: one | {"fp8_e5m2": "FLASHINFER"} for name, one in BACKENDS.items()}

#: Tokens of the synthetic prompt. Muse and EXAONE: from the published traffic. Gemma: with the recomputation that
#: its KV cache forces at 32 requests, the published traffic gives this, not 850 to 900.
PROMPT_TOKENS = {"muse-glimmer-30b": 640, "exaone-4.5-33b": 640, "gemma-4-31b": 680}

GPU_MEMORY_UTILISATION = 0.92  # the engine's default
#: What a card holds beside weights and KV: about what the published INT8 build leaves (22.0 GiB, 30,539 KV tokens).
NON_TORCH_BYTES = 0.5 * GIB
ACTIVATION_BYTES = 1.0 * GIB
GRAPH_BYTES = 0.5 * GIB
P2P_BYTES = 1.0 * GIB
MEMORY_SOURCE = (
    "assumptions: sums of 3.0 GiB with peer-to-peer links and 2.0 GiB without. The 1.0 GiB of peer-to-peer buffers is "
    "chosen so that Gemma, whose KV cache does not hold 32 requests, recomputes more with NVLink than without, as its "
    "small published NVLink gain of 8.9 % asks for"
)

#: (method, k) of each model in the published configurations.
SPECULATION = {"muse-glimmer-30b": ("dflash", 15), "exaone-4.5-33b": ("mtp", 3), "gemma-4-31b": ("mtp", 4)}

ARCHITECTURES = {
    "muse-glimmer-30b": "MuseGlimmerForCausalLM",
    "exaone-4.5-33b": "Exaone4_5ForCausalLM",
    "gemma-4-31b": "Gemma4ForCausalLM",
}
