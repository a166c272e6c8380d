"""A step of a stored row by the roofline of the profile that comes with the program, made again for the tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collector.core.hardware import configured
from collector.core.roofline import StepBreakdown
from collector.core.step import StepLoad
from collector.report.build import PROFILE


def step(row: Mapping[Any, Any]) -> StepBreakdown:
    """Return the seconds of one decode step of a row's full batch, halfway through its answers."""
    assert row["provenance"] == "emulated", "only an emulation's hardware is known"
    profile = json.loads(Path(PROFILE).read_text())
    batch, k = int(row["concurrency"]), int(row["num_speculative_tokens"] or 0) if row["speculation"] != "off" else 0
    read = round(batch * (row["prompt_tokens_mean"] + row["output_tokens"] / 2))
    model = configured(
        profile["hardware"],
        profile["models"][row["model"]]["dimensions"],
        kv_dtype=row["kv_cache_dtype"],
        method=row["speculation"],
        nvlink=row["nvlink"],
        tensor_parallel=int(row["tensor_parallel"]),
    )
    return model.step_time(
        StepLoad(0, batch * (1 + k), batch, batch, read, read, k, batch if k else 0, batch * (1 + k))
    )


def link_bytes(row: Mapping[Any, Any]) -> float:
    """Return what a stage puts on the link: two reductions a layer and one of the embedding, logits, and the drafter's.

    Both cards send and receive each of them.
    """
    known = json.loads(Path(PROFILE).read_text())["models"][row["model"]]["dimensions"]
    steps = round((row["generation_tokens"] - row["requests_done"]) / row["tokens_per_step"])
    speculating = row["speculation"] != "off"
    decoded = steps + (int(row["draft_tokens"]) if speculating else 0)
    target, positions = known["target"], int(row["prompt_tokens_computed"]) + decoded
    half = target["vocabulary"]
    total = positions * (2 * target["layers"] + 1) * target["hidden"] * 2 + (decoded + row["requests_done"]) * half
    if speculating:
        drafter, k = known["drafters"][row["speculation"]], int(row["num_speculative_tokens"])
        drafts = steps + int(row["requests_done"])
        looked = (k + 1) * drafts if drafter["parallel"] else positions + (k - 1) * drafts
        total += looked * (2 * drafter["layers"] + 1) * drafter["hidden"] * 2 + k * drafts * half
    return float(4 * total)


def made_again(of: str, row: Mapping[Any, Any], base: Mapping[Any, Any] | None) -> float:
    """Return a whole step, or the share of some of its parts in what a row adds to its base."""
    if of == "nvlink_bytes/generation_tokens":
        return link_bytes(row) / float(row["generation_tokens"])
    parts = of.split("+")
    if base is None:
        return float(sum(getattr(step(row), one) for one in parts))
    added = step(row).total - step(base).total
    return float(sum(getattr(step(row), one) - getattr(step(base), one) for one in parts) / added)
