"""What the engine's log says about its choices (lines of vLLM 0.10 to 0.32, contract of section 5).

Only lines that the engine prints on its own account are read; a fact it does not print stays None.
"""

from __future__ import annotations

import re
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
_ALL_REDUCE = re.compile(r"Using \[([^\]]*)\] all-reduce backends \(in dispatch order\)")
_DOWNGRADE = re.compile(r"setting cudagraph_mode=(\w+)|Overriding cudagraph_mode from \w+ to (\w+)")
_CONFIG_MODE = re.compile(r"'?cudagraph_mode'?[:=] ?<CUDAGraphMode\.(\w+)")
_EAGER = re.compile(r"Enforce eager set, |enforce_eager=True")
_MODEL_GIB = re.compile(r"Model loading took (\d+(?:\.\d+)?) GiB")
_KV_TOKENS = re.compile(r"KV cache size: (\d[\d,]*) tokens")


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineFacts:
    """Facts of a log; None where the log does not say."""

    attention_backend: str | None = None
    draft_attention_backend: str | None = None
    cudagraph_mode: str | None = None
    all_reduce: str | None = None
    model_load_gib: float | None = None
    kv_cache_tokens: int | None = None


def is_emulated(log: str) -> bool:
    """Return whether a log is that of the embedded engine, however it was started."""
    return EMULATES in log


def read_engine_log(log: str) -> EngineFacts:
    """Return what a log states; of lines that every rank prints, the first."""
    log = _ANSI.sub("", log)
    target, _, draft = log.partition(_DRAFTER)
    backend, drafter_s = _backend(target), _backend(draft)
    tokens, load = _first(_KV_TOKENS, log), _first(_MODEL_GIB, log)
    return EngineFacts(
        attention_backend=backend,
        draft_attention_backend=drafter_s if drafter_s != backend else None,
        cudagraph_mode=_cudagraph_mode(log),
        all_reduce=_all_reduce(log),
        model_load_gib=float(load) if load else None,
        kv_cache_tokens=int(tokens.replace(",", "")) if tokens else None,
    )


def _backend(text: str) -> str | None:
    return next(filter(None, (_first(p, text) for p in (_BACKEND, _FORCED_BACKEND, _LAYOUT_BACKEND))), None)


def _cudagraph_mode(log: str) -> str | None:
    downgrades = _DOWNGRADE.findall(log)
    if _EAGER.search(log):
        return "NONE"
    if downgrades:
        return str(next(filter(None, downgrades[-1])))
    return _first(_CONFIG_MODE, log)


def _all_reduce(log: str) -> str | None:
    found = _first(_ALL_REDUCE, log)
    return ",".join(part.strip(" '\"") for part in found.split(",")) if found else None


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return str(match.group(1)) if match else None
