"""What the engine's log says about its choices (lines of vLLM 0.10 to 0.32, contract of section 5).

Only lines that the engine prints on its own account are read; a fact it does not print stays None.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

#: How the embedded engine begins its log, so that nobody takes its figures for measurements.
EMULATES = "collector's embedded engine: emulates"
#: Beside the version in its answer to GET /version.
EMULATED_BY = "emulated_by"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_BACKEND = re.compile(r"Using (\w+) attention backend out of potential backends")
_FORCED_BACKEND = re.compile(r"Using AttentionBackendEnum\.(\w+) backend\.")
_LAYOUT_BACKEND = re.compile(r"Using (?:HND|NHD) KV cache layout for (\w+) backend")
_DRAFTER = "Loading drafter model"
_ALL_REDUCE = re.compile(r"Using \[([^\]]*)\] all-reduce backends \(in dispatch order\)(?: for group '(\w+))?")
_DOWNGRADE = re.compile(r"setting cudagraph_mode=(\w+)|Overriding cudagraph_mode from \w+ to (\w+)")
_CONFIG_MODE = re.compile(r"'?cudagraph_mode'?[:=] ?<CUDAGraphMode\.(\w+)")
_EAGER = re.compile(r"Enforce eager set, |enforce_eager=True")
_MODEL_GIB = re.compile(r"Model loading took (\d+(?:\.\d+)?) GiB")
_KV_TOKENS = re.compile(r"KV cache size: (\d[\d,]*) tokens")
_NO_CUSTOM_ALL_REDUCE = re.compile(r"Custom allreduce is disabled|disable_custom_all_reduce'?[=:] ?True")
#: NCCL states the way of each channel between two ranks when NCCL_DEBUG is INFO (core/command.py).
_NCCL_CHANNEL = re.compile(r"NCCL INFO Channel \d+(?:/\d+)? : \d+\[\w+\] -> \d+\[\w+\](?: \[\w+\])? via (\w+)")
_LINEAR_KERNEL = (
    re.compile(r"Using (\w+) for (?:AutoGPTQ|AutoAWQ|AWQ|GPTQ|CompressedTensors)\w*"),
    re.compile(r"Selected (\w+Kernel) for \w+"),
    re.compile(r"Using (\w+) for (?:MXFP8|MXFP4|MXFP6|NVFP4) GEMM"),
)
_WEIGHTS_S = re.compile(r"Loading weights took (\d+(?:\.\d+)?) seconds")
_COMPILE_S = (
    re.compile(r"torch\.compile took (\d+(?:\.\d+)?) s in total"),
    re.compile(r"init engine \([^)]*\) took [\d.]+ s(?:econds)? \(compilation: (\d+(?:\.\d+)?) s"),
)
_GRAPH_GIB = re.compile(r"Graph capturing finished in \d+ secs?, took (-?\d+(?:\.\d+)?) GiB")
#: A line of another rank than the first, `(Worker_TP1 …)` or `(VllmWorker rank=1 …)`: what each prints counts once.
_OTHER_RANK = re.compile(r"^\(\w*Worker[^)\n]*?(?:TP|rank=)[1-9]\d*\b[^)\n]*\).*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineFacts:
    """Facts of a log; None where the log does not say."""

    attention_backend: str | None = None
    draft_attention_backend: str | None = None
    cudagraph_mode: str | None = None
    all_reduce: str | None = None
    model_load_gib: float | None = None
    kv_cache_tokens: int | None = None
    nccl_p2p: bool | None = None  # some pair of ranks reaches each other's memory; False: all go another way
    custom_all_reduce: bool | None = None
    linear_kernel: str | None = None
    weights_load_s: float | None = None  # target and drafter
    compile_s: float | None = None
    graph_gib: float | None = None


def is_emulated(log: str) -> bool:
    """Return whether a log is that of the embedded engine, however it was started."""
    return EMULATES in log


def read_engine_log(log: str) -> EngineFacts:
    """Return what a log states; of lines that every rank prints, the first."""
    log = _ANSI.sub("", log)
    target, _, draft = log.partition(_DRAFTER)
    backend, drafter_s = _backend(target), _backend(draft)
    tokens = _first(_KV_TOKENS, log)
    return EngineFacts(
        attention_backend=backend,
        draft_attention_backend=drafter_s if drafter_s != backend else None,
        cudagraph_mode=_cudagraph_mode(log),
        all_reduce=_all_reduce(log),
        model_load_gib=_number(_first(_MODEL_GIB, log)),
        kv_cache_tokens=int(tokens.replace(",", "")) if tokens else None,
        nccl_p2p=_nccl_p2p(log),
        custom_all_reduce=_custom_all_reduce(log),
        linear_kernel=_first_of(_LINEAR_KERNEL, log),
        weights_load_s=_total(_WEIGHTS_S, _OTHER_RANK.sub("", log)),
        compile_s=_number(_first_of(_COMPILE_S, log)),
        graph_gib=_number(_first(_GRAPH_GIB, log)),
    )


def _backend(text: str) -> str | None:
    return _first_of((_BACKEND, _FORCED_BACKEND, _LAYOUT_BACKEND), text)


def _cudagraph_mode(log: str) -> str | None:
    downgrades = _DOWNGRADE.findall(log)
    if _EAGER.search(log):
        return "NONE"
    if downgrades:
        return str(next(filter(None, downgrades[-1])))
    return _first(_CONFIG_MODE, log)


def _all_reduce(log: str) -> str | None:
    """Return the backends of the tensor-parallel group; other groups exchange rarely and say so too."""
    said = _ALL_REDUCE.findall(log)
    found = next((kinds for kinds, group in said if group == "tp"), said[0][0] if said else None)
    return ",".join(part.strip(" '\"") for part in found.split(",")) if found else None


def _custom_all_reduce(log: str) -> bool | None:
    """Return whether vLLM's own all-reduce is in use: by the line of its choice, or by the one that says no."""
    chosen = _all_reduce(log)
    if chosen is not None:
        return "CUSTOM" in chosen.split(",")
    return False if _NO_CUSTOM_ALL_REDUCE.search(log) else None


def _nccl_p2p(log: str) -> bool | None:
    ways = set(_NCCL_CHANNEL.findall(log))
    return "P2P" in ways if ways else None


def _total(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.findall(text)
    return round(sum(map(float, found)), 3) if found else None


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


def _first_of(patterns: Iterable[re.Pattern[str]], text: str) -> str | None:
    return next(filter(None, (_first(one, text) for one in patterns)), None)


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return str(match.group(1)) if match else None
