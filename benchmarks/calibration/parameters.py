"""The free parameters: bounds, where a fit starts, unit and meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    low: float
    high: float
    start: float
    unit: str
    meaning: str


PEAK = "fraction of peak"
#: Nothing reads memory at its peak. The caps of 0.93 (memory) and 0.9 (link) are assumptions, not measurements.
PARAMETERS = (
    Parameter("w4_bandwidth", 0.4, 0.93, 0.85, PEAK, "memory bandwidth reached while reading quantised weights"),
    Parameter("w4_compute", 0.3, 1, 0.85, PEAK, "tensor throughput of products with dequantised weights"),
    Parameter("bf16_bandwidth", 0.4, 0.93, 0.8, PEAK, "memory bandwidth reached by head and drafter"),
    Parameter("bf16_compute", 0.2, 1, 0.6, PEAK, "tensor throughput of head and drafter"),
    Parameter("kv_read_FLASH_ATTN", 0.05, 0.93, 0.4, PEAK, "memory bandwidth of attention's KV reads, FLASH_ATTN"),
    Parameter("kv_read_FLASHINFER", 0.05, 0.93, 0.7, PEAK, "the same with FLASHINFER"),
    Parameter("kv_read_TRITON_ATTN", 0.05, 0.93, 0.5, PEAK, "the same with TRITON_ATTN"),
    Parameter("head_sharing", 0, 1, 0.8, "fraction", "query heads of a group that share one read of its KV"),
    Parameter("step_host_s", 1e-5, 8e-3, 1e-3, "s", "host time of a step that the GPU waits for"),
    Parameter("request_host_s", 0, 6e-4, 5e-5, "s", "the same per request in the step"),
    Parameter("pass_host_s", 0, 3e-3, 2e-4, "s", "the same per pass of a drafter"),
    Parameter("piecewise_host_s", 0, 6e-3, 2e-3, "s", "more per step under speculation with fp8 KV, cause not known"),
    Parameter("overlap_norm", 1, 6, 2, "p", "norm that joins memory and compute time; 1 adds, infinity overlaps"),
    Parameter("link_on_efficiency", 0.3, 0.9, 0.7, PEAK, "NVLink bandwidth reached by a collective"),
    Parameter("link_on_latency_s", 4e-6, 3e-5, 1e-5, "s", "of one collective over NVLink"),
    Parameter("link_off_efficiency", 0.2, 1, 0.6, PEAK, "PCIe bandwidth reached by a collective through the host"),
    Parameter("link_off_latency_s", 8e-6, 8e-5, 2.5e-5, "s", "of one collective through the host"),
)


def named(values: Sequence[float]) -> dict[str, float]:
    """Return the values by name, rounded to what a profile prints."""
    return {one.name: float(f"{value:.5g}") for one, value in zip(PARAMETERS, values, strict=True)}


def start() -> list[float]:
    return [one.start for one in PARAMETERS]
