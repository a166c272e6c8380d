"""The profile of the published host: what is known, what is fitted, what was seen, as one plain document."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.calibration import known
from benchmarks.calibration.figures import Cell, Figure, of
from benchmarks.calibration.parameters import named
from collector.core.dimensions import DrafterDimensions, ModelDimensions
from collector.core.footprint import kv_bytes_per_token

PROFILE = Path(__file__).parents[2] / "collector" / "emulator" / "profiles" / "dual-3090.json"
FAILURES = Path(__file__).parents[2] / "data" / "published" / "failures.csv"
TENSOR_PARALLEL = 2
ABOUT = (
    "Two RTX 3090 with NVLink, vLLM 0.27.0. Emulated: step times from a roofline whose efficiencies were fitted to the "
    "figures of Shim Geunwoo, gnu.or.kr, measured 2026-08-20 (data/published)."
)


def assemble(values: Sequence[float], figures: Sequence[Figure]) -> dict[str, Any]:
    """Return the whole profile for a vector of free parameters."""
    return {
        "profile": 1,
        "name": "dual-3090",
        "about": ABOUT,
        "engine_version": "0.27.0",
        "hardware": hardware(values),
        "memory": memory(),
        "gpu_memory_utilization": known.GPU_MEMORY_UTILISATION,
        "max_num_batched_tokens": 2048,
        "block_size": 16,
        "models": {name: model(name) for name in known.MODELS},
        "acceptance": {name: acceptance(name, figures) for name in known.MODELS},
        "lone_runs": lone_runs(figures),
        "outcomes": outcomes(),
    }


def hardware(values: Sequence[float]) -> dict[str, Any]:
    parameters = named(values)
    links = {
        state: {
            "peak_bytes_s": peak,
            "efficiency": parameters.pop(f"link_{state}_efficiency"),
            "latency_s": parameters.pop(f"link_{state}_latency_s"),
        }
        for state, peak in known.LINK_PEAKS.items()
    }
    readers = {name.removeprefix("kv_read_"): parameters.pop(name) for name in list(parameters) if "kv_read_" in name}
    return {
        "gpu": known.GPU | {"source": known.GPU_SOURCE},
        "links": links,
        "efficiencies": parameters | {"kv_read": readers},
        "memory_source": known.MEMORY_SOURCE,
    }


def memory() -> dict[str, int]:
    return {
        "gpu_bytes": int(known.GPU["memory_bytes"]),
        "non_torch_bytes": int(known.NON_TORCH_BYTES),
        "activation_bytes": int(known.ACTIVATION_BYTES),
        "graph_bytes": int(known.GRAPH_BYTES),
        "peer_bytes": int(known.P2P_BYTES),
    }


def model(name: str) -> dict[str, Any]:
    target, drafter = ModelDimensions(**known.MODELS[name]), DrafterDimensions(**known.DRAFTERS[name])
    method, _ = known.SPECULATION[name]
    return {
        "architecture": known.ARCHITECTURES[name],
        "dimensions": {
            "target": known.MODELS[name],
            "drafters": {method: known.DRAFTERS[name]},
            "kv_readers": known.KV_READERS[name],
            "backends_source": known.BACKENDS_SOURCE,
            "prompt_tokens": known.PROMPT_TOKENS[name],
        },
        "weights_bytes": round(target.weight_bytes()),
        "layers": target.layers,
        "sliding_layers": target.sliding_layers,
        "sliding_window": target.window,
        "kv_bytes_per_token_layer": round(kv_bytes_per_token(target, "auto") / target.layers),
        "attention_backends": {kind: [backend] for kind, backend in known.BACKENDS[name].items()},
        "drafters": {method: {"weights_bytes": round(drafter.weight_bytes), "layers": 0}},
    }


def constant(accepted: float, k: int) -> float:
    """Return the conditional acceptance, the same at every position, that accepts so many of k drafts on average."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected([middle] * k) < accepted else (low, middle)
    return round(low, 6)


def expected(conditional: Sequence[float]) -> float:
    """Return accepted drafts per forward."""
    reached, total = 1.0, 0.0
    for one in conditional:
        reached *= one
        total += reached
    return total


def acceptance(name: str, figures: Sequence[Figure]) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return conditional acceptance by method, k and prompt kind, from the published table of drafters."""
    method, k = known.SPECULATION[name]
    mine = [one for one in figures if one.cell.model == name and not one.cell.concurrency and one.cell.k == k]
    kinds = {"synthetic": next(one.value for one in of(mine, "acceptance_rate") if one.prompt_set == "synthetic") * k}
    for one in of(mine, "accepted_per_forward"):
        if "/" in one.prompt_set:
            kinds[one.prompt_set.split("/")[1]] = one.value
    return {method: {str(k): {kind: [constant(value, k)] * k for kind, value in kinds.items()}}}


def lone_runs(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return the acceptance of requests that ran alone where it was printed: one text, far from the table's mean."""
    return [
        {
            "match": {
                "model": cell.model,
                "kv_cache_dtype": cell.kv_dtype,
                "speculation": cell.speculation,
                "num_speculative_tokens": cell.k,
                "nvlink": cell.nvlink,
                "series": cell.series,
            },
            "kind": "synthetic",
            "conditional": list(conditional),
            "note": "published acceptance of this run at concurrency 1",
        }
        for cell, conditional in published_runs(figures).items()
        if cell.concurrency == 1
    ]


def published_runs(figures: Sequence[Figure]) -> dict[Cell, tuple[float, ...]]:
    """Return the acceptance of single runs where it was published: it differs from the drafter table's."""
    runs = [one for one in of(figures, "acceptance_rate") if one.cell.concurrency and one.value]
    return {one.cell: (constant(one.value * one.cell.k, one.cell.k),) * one.cell.k for one in runs}


def outcomes() -> list[dict[str, Any]]:
    """Return the starts that failed, with the message that was published; nothing in the profile explains them."""
    with FAILURES.open(encoding="utf-8", newline="") as lines:
        return [_outcome(line) for line in csv.DictReader(lines)]


def _outcome(line: Mapping[str, str]) -> dict[str, Any]:
    match: dict[str, Any] = {"model": line["model"], "kv_cache_dtype": line["kv_cache_dtype"]}
    match |= {"speculation": line["speculation"], "series": line["series"]}
    if line["num_speculative_tokens"]:
        match["num_speculative_tokens"] = int(line["num_speculative_tokens"])
    if line["nvlink"]:
        match["nvlink"] = line["nvlink"]
    log = line["engine_message"]
    if line["free_mib"]:
        log = (
            f"torch.OutOfMemoryError: {log}. GPU {line['gpu']} has a total capacity of {line['total_gib']} GiB "
            f"of which {line['free_mib']} MiB is free."
        )
    # In no phase that the log would show, so that the cause stays as published: out of memory, phase unknown.
    phase = "weights" if line["category"] == "kv_dtype" else "config"
    note = "published outcome, scripted: the published text does not say why, nor in which phase"
    return {"match": match, "log": log, "exit_code": 1, "phase": phase, "note": note}
