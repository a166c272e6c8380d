"""What an engine's log can say and what it means: tables, read by `failure_log` and `failures`.

A rule names a category for a line that the engine itself printed. The first rule that matches wins, so the
order is part of the meaning; a comment stands wherever two neighbours could claim the same line. To teach a
new message, add a rule to its category, above whatever wider rule would take it.

Line numbers and positions move between engine versions and are never matched. A rule may look at the
frames of the traceback (`within`), because some texts mean one thing in one place and another elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
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
    "load",
    "profile",
    "kv_cache",
    "graph_capture",
    "warm_up",
    "ready",
    "serving",
)

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
    "load": "oom_weights",
    "profile": "oom_activation",
    "kv_cache": "kv_cache",
    "graph_capture": "oom_graph",
    "warm_up": "oom_activation",
    "ready": "oom_activation",
    "serving": "oom_activation",
}

PHASE_MARKS: Final = (
    ("non-default args:", "config"),
    ("Resolved architecture:", "config"),
    ("Using max model len", "config"),
    ("LLM engine (v", "config"),
    ("Starting to load model", "load"),
    ("Loading safetensors checkpoint shards", "load"),
    ("Loading drafter model", "load"),  # after the target's weights: back to loading
    ("Loading weights took", "load"),  # repacking still follows
    ("Model loading took", "profile"),
    ("for vLLM's torch.compile", "profile"),
    ("memory for KV Cache as specified by kv_cache_memory_bytes", "profile"),
    ("Available KV cache memory:", "kv_cache"),
    ("KV cache size:", "kv_cache"),
    ("GiB for KV cache on node", "kv_cache"),
    ("Capturing CUDA graph", "graph_capture"),
    ("Capturing cudagraphs", "graph_capture"),
    ("Graph capturing finished", "warm_up"),
    ("Warming up model", "warm_up"),
    ("warmup model) took", "warm_up"),
    ("Application startup complete", "ready"),
)
"""What the engine prints when it enters a phase. The last mark before a failure is where it failed."""

PHASE_FRAMES: Final[Mapping[str, str]] = {
    "create_engine_config": "config",
    "init_device": "config",
    "load_model": "load",
    "load_weights": "load",
    "process_weights_after_loading": "load",
    "gptq_marlin_repack": "load",
    "determine_available_memory": "profile",
    "profile_run": "profile",
    "profile_cudagraph_memory": "graph_capture",
    "initialize_from_config": "kv_cache",
    "initialize_kv_cache": "kv_cache",
    "initialize_kv_cache_tensors": "kv_cache",
    "_allocate_kv_cache_tensors": "kv_cache",
    "allocate_kv_cache": "kv_cache",
    "get_kv_cache_configs": "kv_cache",
    "compile_or_warm_up_model": "graph_capture",
    "capture_model": "graph_capture",
    "_capture_cudagraphs": "graph_capture",
    "kernel_warmup": "warm_up",
    "_dummy_sampler_run": "warm_up",
}
"""Function name -> phase. The deepest of these frames decides: the engine's phases call one another."""

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

_GIB = r"(?P<{0}>\d+(?:\.\d+)?) ?(?P<{0}_unit>[KMG]i?B)"
NUMBERS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"max seq len \((?P<max_model_len_requested>\d+)\)",
        r"\((?P<kv_gib_needed>\d+(?:\.\d+)?) GiB KV cache is needed",
        r"available KV cache memory \((?P<kv_gib_available>-?\d+(?:\.\d+)?) GiB\)",
        r"estimated maximum model length is (?P<max_model_len_estimate>\d+)",
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
        r"max_num_scheduled_tokens is set to (?P<max_num_scheduled_tokens>-?\d+)",
        r"Minimum capability: (?P<capability_needed>\d+)\. Current capability: (?P<capability>\d+)",
        r"shared memory, Required: (?P<shared_memory_bytes_needed>\d+).*limit\w*: (?P<shared_memory_bytes>\d+)",
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
    for found in (pattern.search(text) for text in texts for pattern in NUMBERS):
        said = found.groupdict() if found else {}
        for name in (name for name in said if not name.endswith("_unit")):
            numbers.setdefault(name, float(said[name]) * _GIB_IN[said.get(f"{name}_unit", "G")[0].upper()])
    return {name: value for name, value in numbers.items() if isfinite(value)}


@dataclass(frozen=True, slots=True)
class Rule:
    """One message the engine can print."""

    category: str
    pattern: re.Pattern[str]
    phase: str = ""  # where this can only happen; otherwise frames and marks of the log decide
    within: re.Pattern[str] | None = None  # what process, configuration echo and frames must contain
    follower: bool = False  # other failures cause this one: it is believed only when nothing else is there
    loose: bool = False  # fatal by itself on a plain line, without an exception
    retryable: bool | None = None  # where it differs from the category's
    source: str = ""


def _rule(
    category: str,
    pattern: str,
    *,
    phase: str = "",
    within: str = "",
    kind: str = "",
    retryable: bool | None = None,
    source: str = "",
) -> Rule:
    """Compile one line of the table; `kind` holds any of the words follower and loose."""
    return Rule(
        category=category,
        pattern=re.compile(pattern, re.IGNORECASE),
        phase=phase,
        within=re.compile(within) if within else None,
        follower="follower" in kind,
        loose="loose" in kind,
        retryable=retryable,
        source=source,
    )


_NOT = r"(?:not (?:yet )?(?:supported|support|implemented|compatible|available|allowed)|n't support|unsupported)"

# A container that never ran the engine says so in the words of Docker or of its runtime, on plain lines.
_CONTAINER = (
    _rule("port_in_use", r"port is already allocated|ports are not available", kind="loose", source="docker"),
    _rule("cuda_driver", r"unsatisfied condition: cuda|driver/library version mismatch", kind="loose"),
    _rule("container", r"toomanyrequests|TLS handshake timeout", kind="loose", retryable=True),
    # A daemon that has no room left is the disk's matter, not the runtime's.
    _rule("environment", r"daemon: .*no space left on device", kind="loose", retryable=True),
    _rule("container", r"error response from daemon|cannot connect to the docker daemon", kind="loose"),
    _rule("container", r"could not select device driver|(?:unknown|invalid) runtime (?:name|spec)", kind="loose"),
    _rule("container", r"OCI runtime \w+ failed|nvidia-container-cli:|exec format error", kind="loose"),
    _rule("container", r"pull access denied|manifest \S* ?(?:unknown|not found)|no such image", kind="loose"),
    _rule("container", r"^docker\.errors\.|podman.*error", kind="loose"),
    # A reload of the host's services takes the GPUs away from a running container; a new container has them.
    _rule("container", r"Failed to initialize NVML: Unknown Error", kind="loose", retryable=True),
    _rule("container", r"UVA is not available", source="WSL2 without pinned memory"),
    # Not an old driver: libraries of the image stand before the host's.
    _rule("container", r"Error 803|unsupported display driver / cuda driver combination", source="gpustack#4678"),
)

# A kernel's tile that does not fit is "shared memory" and "out of resource": it must be named before every
# rule about memory, because it is neither GPU memory nor /dev/shm.
_TILE = (_rule("jit", r"out of resources?: ?shared memory|OutOfResources", kind="loose", source="triton"),)

_SHM = (
    # The same words mean the disk elsewhere: the place decides.
    _rule("shm", r"No space left on device.*/dev/shm|/dev/shm.*(?:No space left|failed|error)", kind="loose"),
    _rule("shm", r"No space left on device", within=r"shared_memory|shm_broadcast|object_storage"),
    _rule("shm", r"while creating shared memory segment|extend /dev/shm|ncclShmOpen", kind="loose"),
    _rule("shm", r"NCCL WARN.*posix_fallocate", kind="loose", source="nccl#290"),
    _rule("shm", r"insufficient shared memory|out of shared memory|bus error|SIGBUS", kind="loose"),
    _rule("shm", r"unable to (?:write to file|open shared memory object|mmap \d+ bytes from file) <", kind="loose"),
)

_HOST_MEMORY = (
    _rule("oom_host", r"oom-kill|Out of memory: Killed process|Memory cgroup out of memory", kind="loose"),
    _rule("oom_host", r"DefaultCPUAllocator: can't allocate|\[Errno 12\]|^MemoryError|std::bad_alloc", kind="loose"),
    _rule("oom_host", r"^Killed$", kind="loose"),
)

_GPU_MEMORY = (
    _rule(
        "gpu_busy",
        r"(?:Free memory on device|Available memory on node).* is less than desired",
        phase="config",
        kind="loose",
        source="v1/worker/utils.py",
    ),
    _rule("gpu_busy", r"Error in memory profiling|Initial free memory .* current free memory", phase="profile"),
    _rule("gpu_busy", r"CUDA-capable device\(s\) is/are busy|devices are busy or unavailable"),
    # The engine's own word on the phase is better than the frames.
    _rule("oom_activation", r"out of memory occurred when warming up sampler", phase="warm_up", kind="loose"),
    _rule("oom_weights", r"Failed to load model - not enough GPU memory", phase="load", kind="loose"),
    _rule("kv_cache", r"on kv cache allocation is less than requested memory for kv", phase="kv_cache"),
    # Repacking weights for Marlin under WSL2: the allocation's failure comes back under other names.
    _rule("oom_weights", r"CUDA driver error: device not ready", phase="load", within=r"marlin|weights"),
    _rule("oom_weights", r"torch_call_dispatcher\(\s*\"aten::empty", phase="load", within=r"marlin|weights"),
    _rule(GPU_OOM, r"OutOfMemoryError|(?:CUDA|HIP|XPU) out of memory", kind="loose"),
    _rule(GPU_OOM, r"CUDA (?:driver )?error: out of memory|Cuda failure.*out of memory|CUDA_ERROR_OUT_OF_MEMORY"),
    _rule(GPU_OOM, r"CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|CUDNN_STATUS_ALLOC_FAILED"),
)

_KV_CACHE = (
    _rule("kv_cache", r"To serve at least one request with the model's max seq len", phase="kv_cache"),
    _rule("kv_cache", r"than the maximum number of tokens that can be stored in KV cache", phase="kv_cache"),
    _rule("kv_cache", r"No available memory for the cache blocks|Cannot auto-fit max_model_len", phase="kv_cache"),
    _rule("kv_cache", r"exceeds available Mamba cache blocks|Mamba cache blocks? \(", phase="graph_capture"),
    _rule("kv_cache", r"KV cache is needed|not enough (?:\w+ )*memory.* kv[ _]?cache", phase="kv_cache"),
    _rule("kv_cache", r"kv_cache_memory(?:_bytes)?\b.*(?:larger|exceeds|more) than", phase="kv_cache"),
)

_SAID_BY_ALL_BACKENDS = r"Reasons: \{(?:[^\[\]{}]*\[[^\]]*kv_cache_dtype not supported[^\]]*\])+[^\[\]]*\}"

_ATTENTION = (
    # Triton names the type only; inside a kernel for weights it is a matter of quantization.
    _rule("quantization", r"fp8e4nv not supported", within=r"w8a8|fp8_utils|fused_moe|scaled_mm|quantization/"),
    _rule("kv_dtype", r"fp8e4nv not supported|fp8e4nv\) requires SM\d+", kind="loose", source="vllm#26431"),
    _rule("kv_dtype", r"Selected backend \S+ is not valid.*kv_cache_dtype not supported"),
    # Only when every backend names the KV type; a mixture is a matter of backends.
    _rule("kv_dtype", r"No valid attention backend found.*" + _SAID_BY_ALL_BACKENDS),
    # These two list reasons in the words of the rules below, so they stand before them.
    _rule("attention_backend", r"Selected backend \S+ is not valid for this configuration"),
    _rule("attention_backend", r"No valid attention backend|no (?:suitable|supported) attention backend"),
    # The drafter's need, not the backend's fault: speculation is what cannot run.
    _rule("speculation", r"non-causal support, which is required for"),
    _rule("kv_dtype", r"FP8 KV cache is not supported by the Triton", source="v1/attention/backends"),
    _rule("kv_dtype", r"kv-?_? ?cache is not supported with fp8 checkpoints"),
    _rule("kv_dtype", r"requires FA3 on SM90|FlashAttention.*does not support fp8 kv", kind="loose"),
    _rule("attention_backend", r"head[_ ]size \S+ (?:is )?not supported|unsupported head[_ ]size"),
)

_SPECULATION = (
    _rule("speculation", r"validation errors? for SpeculativeConfig", phase="config"),
    _rule("speculation", r"Unsupported speculative method"),
    _rule("speculation", r"max_num_scheduled_tokens is set to -?\d+", source="vllm#50708"),
    _rule("speculation", r"first batch-size range|batch-size ranges must|num_speculative_tokens"),
    _rule("speculation", r"Target and draft model should have the same|draft_tensor_parallel_size"),
    _rule("speculation", r"async scheduling is only supported with|padded drafter batch|dflash_config"),
    _rule("speculation", r"DFlash uses a fixed|does not support M-RoPE yet|dspark_block_size|n_predict="),
    _rule("speculation", r"Model Runner V2 (?:does not yet support|requires)", phase="config"),
    _rule("speculation", r"Arctic Inference is required|Synthetic acceptance not supported|Eagle3 is only"),
    # A bare assertion: blocks of drafted tokens that do not divide the hybrid cache's block.
    _rule("speculation", r"^AssertionError$", within=r"(?s)^(?!.*speculative_config=None).*kv_cache_coordinator"),
)

_MODEL = (
    _rule("max_model_len", r"max_model_len \(\d+\) is greater than the derived max_model_len", phase="config"),
    _rule("max_model_len", r"VLLM_ALLOW_LONG_MAX_MODEL_LEN", phase="config"),
    _rule("trust_remote_code", r"contains custom code which must be executed", phase="config"),
    _rule("trust_remote_code", r"(?:setting|argument|option|pass) .?-*trust[_-]remote[_-]code", phase="config"),
    _rule("trust_remote_code", r"requires you to execute the \w+ file", phase="config"),
    _rule("architecture", r"Model architectures? .* (?:are|is) not supported|does not recognize this architecture"),
    _rule("architecture", r"failed to be inspected|was supported in vLLM until|not supported in-tree anymore"),
    _rule("architecture", r"has no vLLM implementation|Unrecognized (?:configuration class|model in)"),
    _rule("architecture", r"no native vLLM implementation|Cannot find model module"),
    _rule("model_files", r"Cannot find any model weights|SafetensorError|deserializing header", phase="load"),
    _rule("model_files", r"failed to tokenize reasoning strings|Can't load tokenizer|backend tokenizer"),
    _rule("model_files", r"PytorchStreamReader failed|invalid load key|not initialized from checkpoint"),
    _rule("model_files", r"not appear to have (?:a file|any files) named|Unable to load weights|git-lfs"),
    _rule("model_files", r"No such file or directory: '?\S*(?:\.safetensors|\.bin|\.gguf|tokenizer|\.model)"),
)

_MODEL_UNAVAILABLE = (
    _rule("model_unavailable", r"GatedRepo|gated repo|Access to model .* is restricted|\b40[13] Client Error"),
    # Told to stay offline, the hub's client ends in the same words as without a network: only one may pass by.
    _rule("model_unavailable", r"OfflineModeIsEnabled|outgoing traffic has been disabled"),
    _rule("model_unavailable", r"429 Client Error|5\d\d Server Error.*huggingface", retryable=True),
    _rule("model_unavailable", r"Max retries exceeded|MaxRetryError|NameResolution|name resolution", retryable=True),
    _rule("model_unavailable", r"\bConnectError|couldn't connect to 'https?://", retryable=True),
    _rule("model_unavailable", r"RepositoryNotFound|RevisionNotFound|EntryNotFound|404 Client Error"),
    _rule("model_unavailable", r"HFValidationError|Repo id must be in the form|Invalid repository ID or local"),
    _rule("model_unavailable", r"appropriate cached snapshot|not a valid model identifier|HF_TOKEN"),
    _rule("model_unavailable", r"Can't load the configuration of|model .* (?:not found|does not exist)"),
    _rule("model_unavailable", r"^(?:requests|httpx|urllib3|aiohttp)\.", retryable=True),
)

_QUANTIZATION = (
    _rule("quantization", r"Unknown quantization method|quantization method \S+ is not supported for the current"),
    _rule("quantization", r"is not supported for quantization method|quantization is currently not supported"),
    _rule("quantization", r"Quantization method .* does not match the quantization method", phase="config"),
    _rule("quantization", r"Failed to find a kernel that can implement|--linear-backend=", phase="load"),
    _rule("quantization", r"Prequant\b|(?:MoE|GEMM|linear) kernels? (?:does|do) not support"),
    # A shard narrower than a tile is named by the quantization's code but made by the number of ranks.
    _rule("tensor_parallel", r"GPTQ_MARLIN_MIN_THREAD|partition\w* ?= ?\d+ is not divisible"),
    _rule("tensor_parallel", r"too large tensor parallel size|not divisible by weight quantization block"),
)

_TENSOR_PARALLEL = (
    _rule("tensor_parallel", r"attention heads .*must be divisible by tensor parallel size", phase="config"),
    _rule("tensor_parallel", r"World size \(\d+\) is larger than the number of available GPUs", phase="config"),
    _rule("tensor_parallel", r"divisible by (?:the )?(?:tensor|tp[_ ]size|tp\b|world[_ ]size|num_partitions)"),
    _rule("tensor_parallel", r"AssertionError: \d+ is not divisible by \d+|exceeds assigned_physical_gpu_ids"),
    _rule("tensor_parallel", r"local rank \d+ is out of bounds|invalid device ordinal", phase="config"),
    _rule("tensor_parallel", r"required GPUs exceeds|tensor parallel size \(?\d+\)? (?:cannot|can't|must)"),
    _rule("tensor_parallel", r"validation errors? for ParallelConfig", phase="config"),
    _rule("tensor_parallel", r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver"),
)

_CLI_PARSER = (
    _rule("cli", r"^(?:vllm|python|[\w-]+\.py)[\w .-]*: error: ", phase="launch", kind="loose", source="argparse"),
    _rule("cli", r"Unknown attention backend: '|Unknown vLLM environment variable", phase="config"),
    _rule("cli", r"Invalid value .* for VLLM_\w+|cannot be converted to <function", phase="launch"),
)

# A configuration's class refused it with no word that an earlier rule knows.
_CONFIG = (
    _rule("cli", r"validation errors? for \w+.*Input should be", phase="config", source="pydantic"),
    _rule("cli", r"validation errors? for (?:Scheduler|Cache|Load|Lora|Compilation|EngineArgs)\w*", phase="config"),
)

_COMMUNICATION = (
    # A port of the ranks among themselves, drawn anew at the next start.
    _rule("environment", r"DistNetworkError.*(?:EADDRINUSE|address already in use)", retryable=True),
    _rule("port_in_use", r"\[Errno 98\]|EADDRINUSE|address already in use", phase="launch", kind="loose"),
    _rule("nccl_p2p", r"custom_all_reduce\.cuh:\d+|peer access is not supported|peer mapping", kind="loose"),
    _rule("nccl_p2p", r"CUDA error|Cuda failure", within=r"custom_all_reduce\S*$"),
    # Told of NCCL too old for these cards, with several ranks only (vllm#18814); with one it is the cache.
    _rule("jit", r"hash of the compiled graph", within=r"tensor_parallel_size=1\b"),
    _rule("nccl_p2p", r"hash of the compiled graph", source="vllm#18814"),
)

_JIT = (
    _rule("jit", r"vLLM failed to compile the model|torch_compile_cache|corrupted compil", phase="profile"),
    _rule("jit", r"\bnvcc\b.*(?:not found|fatal|Unknown option)|nvcc fatal|Could not find nvcc", kind="loose"),
    _rule("jit", r"ninja: build stopped|Ninja build failed|Error building extension|'ninja'", kind="loose"),
    _rule("jit", r"ptxas (?:fatal|error)|PTX assembly aborted|CUDA_HOME environment variable", kind="loose"),
    _rule("jit", r"Failed to find C compiler|fatal error: (?:Python|cuda\w*)\.h|cc1plus", kind="loose"),
    _rule("jit", r"torch\._(?:inductor|dynamo)\.exc\.|BackendCompilerFailed|InductorError"),
    _rule("jit", r"triton\.\S*(?:CompilationError|PTXASError)|^triton\.compiler\."),
    _rule("jit", r"CalledProcessError.*(?:gcc|cc|nvcc|g\+\+|ninja)\b"),
)

_CUDA = (
    _rule("cuda_driver", r"no kernel image is available|device kernel image is invalid", kind="loose"),
    _rule("cuda_driver", r"NVIDIA driver on your system is too old|CUDA driver version is insufficient"),
    _rule("cuda_driver", r"forward compatibility was attempted|unsupported toolchain|Error 80[0-9]: |Error 999"),
    _rule("cuda_driver", r"driver initialization failed|Unexpected error from cudaGetDeviceCount|CUDA unknown error"),
    _rule("cuda_driver", r"undefined symbol|lib(?:cu\w*|nv\w*|nccl\w*|torch\w*|c10\w*)\.so\S*: cannot open"),
    _rule("cuda_driver", r"illegal memory access|device-side assert|unspecified launch failure|misaligned address"),
    _rule("cuda_driver", r"\bXid\b.*: ?\d+|fallen off the bus|uncorrectable ECC", kind="loose"),
    _rule("tensor_parallel", r"NVMLError|NVML Shared Library Not Found", source="no GPU to be seen"),
    _rule(
        "nccl_p2p", r"NCCL (?:error|operation|comm)|\bnccl(?:Unhandled|System|Internal|Remote|Invalid)", kind="follower"
    ),
    _rule("nccl_p2p", r"Watchdog caught collective operation timeout", kind="follower loose"),
    _rule("nccl_p2p", r"DistBackendError|ProcessGroupNCCL.*(?:error|exception|abort)", kind="follower"),
    _rule("cuda_driver", r"CUDA (?:driver )?error: |CUBLAS_STATUS_|cudaError"),
)

_ENVIRONMENT = (
    _rule("environment", r"No space left on device|Disk quota exceeded|Too many open files", retryable=True),
    _rule("environment", r"can't start new thread|pthread_create failed|temporarily unavailable", retryable=True),
    _rule("environment", r"is not found in LD_PRELOAD|cannot open shared object file|version `\w+'? not found"),
    _rule("environment", r"'_OpNamespace' '\w+' object has no attribute|_IncludedRouter"),
    _rule("environment", r"^(?:ModuleNotFoundError|ImportError)|cannot import name|PackageNotFoundError"),
    _rule("environment", r"Read-only file system|^PermissionError|Permission denied: '"),
    # Last of the compiler's rules: an error of any name, raised inside its own code or its cache.
    _rule("jit", r"^\S*(?:Error|Exception)\b", within=r"(?:torch/_inductor|torch/_dynamo|vllm/compilation)/\S*$"),
)

# Sentences of a family, for messages not met yet: after every message that is known by itself.
_WIDE = (
    _rule("kv_dtype", r"(?:fp8|int8|int4|nvfp4|e4m3|e5m2|turboquant)\w*[ -]kv[-_ ]?cache\b.*" + _NOT),
    _rule("kv_dtype", r"kv[-_ ]cache[-_ ](?:d?type|format)\b.*" + _NOT),
    _rule("kv_dtype", _NOT + r".*\b(?:kv[-_ ]cache[-_ ]d?type|type of kv[-_ ]cache)"),
    _rule("kv_dtype", r"kv[-_ ]cache[-_ ]dtype\b.*(?:requires|only (?:supported|available)|needs)\b"),
    _rule("speculation", r"spec(?:ulative)?[ _-]?decod(?:e|ing)\b.*" + _NOT),
    _rule("speculation", _NOT + r".*\bspec(?:ulative)?[ _-]?decod(?:e|ing)"),
    _rule("attention_backend", r"(?:attention|FlashInfer|FlashMLA|FlashAttention\S*|FLASH_ATTN\w*)\b.*" + _NOT),
    _rule("attention_backend", r"(?:FA[234]|FlashAttention\S*|FlashInfer) (?:is )?(?:only|requires)\b"),
    _rule("quantization", r"(?:quantiz|\bmarlin|\bawq|\bgptq|nvfp4|mxfp4|bitsandbytes|\bfp8)\w*\b.*" + _NOT),
    _rule(
        "quantization", r"No (?:\w+ )?(?:FP8|NVFP4|MXFP4|INT8) .*(?:kernel|backend)|Unsupported quant|No compiled \w+"
    ),
    _rule("speculation", r"\b(?:dflash|dspark|eagle3?|medusa|mtp|drafter|draft model|ngram)\b.*" + _NOT),
    _rule("speculation", r"\b(?:dflash|dspark|eagle3?|mtp|drafter|draft model)\b.*(?:must|requires?|only)\b"),
)

# From here on: what remains to be said once something else has gone wrong. Believed only if nothing else is
# there, and in this order.
_FOLLOWERS = (
    _rule("timeout", r"Timed out waiting for engine core|Did not receive response from front-end", kind="follower"),
    _rule("timeout", r"RPC call to \w+ timed out|Timed out after \d+ seconds|\bTimeoutError\b", kind="follower"),
    _rule("timeout", r"DistStoreError|Socket Timeout|wait timeout after", kind="follower"),
    _rule("worker_died", r"Segmentation fault|Segfault encountered|terminate called", kind="follower loose"),
    _rule("worker_died", r"Fatal Python error|Aborted \(core dumped\)|SIG(?:SEGV|ABRT|KILL)\b", kind="follower loose"),
    _rule("worker_died", r"died unexpectedly|process terminated abruptly", kind="follower loose"),
    _rule("worker_died", r"Connection (?:reset|closed) by|Broken ?Pipe|^EOFError|recvValue failed", kind="follower"),
    _rule(
        "worker_died",
        r"WorkerProc initialization failed|WorkerProc hit an exception|Worker failed with",
        kind="follower loose",
    ),
    _rule("worker_died", r"EngineCore encountered a|Executor failed\.|Engine process failed", kind="follower loose"),
    _rule("worker_died", r"Engine ?core initialization failed|EngineCore failed to start", kind="follower loose"),
    _rule("worker_died", r"EngineDeadError|EngineCore died|ActorDied|RayActorError", kind="follower loose"),
)

RULES: Final = (
    # The parser's lines quote everything that would have been allowed: before any rule that reads such words.
    *_CLI_PARSER,
    *_CONTAINER,
    *_TILE,
    *_SHM,
    *_HOST_MEMORY,
    *_GPU_MEMORY,
    *_KV_CACHE,
    *_ATTENTION,
    *_COMMUNICATION,
    *_SPECULATION,
    *_MODEL,
    *_QUANTIZATION,
    *_TENSOR_PARALLEL,
    *_MODEL_UNAVAILABLE,
    *_WIDE,
    *_JIT,
    *_CUDA,
    *_ENVIRONMENT,
    *_CONFIG,
    *_FOLLOWERS,
)
