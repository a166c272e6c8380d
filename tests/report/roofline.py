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


def made_again(of: str, row: Mapping[Any, Any], base: Mapping[Any, Any] | None) -> float:
    """Return a whole step, or the share of some of its parts in what a row adds to its base."""
    parts = of.split("+")
    if base is None:
        return float(sum(getattr(step(row), one) for one in parts))
    added = step(row).total - step(base).total
    return float(sum(getattr(step(row), one) - getattr(step(base), one) for one in parts) / added)
