"""The words in which a failure is told, and the engine's words that are no cause: tables without a decision."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

CATEGORIES: Final[Mapping[str, str]] = {
    "cli": "a flag, choice, JSON value or environment variable that the engine's own parser refuses",
    "speculation": "speculative decoding refused as configured, or not possible for this model or backend",
    "max_model_len": "a context length beyond what the model was made for",
    "kv_cache": "no or too little memory left for KV or state blocks",
    "kv_dtype": "a KV cache type that the backend, the checkpoint or the GPU cannot serve",
    "attention_backend": "no attention backend fits, or the chosen one does not",
    "quantization": "quantization unknown, refused on this GPU, or without a kernel",
    "architecture": "a model type that this engine version does not know",
    "model_unavailable": "model not found, access refused, or the model hub out of reach",
    "model_files": "weights or tokenizer missing, cut short or unreadable",
    "trust_remote_code": "the model brings its own code, which was not allowed to run",
    "tensor_parallel": "more ranks than GPUs, or a dimension that the ranks cannot share evenly",
    "oom_weights": "GPU memory ran out while weights were loaded or repacked",
    "oom_activation": "GPU memory ran out in profiling, warm-up or a request",
    "oom_graph": "GPU memory ran out while CUDA graphs were captured",
    "oom_unknown": "GPU memory ran out, the log does not tell in which phase",
    "oom_host": "the host ran out of memory",
    "gpu_busy": "another process holds GPU memory, or the memory in use changed while it was measured",
    "nccl_p2p": "NCCL, peer access or custom all-reduce failed, and no other rank failed first",
    "cuda_driver": "driver, CUDA runtime, kernel image, or an illegal access",
    "jit": "compiler or toolchain, a kernel too large for the GPU, or a stale compile cache",
    "shm": "the shared memory of the container is too small",
    "port_in_use": "the port is taken",
    "container": "the Docker API, the image or the container runtime",
    "environment": "libraries, disk or limits of the host",
    "timeout": "no progress within the limit",
    "worker_died": "a process ended before the engine was ready and left no error of its own",
    "crashed_serving": "the engine was ready, then died or answered only errors",
    "host_down": "the host went down during the attempt",
    "other": "none of these: the likeliest lines are kept and nothing is guessed",
}

PHASES: Final = (
    "launch",
    "config",
    "download",
    "weights",
    "repack",
    "profile",
    "kv_alloc",
    "graph_capture",
    "warm_up",
    "ready",
    "first_request",
    "serving",
)
"""The way of an engine from its command line to its requests, in its order."""

RETRYABLE: Final[Mapping[str, str]] = {
    "gpu_busy": "the other process may have gone",
    "port_in_use": "whoever holds the port may have gone",
    "timeout": "a loaded host or a cold cache is slower than usual",
    "host_down": "it may have been the mains; the plan limits how often it is tried",
    "oom_host": "other processes took the memory, too",
    "worker_died": "nothing in the log says that it would happen again",
    "container": "daemon, image and runtime are mended beside the plan",
    "environment": "libraries, disk and limits of the host are mended beside the plan",
    "nccl_p2p": "links, driver and IOMMU are the host's; a rank may also have been late",
}
"""Category -> why the same configuration may start on the next try: faults of the moment or of the host.

The others are properties of the configuration. A rule may differ where its message tells more: a model that the
network did not give is one thing, a model that does not exist another.
"""

GPU_OOM: Final = "gpu_oom"
"""A rule's stand-in category: which of the next table it becomes is decided by the phase."""

OOM_BY_PHASE: Final[Mapping[str, str]] = {
    "launch": "oom_unknown",
    "config": "oom_unknown",
    "download": "oom_weights",
    "weights": "oom_weights",
    "repack": "oom_weights",
    "profile": "oom_activation",
    "kv_alloc": "kv_cache",
    "graph_capture": "oom_graph",
    "warm_up": "oom_activation",
    "ready": "oom_activation",
    "first_request": "oom_activation",
    "serving": "oom_activation",
}

STARTS: Final = ("non-default args:", "args: Namespace(")
"""Printed once by every start, before anything can fail for the model's sake: a log with two holds two starts."""

KV_LEFT: Final = "Available KV cache memory:"

PHASE_MARKS: Final = (
    *((mark, "config") for mark in STARTS),
    ("Resolved architecture:", "config"),
    ("Using max model len", "config"),
    ("LLM engine (v", "config"),
    ("Starting to load model", "weights"),
    ("Time spent downloading weights", "weights"),
    ("Filesystem type for checkpoints", "weights"),
    ("checkpoint shards", "weights"),
    ("Loading drafter model", "weights"),  # after the target's weights: back to loading
    ("Loading weights took", "repack"),
    ("Model loading took", "profile"),
    ("for vLLM's torch.compile", "profile"),
    ("memory for KV Cache as specified by kv_cache_memory_bytes", "profile"),
    (KV_LEFT, "kv_alloc"),
    ("KV cache size:", "kv_alloc"),
    ("GiB for KV cache on node", "kv_alloc"),
    ("# GPU blocks:", "kv_alloc"),  # older engines
    ("Capturing CUDA graph", "graph_capture"),
    ("Capturing cudagraphs", "graph_capture"),
    ("Graph capturing finished", "warm_up"),
    ("Warming up model", "warm_up"),
    ("warmup model) took", "warm_up"),
    ("Application startup complete", "ready"),
    ("Avg generation throughput", "ready"),  # where a log begins later
)
"""What the engine prints when it enters a phase. The last mark before a failure is where it failed."""

SAMPLER: Final = "_dummy_sampler_run"
PROFILE: Final = "determine_available_memory"
PHASE_FRAMES: Final[Mapping[str, str]] = {
    "create_engine_config": "config",
    "init_device": "config",
    "download_weights_from_hf": "download",
    "load_model": "weights",
    "load_weights": "weights",
    "process_weights_after_loading": "repack",
    "gptq_marlin_repack": "repack",
    "awq_marlin_repack": "repack",
    PROFILE: "profile",
    "profile_run": "profile",
    "profile_cudagraph_memory": "graph_capture",
    "initialize_from_config": "kv_alloc",
    "initialize_kv_cache": "kv_alloc",
    "initialize_kv_cache_tensors": "kv_alloc",
    "_allocate_kv_cache_tensors": "kv_alloc",
    "allocate_kv_cache": "kv_alloc",
    "get_kv_cache_configs": "kv_alloc",
    "compile_or_warm_up_model": "graph_capture",
    "capture_model": "graph_capture",
    "_capture_cudagraphs": "graph_capture",
    "kernel_warmup": "warm_up",
    SAMPLER: "warm_up",
}
"""Function name -> phase. The deepest of these frames decides: the engine's phases call one another."""

DOWNLOAD: Final = re.compile(
    r"Downloading (?:shards|safetensors|model|'\S*safetensors)|Fetching \d+ files|\S*\.safetensors: +\d+%"
)
"""How a line begins while weights come from the hub."""

STEP_FRAMES: Final = frozenset({"execute_model", "sample_tokens", "step_with_batch_queue", "_process_engine_step"})
"""Functions that run for a request: once ready, a failure in them is that of a request."""

SHUTDOWN: Final = re.compile(
    r"Shutting down FastAPI HTTP server|shutdown triggered|Shutdown initiated \(timeout|trigger received signal="
    r"|^Shutting down$"
)
"""From here on the engine was told to stop; what it says while stopping is no cause."""

STALLED: Final = "No available shared memory broadcast block found"
"""Printed once a minute while a rank is waited for: slow compilation, or a rank that is gone."""

NOISE: Final = re.compile(
    r"resource_tracker|warnings\.warn|nanobind|leaked |^Process \w+|destroy_process_group|^usage:"
)

# Long lists of everything that would have been allowed name other categories' words; echoes of the input too.
NOT_SAID: Final = re.compile(
    r"\[type=\w+, input_value=.*|Supported architectures:.*|Must be one of \[.*|Valid options are:.*"
)

# Exceptions that only say that someone else stopped this process.
STOPPED: Final = re.compile(r"(?:[\w.]+\.)?(?:KeyboardInterrupt|SystemExit|CancelledError|GeneratorExit)\b")

QUOTED: Final = re.compile(r"Worker failed with error '(?P<said>.*?)(?:', please check the stack trace.*)?$")
"""The one wrapper that carries the cause with it."""
