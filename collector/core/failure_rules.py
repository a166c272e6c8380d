"""What an engine's log can say and what it means: one table (hence the length), read by `failures`.

A rule names a category for a line that the engine itself printed. The first rule that matches wins, so the
order is part of the meaning; a comment stands wherever two neighbours could claim the same line. To teach a
new message, add a rule to its category, above whatever wider rule would take it: for a class of messages
rather than for a sentence.

Line numbers and positions move between engine versions and are never matched. A rule may look at the
frames of the traceback (`within`), because some texts mean one thing in one place and another elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from collector.core.failure_words import GPU_OOM


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


_NOT = (
    r"(?:not (?:yet )?(?:supported|support|implemented|compatible|available|allowed)|n't support|unsupported"
    r"|no longer supported|incompatible with|has been removed)"
)

# A container that never ran the engine says so in the words of Docker or of its runtime, on plain lines.
_CONTAINER = (
    _rule("port_in_use", r"port is already allocated|ports are not available", kind="loose", source="docker"),
    _rule("cuda_driver", r"unsatisfied condition: cuda|driver/library version mismatch", kind="loose"),
    _rule("container", r"toomanyrequests|TLS handshake timeout", kind="loose", retryable=True),
    # A daemon that has no room left is the disk's matter, not the runtime's.
    _rule("environment", r"daemon: .*no space left on device", kind="loose", retryable=True),
    _rule("container", r"error response from daemon|cannot connect to the docker daemon", kind="loose"),
    _rule(
        "container", r"docker daemon socket|docker\.sock|no matching manifest|invalid reference format", kind="loose"
    ),
    _rule(
        "container", r"unresolvable CDI devices|executable file not found in|^(?:Error: )?(?:runc|crun)\b", kind="loose"
    ),
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

# What a failed build prints names sources, flags and kernels of every part: it must be named before them.
_BUILD = (_rule("jit", r"ninja: build stopped|Ninja build failed|Error building extension|nvcc fatal", kind="loose"),)

# Whoever started the engine ended it, because it took too long; that it was tried and failed is no end yet.
_PROBE = (
    _rule("timeout", r"failed (?:startup|liveness) probe, will be|probe failed too many times", kind="loose"),
    _rule("timeout", r"(?:startup|liveness) probe (?:failed|errored)", kind="follower loose"),
)

_SHM = (
    # The same words mean the disk elsewhere: the place decides.
    _rule("shm", r"No space left on device.*/dev/shm|/dev/shm.*(?:No space left|failed|error)", kind="loose"),
    _rule("shm", r"No space left on device", within=r"shared_memory|shm_broadcast|object_storage"),
    _rule("shm", r"while creating shared memory segment|extend /dev/shm|ncclShmOpen", kind="loose"),
    _rule("shm", r"(?:shared memory|\bshm\b).*No space left|--shm-size|Insufficient space in \S*shm"),
    _rule("shm", r"unable to (?:allocate|open|create|resize|attach) shared memory"),
    _rule("shm", r"NCCL WARN.*posix_fallocate", kind="loose", source="nccl#290"),
    _rule("shm", r"insufficient shared memory|out of shared memory|bus error|SIGBUS", kind="loose"),
    _rule("shm", r"unable to (?:write to file|open shared memory object|mmap \d+ bytes from file) <", kind="loose"),
)

_HOST_MEMORY = (
    _rule("oom_host", r"oom-kill|Out of memory: Killed process|Memory cgroup out of memory", kind="loose"),
    _rule("oom_host", r"DefaultCPUAllocator: can't allocate|\[Errno 12\]|^MemoryError|std::bad_alloc", kind="loose"),
    _rule("oom_host", r"^Killed$|^\S+: line \d+: +\d+ Killed\b|Cannot allocate memory", kind="loose"),
    _rule("oom_host", r"node running low on memory|^ray\.exceptions\.OutOfMemoryError", kind="loose", source="ray"),
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
    _rule("oom_weights", r"Failed to load model - not enough GPU memory", phase="weights", kind="loose"),
    _rule("kv_cache", r"on kv cache allocation is less than requested memory for kv", phase="kv_alloc"),
    # Repacking weights for Marlin under WSL2: the allocation's failure comes back under other names.
    _rule("oom_weights", r"CUDA driver error: device not ready", phase="weights", within=r"marlin|weights"),
    _rule("oom_weights", r"torch_call_dispatcher\(\s*\"aten::empty", phase="weights", within=r"marlin|weights"),
    _rule(GPU_OOM, r"OutOfMemoryError|(?:CUDA|HIP|XPU) out of memory", kind="loose"),
    _rule(GPU_OOM, r"CUDA (?:driver )?error: out of memory|CUDA_ERROR_OUT_OF_MEMORY", kind="loose"),
    _rule(
        GPU_OOM, r"Cuda failure.*out of memory|Triton Error \[CUDA\]: out of memory|cudaMalloc failed: out of memory"
    ),
    _rule(GPU_OOM, r"CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|CUDNN_STATUS_ALLOC_FAILED"),
)

_KV_CACHE = (
    _rule("kv_cache", r"To serve at least one request with the model's max seq len", phase="kv_alloc"),
    _rule("kv_cache", r"than the maximum number of tokens that can be stored in KV cache", phase="kv_alloc"),
    _rule("kv_cache", r"No available memory for the cache blocks|Cannot auto-fit max_model_len", phase="kv_alloc"),
    _rule("kv_cache", r"exceeds available Mamba cache blocks|Mamba cache blocks? \(", phase="graph_capture"),
    _rule("kv_cache", r"KV cache is needed|not enough (?:\w+ )*memory.* kv[ _]?cache", phase="kv_alloc"),
    _rule("kv_cache", r"kv_cache_memory(?:_bytes)?\b.*(?:larger|exceeds|more) than", phase="kv_alloc"),
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
    _rule(
        "speculation",
        r"\b(?:speculative_\w+|synthetic_acceptance_\w+|draft_(?:model|sample|max)_\w+)\b ?(?:=|must|should|\()",
    ),
    _rule(
        "speculation",
        r"rejection_sample_method|unknown spec\w* (?:decod\w+ )?method|speculators config|EAGLE-?3? interface",
    ),
    _rule("speculation", r"Arctic Inference is required|Synthetic acceptance not supported|Eagle3 is only"),
    # A bare assertion: blocks of drafted tokens that do not divide the hybrid cache's block.
    _rule("speculation", r"^AssertionError$", within=r"/spec_decode/\S+$"),
    _rule("speculation", r"^AssertionError$", within=r"(?s)^(?!.*speculative_config=None).*kv_cache_coordinator"),
)

_MODEL_FILE = (
    r"(?:\.safetensors|\.bin|\.gguf|\.pth?\b|\.model\b|\.tiktoken|tekken\.json|tokenizer\S*|vocab\.\w+|merges\.txt|/params\.json"
    r"|/(?:\w+_)?config\.json|index\.json)"
)

# The hub's answers name files, too: what is not there is not the disk's.
_HERE = r"^(?!.*(?:https?://|Client Error)).*"

_MODEL = (
    _rule("max_model_len", r"max_model_len \(\d+\) is greater than the derived max_model_len", phase="config"),
    _rule("max_model_len", r"VLLM_ALLOW_LONG_MAX_MODEL_LEN", phase="config"),
    _rule("trust_remote_code", r"contains custom code which must be executed", phase="config"),
    _rule("trust_remote_code", r"(?:setting|argument|option|pass) .?-*trust[_-]remote[_-]code", phase="config"),
    _rule("trust_remote_code", r"requires you to execute the \w+ file", phase="config"),
    _rule("architecture", r"Model architectures? .* (?:are|is) not supported|does not recognize this architecture"),
    # The engine imports a model's code to look at it; what is missing there is the model's, not the host's.
    _rule("architecture", r"cannot import name .*transformers", within=r"(?: |models/)registry\.py"),
    _rule("architecture", r"failed to be inspected|was supported in vLLM until|not supported in-tree anymore"),
    _rule(
        "architecture", r"(?:GGUF )?model with architecture \S+ is not supported|No model architectures are specified"
    ),
    _rule("architecture", r"has no vLLM implementation|Unrecognized (?:configuration class|model in)"),
    _rule("architecture", r"no native vLLM implementation|Cannot find model module"),
    _rule("model_files", r"Cannot find any model weights|SafetensorError|deserializing header", phase="weights"),
    _rule("model_files", r"failed to tokenize reasoning strings|Can't load tokenizer|backend tokenizer"),
    _rule("model_files", r"Consistency check failed|should be of size \d+ but|is not a valid JSON file"),
    _rule("model_files", r"JSONDecodeError", within=r"transformers|tokenizer|weight_utils|huggingface"),
    _rule(
        "model_files",
        r"Tokenizer class \S+ does not exist|Can't load (?:image |feature |video )?(?:processor|extractor)",
    ),
    _rule(
        "model_files",
        r"No such file or directory: '?\S*/(?:config|generation_config|preprocessor_config|\S*index)\.json",
    ),
    _rule("model_files", r"Converting from \w+ failed|sentencepiece_model|tokenizer\.model file"),
    _rule("model_files", r"PytorchStreamReader failed|invalid load key|not initialized from checkpoint"),
    _rule("model_files", r"not appear to have (?:a file|any files) named|Unable to load weights|git-lfs"),
    # A file of the model that cannot be read at all, whatever the system says of it; a full disk is the disk's matter.
    _rule("model_files", r"(?:\[Errno (?!28|122|24)\d+\]|No such file or directory\b) ?.*" + _MODEL_FILE),
    _rule(
        "model_files", _HERE + _MODEL_FILE + r".*\b(?:missing|not found|corrupt\w*|truncated|empty|too s\w+|invalid)\b"
    ),
    _rule("model_files", _HERE + r"\b(?:missing|not find|cannot find|couldn't find|corrupt\w*)\b.*" + _MODEL_FILE),
    _rule("model_files", _HERE + r"\bno (?:\w+ ){0,2}(?:tokenizer|weights?|checkpoint|vocab\w*|config) files?\b"),
    _rule("model_files", r"weight files? .*missing"),
    _rule("model_files", r"No (?:\w+ )?model weights found|Cannot find any \w* ?model weights|config file exists"),
    # What the readers of such a file say of one that holds something else, such as the pointer of git-lfs.
    _rule(
        "model_files", r"UnpicklingError|Weights only load failed|central directory|magic (?:number )?(?:is )?invalid"
    ),
    _rule("model_files", r"\bat line \d+ column \d+|untagged enum", within=r"tokeniz|transformers|safetensors"),
    _rule(
        "model_files",
        r"UnicodeDecodeError|Ran out of input|Error parsing|ParseError",
        within=r"tokeniz|sentencepiece|/transformers/|weight_utils|torch/serialization",
    ),
)

_MODEL_UNAVAILABLE = (
    _rule("model_unavailable", r"GatedRepo|gated repo|Access to model .* is restricted|\b40[13] Client Error"),
    # Told to stay offline, the hub's client ends in the same words as without a network: only one may pass by.
    _rule("model_unavailable", r"OfflineModeIsEnabled|outgoing traffic has been disabled"),
    _rule("model_unavailable", r"429 Client Error|5\d\d Server Error.*huggingface", retryable=True),
    _rule("model_unavailable", r"Max retries exceeded|MaxRetryError|NameResolution|name resolution", retryable=True),
    _rule("model_unavailable", r"\bConnectError|couldn't connect to 'https?://", retryable=True),
    _rule("model_unavailable", r"RepositoryNotFound|RevisionNotFound|EntryNotFound|404 Client Error"),
    _rule(
        "model_unavailable", r"(?:Repository|Revision|Entry) Not Found|Invalid (?:user token|username or password|cred)"
    ),
    _rule("model_unavailable", r"CAS service error|Reqwest\w* Error|hf_transfer.*(?:error|failed)", retryable=True),
    _rule("model_unavailable", r"CERTIFICATE_VERIFY_FAILED|ProxyError", retryable=True),
    _rule(
        "model_unavailable", r"gaierror|not known", within=r"huggingface|hf_|requests/|httpx/|urllib3/", retryable=True
    ),
    _rule("model_unavailable", r"HFValidationError|Repo id must be in the form|Invalid repository ID or local"),
    _rule("model_unavailable", r"appropriate cached snapshot|not a valid model identifier|HF_TOKEN"),
    _rule("model_unavailable", r"Can't load the configuration of|model .* (?:not found|does not exist)"),
    _rule("model_unavailable", r"^(?:requests|httpx|urllib3|aiohttp)\.", retryable=True),
)

_QUANTIZATION = (
    _rule("quantization", r"Unknown quantization method|quantization method \S+ is not supported for the current"),
    _rule("quantization", r"Cannot find the config file for \w+"),
    _rule("quantization", r"is not supported for quantization method|quantization is currently not supported"),
    _rule("quantization", r"Quantization method .* does not match the quantization method", phase="config"),
    _rule("quantization", r"Failed to find a kernel that can implement|--linear-backend=", phase="weights"),
    _rule("quantization", r"Prequant\b|(?:MoE|GEMM|linear) kernels? (?:does|do) not support"),
    # A shard narrower than a tile is named by the quantization's code but made by the number of ranks.
    _rule("tensor_parallel", r"GPTQ_MARLIN_MIN_THREAD|partition\w* ?= ?\d+ .{0,99}not divisible"),
    _rule("tensor_parallel", r"(?:reduc|lower|decreas|chang)\w+ (?:the )?\W{0,3}(?:tensor|tp)[_ -](?:parallel|size)"),
    _rule("tensor_parallel", r"too large tensor parallel size|not divisible by weight quantization block"),
)

_TENSOR_PARALLEL = (
    _rule("tensor_parallel", r"attention heads .*must be divisible by tensor parallel size", phase="config"),
    _rule("tensor_parallel", r"World size \(\d+\) is larger than the number of available GPUs", phase="config"),
    _rule("tensor_parallel", r"divisible by (?:the )?(?:tensor|tp[_ ]size|tp\b|world[_ ]size|num_partitions)"),
    _rule(
        "tensor_parallel",
        r"(?:attention|kv|query|key/value) heads?\b.*(?:divisible|divide).*(?:tp|tensor|parallel|rank)",
    ),
    _rule("tensor_parallel", r"tensor[_ -]parallel[_ -]size\b.*(?:only \d+ GPU|GPUs? available|divi(?:sible|de))"),
    _rule("tensor_parallel", r"Error: \d+ is not divisible by \d+|exceeds assigned_physical_gpu_ids"),
    _rule("tensor_parallel", r"local rank \d+ is out of bounds|invalid device ordinal", phase="config"),
    _rule("tensor_parallel", r"required GPUs exceeds|tensor parallel size \(?\d+\)? (?:cannot|can't|must)"),
    _rule(
        "tensor_parallel",
        r"validation errors? for ParallelConfig.*(?:_parallel_|_rank|\btp_|world|GPU|ranks?\b|tensor)",
        phase="config",
    ),
    _rule("tensor_parallel", r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver"),
)

_CLI_PARSER = (
    _rule("cli", r"^(?:vllm|python|[\w-]+\.py)[\w .-]*: error: ", phase="launch", kind="loose", source="argparse"),
    _rule("cli", r"Unknown attention backend: '|Unknown vLLM environment variable", phase="config"),
    _rule("cli", r"^Error: (?:No such option|Invalid value|Missing)", phase="launch", kind="loose", source="click"),
    _rule("cli", r"Invalid value .* for VLLM_\w+|cannot be converted to <function", phase="launch"),
    _rule("cli", r"JSONDecodeError", within=r"argparse|arg_utils|entrypoints/cli", phase="launch"),
    _rule(
        "cli",
        r"supplied chat template|Cannot set both|are mutually exclusive|Unknown dtype|invalid .*\bparser: ",
        phase="config",
    ),
)

# Where the engine's own code refuses on purpose, the place names the kind. Not for errors of any other name:
# a tensor's shape or a missing key there is a fault that nobody foresaw.
_ON_PURPOSE = r"^\S*(?:ValueError|NotImplementedError|AssertionError): \S"
_PLACE = (
    _rule("speculation", _ON_PURPOSE, within=r"(?:config/speculative|/spec_decode/\S*)\.py:\S+$"),
    _rule("quantization", _ON_PURPOSE, within=r"layers/quantization/\S*\.py:\S+$|fused_moe/oracle/\S+$"),
    _rule(
        "attention_backend",
        _ON_PURPOSE,
        within=r"v1/attention/(?:backends/|selector)\S*:(?:__init__|__post_init__|get_\w+|_?validate\w*|_cached\w*)$",
    ),
    _rule("cli", _ON_PURPOSE, within=r"(?:engine/arg_utils|/envs|argparse_utils|entrypoints/\S*cli\S*)\.py:\S+$"),
)

# What the engine advises to change tells what it is about.
_ADVICE = (
    _rule("attention_backend", r"(?:different|another|other) (?:attention )?backend|--attention-backend"),
    _rule("cli", r"^\S*Error: VLLM_[A-Z_]+\b.*(?:must|should|invalid|cannot|not)", phase="config"),
)

# A configuration's class refused it with no word that an earlier rule knows.
_CONFIG = (
    _rule(
        "cli",
        r"validation errors? for VllmConfig.*Value error.*\b[a-z]+_\w+\b.*\b(?:should|must|cannot|requires?|only)\b",
        phase="config",
    ),
    _rule(
        "cli",
        r"validation errors? for \w+.*(?:Input should be|Unexpected keyword|Extra inputs|Field required)",
        phase="config",
    ),
    # A message that tells the flag it is about, from where settings are checked.
    _rule(
        "cli",
        r"(?:ValueError|AssertionError|Value error|Assertion failed).*(?:\B--[a-z][a-z-]{2,}|\bVLLM_[A-Z_]+)",
        phase="config",
        within=r"(?:vllm/config/\w+|pydantic/\S+|create_\w*config)\S*$",
    ),
    _rule(
        "cli",
        r"\b(?:max_num_batched_tokens|max_num_seqs|block_size)\b.*(?:must|should|smaller than|cannot)",
        phase="config",
        within=r"config\S*$",
    ),
    # A model's and the whole's can be refused for what the model is: only where words of a setting stand in it.
    _rule(
        "cli",
        r"validation errors? for (?:Vllm|Model)Config.*(?:Value error|Assertion failed).*(?:\b[a-z]+_[a-z]\w+\b|"
        + _NOT
        + ")",
        phase="config",
    ),
    _rule("cli", r"validation errors? for (?!Vllm|Model|HF)[A-Z]\w*(?:Config|Args)\b", phase="config"),
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
    _rule("jit", r"\bnvcc\b.*(?:not found|fatal|error|Unknown option)|Could not find nvcc", kind="loose"),
    _rule("jit", r"'ninja'", kind="loose"),
    _rule(
        "jit",
        r"\b(?:cicc|ptxas|ninja|gcc|g\+\+|cc1plus|clang)\b.*not found|cannot find -l\w+|^collect2: ",
        kind="loose",
    ),
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
    _rule("cuda_driver", r"CUDA (?:driver )?error: |CUBLAS_STATUS_|cudaError|CUDNN_STATUS_|Triton Error \[CUDA\]"),
)

_ENVIRONMENT = (
    _rule("environment", r"No space left on device|Disk quota exceeded|Too many open files", retryable=True),
    _rule("environment", r"can't start new thread|pthread_create failed|temporarily unavailable", retryable=True),
    _rule("environment", r"is not found in LD_PRELOAD|cannot open shared object file|version `\w+'? not found"),
    _rule("environment", r"'_OpNamespace' '\w+' object has no attribute|_IncludedRouter"),
    _rule("environment", r"^(?:ModuleNotFoundError|ImportError)|cannot import name|PackageNotFoundError"),
    _rule("environment", r"Read-only file system|PermissionError|Permission denied|Cannot assign requested address"),
    _rule("environment", r"(?:vllm|python3?): (?:command )?not found|No module named vllm", kind="loose"),
    _rule("environment", r"binary incompatib|failed to import|compiled using NumPy|operator \S+::\S+ does not exist"),
    _rule("environment", r"module '(?:torch|transformers|numpy|triton|flashinfer|fastapi)[\w.]*' has no attribute"),
    _rule(
        "environment",
        r"package is not (?:available|installed)|please (?:install|update|upgrade) |gaierror|Name or service not known",
    ),
    # Last of the compiler's rules: an error of any name, raised inside its own code or its cache.
    _rule("jit", r"^\S*(?:Error|Exception)\b", within=r"(?:torch/_inductor|torch/_dynamo|vllm/compilation)/\S*$"),
)

# Sentences of a family, for messages not met yet: after every message that is known by itself.
_WIDE = (
    _rule("kv_dtype", r"(?:fp8|int8|int4|nvfp4|e4m3|e5m2|turboquant)\w*[ -]kv[-_ ]?cache\b.*" + _NOT),
    _rule("kv_dtype", r"kv[-_ ]cache[-_ ](?:d?type|format)\b.*" + _NOT),
    _rule("kv_dtype", _NOT + r".*\b(?:kv[-_ ]cache[-_ ]d?type|type of kv[-_ ]cache)"),
    _rule("kv_dtype", r"(?:fp8|int8|int4|nvfp4)\w*[ -]kv[-_ ]?cache\b.*(?:requires|needs|only)\b"),
    _rule("kv_dtype", r"(?:invalid|unknown|only supports?) (?:kv[-_ ]cache[-_ ]d?type|\S+ kv[-_ ]cache[-_ ]d?type)"),
    _rule("kv_dtype", r"kv[-_ ]cache[-_ ]dtype\b.*(?:requires|only (?:supported|available)|needs)\b"),
    _rule("speculation", r"spec(?:ulative)?[ _-]?decod(?:e|ing)\b.*" + _NOT),
    _rule("speculation", _NOT + r".*\bspec(?:ulative)?[ _-]?decod(?:e|ing)"),
    _rule(
        "attention_backend",
        r"(?:attention|FlashInfer|FlashMLA|FlashAttention\S*|FLASH_ATTN\w*)\b.*" + _NOT,
        within=r"^(?!.*(?:device_communicators|layers/quantization|model_loader|transformers_utils)/)",
    ),
    _rule("attention_backend", r"(?:FA[234]|Fl(?:ash|ex)Attention\S*|FlashInfer)\b.{0,30}\b(?:only|requires)\b"),
    _rule("attention_backend", r"quantiz\w*\b.*" + _NOT, within=r"v1/attention/\S+$"),
    _rule("quantization", r"(?:quantiz|\bmarlin|\bawq|\bgptq|nvfp4|mxfp4|bitsandbytes|\bfp8)\w*\b.*" + _NOT),
    _rule(
        "quantization", r"No (?:\w+ )?(?:FP8|NVFP4|MXFP4|INT8) .*(?:kernel|backend)|Unsupported quant|No compiled \w+"
    ),
    _rule("quantization", _NOT + r".*\b(?:quantiz\w+|marlin|awq|gptq|bitsandbytes|nvfp4|mxfp[48])\b"),
    _rule(
        "quantization", r"(?:unknown|invalid|unrecognized) .*\bquant(?:iz\w+)?[ _](?:algo|method|scheme|type|config)"
    ),
    _rule("speculation", r"\b(?:dflash|dspark|eagle3?|medusa|mtp|drafter|draft model|ngram)\b.*" + _NOT),
    _rule("speculation", r"\b(?:dflash|dspark|eagle3?|mtp|drafter|draft model)\b.*(?:must|requires?|only)\b"),
    _rule("speculation", _NOT + r".*\b(?:dflash|dspark|eagle3?|medusa|drafter|draft model)\b"),
)

# From here on: what remains to be said once something else has gone wrong. Believed only if nothing else is
# there, and in this order.
_FOLLOWERS = (
    _rule("timeout", r"Timed out waiting for engine core|Did not receive response from front-end", kind="follower"),
    _rule("timeout", r"RPC call to \w+ timed out|Timed out after \d+ seconds|\bTimeoutError\b", kind="follower"),
    _rule("timeout", r"DistStoreError|Socket Timeout|wait timeout after", kind="follower"),
    _rule("worker_died", r"Segmentation fault|Segfault encountered|terminate called", kind="follower loose"),
    _rule("worker_died", r"Fatal Python error|Aborted \(core dumped\)|SIG(?:SEGV|ABRT|KILL)\b", kind="follower loose"),
    _rule(
        "worker_died",
        r"\bworker (?:\S+ )?(?:pid \d+ )?died\b|died unexpectedly|process terminated abruptly",
        kind="follower loose",
    ),
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
    *_BUILD,
    *_SHM,
    *_HOST_MEMORY,
    *_GPU_MEMORY,
    *_KV_CACHE,
    *_ATTENTION,
    *_COMMUNICATION,
    *_PROBE,
    *_SPECULATION,
    *_MODEL,
    *_QUANTIZATION,
    *_TENSOR_PARALLEL,
    *_MODEL_UNAVAILABLE,
    *_WIDE,
    *_JIT,
    *_CUDA,
    *_ENVIRONMENT,
    *_PLACE,
    *_ADVICE,
    *_CONFIG,
    *_FOLLOWERS,
)
