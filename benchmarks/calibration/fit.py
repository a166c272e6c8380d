"""Fitting the free parameters by bounded least squares. Needs scipy, which the package itself does not."""

from __future__ import annotations

import importlib
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from benchmarks.calibration.evaluate import Evaluation
from benchmarks.calibration.figures import Figure
from benchmarks.calibration.parameters import PARAMETERS, start
from benchmarks.calibration.profile import assemble, hardware

#: What an error of each kind weighs: the error that counts as one.
THROUGHPUT, RATIO, POINTS, DECODE, TTFT_S = 0.05, 0.06, 4.0, 0.08, 0.4
#: The published range of TTFT at 32, a little inside its tolerance.
TTFT_RANGE = (4.1, 6.2)
#: Draws a parameter that the figures hardly speak of to where it started; what they do speak of it leaves alone.
PRIOR = 0.8
MAX_EVALUATIONS = 60


def residuals(
    values: Sequence[float], figures: Sequence[Figure], models: Collection[str], base: Mapping[str, Any]
) -> list[float]:
    judged = Evaluation({**base, "hardware": hardware(values)}, figures)
    found: list[float] = []
    logarithms = (
        (THROUGHPUT, judged.throughputs()),
        (RATIO, judged.relations("speculation_ratio")),
        (RATIO, judged.relations("kv_fp8_gain")),
        (DECODE, judged.decode_rates()),
    )
    for scale, group in logarithms:
        found += [math.log1p(one.error) / scale for one in group if one.cell.model in models]
    found += [one.error / POINTS for one in judged.nvlink_gains() if one.cell.model in models]
    low, high = TTFT_RANGE
    found += [max(0.0, low - s, s - high) / TTFT_S for cell, s in judged.ttft().items() if cell.model in models]
    found += [PRIOR * (v - p.start) / (p.high - p.low) for v, p in zip(values, PARAMETERS, strict=True)]
    return found


def fit(figures: Sequence[Figure], models: Collection[str]) -> list[float]:
    """Return the parameters that fit the figures of these models best. The same input gives the same output."""
    optimize = importlib.import_module("scipy.optimize")
    spans = [one.high - one.low for one in PARAMETERS]
    base = assemble(start(), figures)

    def values(scaled: Sequence[float]) -> list[float]:
        return [one.low + float(s) * span for one, s, span in zip(PARAMETERS, scaled, spans, strict=True)]

    found = optimize.least_squares(
        lambda scaled: residuals(values(scaled), figures, models, base),
        [(one.start - one.low) / span for one, span in zip(PARAMETERS, spans, strict=True)],
        bounds=(0, 1),
        diff_step=1e-3,
        max_nfev=MAX_EVALUATIONS,
    )
    return values(found.x)
