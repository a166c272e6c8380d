"""The figures that a cause line carries, and what would help by them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import floor, isfinite
from typing import Final

_GIB = r"(?P<{0}>\d+(?:\.\d+)?) ?(?P<{0}_unit>[KMG]i?B)"
_FIGURES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"max seq len \((?P<max_model_len_requested>[\d,]+)\)",
        r"\((?P<kv_gib_needed>\d+(?:\.\d+)?) GiB KV cache is needed",
        r"available KV cache memory \((?P<kv_gib_available>-?\d+(?:\.\d+)?) GiB\)",
        r"Available KV cache memory: (?P<kv_gib_available>-?\d+(?:\.\d+)?) GiB",
        r"# GPU blocks: (?P<gpu_blocks>\d+)",
        r"estimated max\w* model length is (?P<max_model_len_estimate>\d[\d,]*)",
        r"tokens that can be stored in KV cache \((?P<max_model_len_estimate>\d+)\)",
        r"max_model_len \((?P<max_model_len_requested>\d+)\)",
        r"derived max_model_len \(\w+=(?P<max_model_len_derived>\d+(?:\.\d+)?)",
        r"Tried to allocate " + _GIB.format("gib_tried"),
        r"total capacity of " + _GIB.format("gib_total"),
        r"; " + _GIB.format("gib_total") + r" total capacity",
        r"of which " + _GIB.format("gib_free") + r" is free",
        r"[;.] " + _GIB.format("gib_free") + r" (?:is )?free",
        r"Free memory on device[^(]*\((?P<gib_free>\d+(?:\.\d+)?)/(?P<gib_total>\d+(?:\.\d+)?) GiB\)",
        r"Available memory on node[^(]*\((?P<gib_free>\d+(?:\.\d+)?)/(?P<gib_total>\d+(?:\.\d+)?) GiB\)",
        r"utilization \((?P<memory_utilization>\d+(?:\.\d+)?), (?P<gib_wanted>\d+(?:\.\d+)?) GiB\)",
        r"World size \((?P<world_size>\d+)\).*available GPUs \((?P<gpu_count>\d+)\)",
        r"attention heads \((?P<attention_heads>\d+)\).*tensor parallel size \((?P<tensor_parallel_size>\d+)\)",
        r"max_num_seqs \((?P<max_num_seqs>\d+)\)",
        r"Mamba cache blocks \((?P<mamba_blocks>\d+)\)",
        r"max_num_seqs to at most (?P<max_num_seqs_estimate>\d+)",
        r"exceeds available Mamba cache blocks \((?P<max_num_seqs_estimate>\d+)\)",  # one block a sequence
        r"max_num_scheduled_tokens is set to (?P<max_num_scheduled_tokens>-?\d+)",
        r"Minimum capability: (?P<capability_needed>\d+)\. Current capability: (?P<capability>\d+)",
        r"shared memory, Required: (?P<shared_memory_bytes_needed>\d+).*limit\w*: (?P<shared_memory_bytes>\d+)",
        r"partition_size = (?P<partition_size>\d+) is not divisible by .*\bblock_\w = (?P<quantization_block>\d+)",
        r"with (?P<dummy_requests>\d+) dummy requests",
        r"address \('[^']*', (?P<port>\d+)",
        r"(?:^|\s)(?:0\.0\.0\.0|127\.0\.0\.1|\[::\]):(?P<port>\d+)",
        r"'?[Pp]ort'?:? (?P<port>\d+)",
        r"exit code:? (?P<exit_code>-?\d+)",
        r"Failed core proc\(s\): \{'\w+': (?P<exit_code>-?\d+)",
    )
)
"""Numbers that a cause line carries: a group's name is the key; `<key>_unit` scales it to GiB."""

_GIB_IN = {"K": 2**-20, "M": 2**-10, "G": 1.0}


def numbers_in(texts: Iterable[str]) -> dict[str, float]:
    """Read the figures out of what was said; what is said first counts."""
    numbers: dict[str, float] = {}
    for found in (pattern.search(text) for text in texts for pattern in _FIGURES):
        said = found.groupdict() if found else {}
        for name in (name for name in said if not name.endswith("_unit")):
            numbers.setdefault(
                name, float(said[name].replace(",", "")) * _GIB_IN[said.get(f"{name}_unit", "G")[0].upper()]
            )
    return {name: value for name, value in numbers.items() if isfinite(value)}


#: Category to the figures that its remedy is made of, of a cause line or of the columns of failures.csv.
NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "speculation": ("max_num_scheduled_tokens",),
    "max_model_len": ("max_model_len_derived",),
    "kv_cache": ("kv_gib_needed", "kv_gib_available", "max_model_len_estimate", "max_num_seqs_estimate"),
    "quantization": ("capability_needed", "capability"),
    "tensor_parallel": ("world_size", "gpu_count", "attention_heads", "tensor_parallel_size"),
    "oom_weights": ("gib_tried", "gib_free"),
    "oom_activation": ("gib_tried", "gib_free", "dummy_requests"),
    "oom_graph": ("gib_tried", "gib_free"),
    "oom_unknown": ("gib_tried", "gib_free"),
    "gpu_busy": ("gib_free", "gib_total", "gib_wanted"),
    "jit": ("shared_memory_bytes_needed", "shared_memory_bytes"),
    "port_in_use": ("port",),
}
#: What is missing is the difference of two of them.
MISSING: Final = {
    "kv_gib_missing": ("kv_gib_needed", "kv_gib_available"),
    "gib_missing": ("gib_tried", "gib_free"),
    "gib_held": ("gib_wanted", "gib_free"),
}


def missing_of(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return what is missing by the figures, where that is positive."""
    gaps = {
        name: numbers[more] - numbers[less]
        for name, (more, less) in MISSING.items()
        if more in numbers and less in numbers
    }
    return {name: gap for name, gap in gaps.items() if gap > 0}


def fitting_of(category: str, numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the settings that would fit by the figures, by the names of vLLM's flags."""
    n = numbers
    fitting: dict[str, float] = {}
    if category == "kv_cache":
        fitting["max_model_len"] = n.get("max_model_len_estimate", 0)
        fitting["max_num_seqs"] = n.get("max_num_seqs_estimate", 0)
    elif category == "max_model_len":
        fitting["max_model_len"] = n.get("max_model_len_derived", 0)
    elif category == "gpu_busy" and n.get("gib_total"):
        fitting["gpu_memory_utilization"] = floor(n.get("gib_free", 0) / n["gib_total"] * 100) / 100
    elif category == "tensor_parallel":
        most = int(n.get("gpu_count", 0) or n.get("tensor_parallel_size", 0))
        heads = int(n.get("attention_heads", 0))
        shares = [size for size in range(1, most + 1) if heads % size == 0]
        fitting["tensor_parallel_size"] = max(shares, default=0)
    return {name: value for name, value in fitting.items() if value > 0}


def remedy_of(category: str, numbers: Mapping[str, float]) -> str:
    """Return in one line what would help, by the figures where there are any; "" for a category without a remedy."""
    fitting = [f"{name} {_plain(value)} would fit" for name, value in fitting_of(category, numbers).items()]
    missing = missing_of({name: numbers[name] for name in NUMBERS.get(category, ()) if name in numbers})
    short = [f"{gap:.2f} GiB {'held by others' if name == 'gib_held' else 'short'}" for name, gap in missing.items()]
    said = [line.format(**numbers) for needed, line in _SAID.get(category, ()) if all(one in numbers for one in needed)]
    return "; ".join([*fitting, *short, *said, REMEDIES.get(category, "")]).strip("; ")


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


#: Category to lines that need certain figures.
_SAID: Final[Mapping[str, tuple[tuple[tuple[str, ...], str], ...]]] = {
    "speculation": (
        (("max_num_scheduled_tokens",), "max_num_scheduled_tokens came out as {max_num_scheduled_tokens:,.0f}"),
    ),
    "quantization": (
        (
            ("capability_needed", "capability"),
            "needs capability {capability_needed:.0f}, this GPU has {capability:.0f}",
        ),
    ),
    "tensor_parallel": (
        (("world_size", "gpu_count"), "{world_size:.0f} ranks, {gpu_count:.0f} GPUs"),
        (("partition_size",), "a rank's share of {partition_size:.0f} is no multiple of {quantization_block:.0f}"),
    ),
    "oom_activation": ((("dummy_requests",), "a max_num_seqs below {dummy_requests:,.0f} needs less"),),
    "jit": (
        (
            ("shared_memory_bytes_needed", "shared_memory_bytes"),
            "the kernel wants {shared_memory_bytes_needed:,.0f} bytes of shared memory of {shared_memory_bytes:,.0f}",
        ),
    ),
    "port_in_use": ((("port",), "port {port:.0f} is taken"),),
}

REMEDIES: Final[Mapping[str, str]] = {
    "cli": "compare the flag or variable with `vllm serve --help` of this version",
    "speculation": "choose a method, drafter and k that this model and engine version accept together",
    "max_model_len": "lower --max-model-len",
    "kv_cache": "lower --max-model-len or --max-num-seqs, or raise --gpu-memory-utilization",
    "kv_dtype": "another --kv-cache-dtype, or --attention-backend FLASHINFER for fp8 on Ampere",
    "attention_backend": "leave --attention-backend to the engine, or remove the reason it gives",
    "quantization": "weights quantised in a way that has a kernel for this GPU (W4A16 on Ampere)",
    "architecture": "an engine version (and its transformers) that knows the model",
    "model_unavailable": "check name, revision, access and token, or give a local path",
    "model_files": "download the weights and the tokenizer again",
    "trust_remote_code": "read the model's code, then set --trust-remote-code",
    "tensor_parallel": "a --tensor-parallel-size that GPUs, heads and quantization tiles can be shared by",
    "oom_weights": "a smaller quantization, or more GPUs",
    "oom_activation": "lower --max-num-batched-tokens, --max-num-seqs or --gpu-memory-utilization",
    "oom_graph": "lower --gpu-memory-utilization or --max-num-seqs; --enforce-eager shows whether graphs are the cause",
    "oom_unknown": "lower --max-num-seqs, --max-num-batched-tokens or --gpu-memory-utilization",
    "oom_host": "more host memory, no memory limit on the container, fewer processes that load at once",
    "gpu_busy": "end what holds the GPU (nvidia-smi names it)",
    "nccl_p2p": "try --disable-custom-all-reduce, then NCCL_P2P_DISABLE=1, and read NCCL_DEBUG=INFO",
    "cuda_driver": "a driver that supports the image's CUDA, and a build with kernels for this GPU",
    "jit": "nvcc and ninja that fit the engine; clear the compile cache; another backend for too large a kernel",
    "shm": "run the container with --ipc=host or a larger --shm-size",
    "port_in_use": "end what listens there, or another --port",
    "container": "run the same docker command by hand: image, runtime, --gpus",
    "environment": "check disk, permissions, ulimit and the versions of the libraries",
    "timeout": "start once more with a warm cache, then look for the rank that hangs",
    "worker_died": "the kernel log tells: oom-killer, Xid, segfault",
    "crashed_serving": "read the first error after ready; try a lower concurrency",
    "host_down": "check power supply, power limits and the journal before the reboot",
}
"""Category to what helps in general."""
