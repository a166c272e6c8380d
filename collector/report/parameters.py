"""The parameters of the step-time model in words of both languages, and how their values are printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collector.core.units import fixed


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    unit: str  # %, µs or empty: a plain number
    ko: str
    en: str

    def text(self, value: float) -> str:
        scale = {"%": 1e2, "µs": 1e6}.get(self.unit, 1.0)
        return fixed(value * scale, 1 if self.unit else 2)

    def meaning(self, language: str) -> str:
        return self.ko if language == "ko" else self.en


#: Fields of core.roofline.Efficiencies; kv_read has one value for each attention backend.
EFFICIENCIES = (
    Parameter(
        "w4_bandwidth", "%", "양자화 가중치를 읽을 때 쓰는 메모리 대역폭(최고치 대비)",
        "of peak memory bandwidth, reading quantised weights",
    ),
    Parameter(
        "w4_compute", "%", "양자화를 푼 가중치로 행렬을 곱할 때의 연산 성능(최고치 대비)",
        "of peak tensor throughput, products with dequantised weights",
    ),
    Parameter(
        "bf16_bandwidth", "%", "출력 헤드와 드래프터가 쓰는 메모리 대역폭(최고치 대비)",
        "of peak memory bandwidth, head and drafter",
    ),
    Parameter(
        "bf16_compute", "%", "출력 헤드와 드래프터의 연산 성능(최고치 대비)",
        "of peak tensor throughput, head and drafter",
    ),
    Parameter(
        "kv_read", "%", "어텐션이 KV를 읽을 때 쓰는 메모리 대역폭(최고치 대비, 백엔드별)",
        "of peak memory bandwidth, KV reads of attention with this backend",
    ),
    Parameter(
        "head_sharing", "%", "같은 그룹의 쿼리 헤드 가운데 KV를 한 번만 읽어 함께 쓰는 비율",
        "of the query heads of a group, the share that uses one read of its KV",
    ),
    Parameter(
        "step_host_s", "µs", "스텝마다 GPU가 호스트를 기다리는 시간", "host time of a step that the GPU waits for",
    ),
    Parameter(
        "request_host_s", "µs", "스텝에 든 요청 하나마다 더해지는 호스트 시간",
        "host time for each request in the step",
    ),
    Parameter(
        "pass_host_s", "µs", "드래프터의 포워드마다 더해지는 호스트 시간", "host time for each pass of a drafter",
    ),
    Parameter(
        "piecewise_host_s", "µs",
        "fp8 KV로 추측할 때 스텝마다 더 드는 시간. 공개 수치에 맞춘 값이고 원인은 모름. 스케줄에도 같은 값을 씀",
        "more for each step when speculating with fp8 KV: fitted, its cause not known; a schedule is given the same",
    ),
    Parameter(
        "overlap_norm", "", "메모리 시간과 연산 시간을 합치는 p-노름의 p. 1이면 더하고, 클수록 겹친다고 봄",
        "p of the norm that joins memory and compute time: 1 adds them, a large p lets them overlap",
    ),
)  # fmt: skip

#: Of each link state: NVLink on or off.
LINK = (
    Parameter(
        "efficiency", "%", "올리듀스가 쓰는 링크 대역폭(최고치 대비)", "of the peak of the link, in a collective",
    ),
    Parameter("latency_s", "µs", "올리듀스 한 번의 고정 지연", "fixed time of one collective"),
)  # fmt: skip


def parameter_lines(hardware: Mapping[str, Any], language: str) -> list[dict[str, str]]:
    """Return name, value, unit and meaning of every parameter that a profile gives."""
    found = [(one.name, one, value) for one, value in _values(EFFICIENCIES, hardware.get("efficiencies", {}))]
    for state, link in hardware.get("links", {}).items():
        found += [(f"links.{state}.{one.name}", one, value) for one, value in _values(LINK, link)]
    lines = []
    for name, one, value in found:
        several = value.items() if isinstance(value, Mapping) else [("", value)]
        lines += [
            {
                "name": f"{name}.{key}" if key else name,
                "value": one.text(each),
                "unit": one.unit,
                "meaning": one.meaning(language),
            }
            for key, each in several
        ]
    return lines


def _values(parameters: tuple[Parameter, ...], given: Mapping[str, Any]) -> list[tuple[Parameter, Any]]:
    return [(one, given[one.name]) for one in parameters if one.name in given]
