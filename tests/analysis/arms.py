"""Rows of two arms by concurrency, for tests of what is made of ratios."""

from __future__ import annotations

import json
from typing import Any

from collector.analysis.study import Study
from collector.core.rows import Row
from tests.report.sample import make_row

MTP = {"speculation": "mtp", "num_speculative_tokens": 4, "tokens_per_step": 3.4}
#: Throughput of one request; it grows with concurrency.
BASE = 50.0


def arm(throughputs: dict[int, float], **changes: Any) -> list[Row]:
    return [
        make_row(concurrency=at, requests=2 * at, system_throughput_tok_s=value, **changes)
        for at, value in throughputs.items()
    ]


def pair_of(ratios: dict[int, float], **changes: Any) -> list[Row]:
    """Return rows whose throughput with speculation is `ratios` times that without it."""
    off = arm({at: BASE * at for at in ratios}, **changes)
    return [*off, *arm({at: BASE * at * ratio for at, ratio in ratios.items()}, **(MTP | changes))]


def asked(tokens: float) -> str:
    """Return the object that asks an engine for so many tokens a step with MTP."""
    given = {"method": "mtp", "num_speculative_tokens": 4, "rejection_sample_method": "synthetic"}
    return json.dumps(given | {"synthetic_acceptance_length": tokens})


def study_of(*rows: Row, **changes: Any) -> Study:
    return Study(name="sample-dual", rows=rows, **changes)
