"""The displayed metrics: column, unit on the page, which way is better, digits, names in both languages.

A metric is shown as column x scale, rounded to its digits; nothing else is computed between a row and a page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    column: str
    unit: str  # as printed; empty for a plain fraction
    better: Literal["higher", "lower"] | None  # None where neither way is better in itself
    digits: int
    ko: str
    en: str
    scale: float = 1.0

    def text(self, value: float) -> str:
        """Return the value as it is printed, without its unit."""
        return fixed(value * self.scale, self.digits)

    def name(self, language: str) -> str:
        return self.ko if language == "ko" else self.en


def fixed(value: float, digits: int) -> str:
    """Round to `digits` places; a value that rounds to zero has no sign."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


METRICS: tuple[Metric, ...] = (
    Metric(
        column="system_throughput_tok_s",
        unit="tok/s",
        better="higher",
        digits=1,
        ko="시스템 처리량",
        en="System throughput",
    ),
    Metric(
        column="request_decode_rate_tok_s",
        unit="tok/s",
        better="higher",
        digits=1,
        ko="요청당 디코딩 속도",
        en="Request decode rate",
    ),
    Metric(column="ttft_mean_s", unit="s", better="lower", digits=3, ko="TTFT 평균", en="TTFT, mean"),
    Metric(
        column="tpot_mean_s",
        unit="ms",
        better="lower",
        digits=2,
        scale=1000.0,
        ko="TPOT 평균",
        en="TPOT, mean",
    ),
    Metric(
        column="step_time_mean_s",
        unit="ms",
        better="lower",
        digits=2,
        scale=1000.0,
        ko="스텝 시간",
        en="Step time",
    ),
    Metric(
        column="tokens_per_step",
        unit="tokens",
        better="higher",
        digits=2,
        ko="스텝당 토큰",
        en="Tokens per step",
    ),
    Metric(column="acceptance_rate", unit="", better="higher", digits=4, ko="수용률", en="Acceptance rate"),
    Metric(
        column="accepted_per_forward",
        unit="tokens",
        better="higher",
        digits=2,
        ko="포워드당 수용 토큰",
        en="Accepted per forward",
    ),
    Metric(column="preemptions", unit="events", better="lower", digits=0, ko="선점", en="Preemptions"),
    Metric(
        column="kv_usage_peak",
        unit="%",
        better=None,
        digits=1,
        scale=100.0,
        ko="KV 사용률 최고",
        en="KV usage, peak",
    ),
)

#: System throughput with speculation on over off: a finding, not a column of a row.
SPECULATION_RATIO = Metric(
    column="speculation_ratio",
    unit="×",
    better="higher",
    digits=2,
    ko="추측 디코딩 배율",
    en="Speculation ratio",
)

GIB = 2**30

#: What findings show besides the columns above: name on the page, not a column of a row where it has none.
FINDINGS: tuple[Metric, ...] = (
    SPECULATION_RATIO,
    Metric(
        column="throughput_ratio",
        unit="×",
        better="higher",
        digits=2,
        ko="가장 빠른 구성에 대한 처리량",
        en="Of the fastest",
    ),
    Metric(column="kv_gain", unit="%", better="higher", digits=1, ko="fp8 KV의 이득", en="Gain of fp8 KV"),
    Metric(column="nvlink_gain", unit="%", better="higher", digits=1, ko="NVLink의 이득", en="Gain of NVLink"),
    Metric(column="change", unit="%", better=None, digits=1, ko="변화", en="Change"),
    Metric(
        column="nvlink_bytes", unit="GiB", better=None, digits=1, scale=1 / GIB, ko="NVLink 전송량", en="NVLink traffic"
    ),
    Metric(column="ttft_mean_short_s", unit="s", better="lower", digits=2, ko="TTFT 평균", en="TTFT, mean"),
    Metric(column="ttft_p95_s", unit="s", better="lower", digits=2, ko="TTFT p95", en="TTFT, p95"),
    Metric(
        column="tpot_p95_s", unit="ms", better="lower", digits=2, scale=1000.0, ko="TPOT 백분위", en="TPOT, percentile"
    ),
    Metric(
        column="link_bytes_per_token", unit="MB", better=None, digits=2, scale=1e-6, ko="토큰당 전송", en="Sent a token"
    ),
    Metric(
        column="prefill_share", unit="%", better=None, digits=0, scale=100.0, ko="프리필의 몫", en="Share of prefill"
    ),
    Metric(column="joules_per_token", unit="J", better="lower", digits=2, ko="토큰당 에너지", en="Energy per token"),
    Metric(column="kv_cache_tokens", unit="tokens", better="higher", digits=0, ko="KV 용량", en="KV capacity"),
    Metric(column="waiting_peak", unit="requests", better="lower", digits=0, ko="대기 최고", en="Waiting, peak"),
    Metric(column="prompt_tokens_mean", unit="tokens", better=None, digits=0, ko="프롬프트 길이", en="Prompt length"),
    Metric(column="draft_tokens", unit="tokens", better=None, digits=0, ko="초안 토큰", en="Draft tokens"),
    Metric(column="accepted_tokens", unit="tokens", better="higher", digits=0, ko="수용 토큰", en="Accepted tokens"),
    Metric(column="nvlink_traffic", unit="GiB", better=None, digits=1, ko="NVLink 전송량", en="NVLink traffic"),
    Metric(
        column="needed_acceptance",
        unit="%",
        better=None,
        digits=1,
        scale=100.0,
        ko="필요한 수용률",
        en="Acceptance needed",
    ),
    Metric(
        column="steady_ratio", unit="×", better=None, digits=3, ko="정상 상태 ÷ 단계 전체", en="Steady ÷ whole stage"
    ),
    Metric(column="drain_share", unit="%", better=None, digits=1, scale=100.0, ko="빈 레인", en="Idle lanes"),
    Metric(column="factor", unit="×", better=None, digits=2, ko="배율", en="Ratio"),
    Metric(column="positions", unit="positions", better=None, digits=0, ko="검증한 위치", en="Positions verified"),
    Metric(
        column="rejected_share",
        unit="%",
        better="lower",
        digits=0,
        scale=100.0,
        ko="버려진 위치",
        en="Positions wasted",
    ),
    Metric(column="decoding", unit="requests", better=None, digits=1, ko="디코딩 중인 요청", en="Requests decoding"),
    Metric(
        column="step_time_rough_s", unit="ms", better="lower", digits=0, scale=1000.0, ko="스텝 시간", en="Step time"
    ),
    Metric(column="kv_demand", unit="tokens", better=None, digits=0, ko="KV 수요", en="KV demand"),
    Metric(column="power_mean_w", unit="W", better="lower", digits=0, ko="평균 전력", en="Power, mean"),
    Metric(
        column="gpu_utilisation",
        unit="%",
        better=None,
        digits=0,
        scale=100.0,
        ko="GPU 사용률",
        en="GPU utilisation",
    ),
    Metric(column="difference_tok_s", unit="tok/s", better=None, digits=1, ko="처리량 차이", en="Difference"),
    Metric(column="repeat_error", unit="%", better="lower", digits=2, ko="재현 오차", en="Repeat error"),
)

#: Every metric that a page can show, by name.
DISPLAYED: dict[str, Metric] = {metric.column: metric for metric in (*METRICS, *FINDINGS)}

#: Units as a Korean page prints them; a unit that is not here is a symbol and stays.
UNITS_KO: dict[str, str] = {
    "configurations": "개",
    "drafts": "회",
    "events": "회",
    "GPUs": "개",
    "lanes": "레인",
    "positions": "개",
    "requests": "개",
    "rows": "행",
    "samples": "회",
    "scrapes": "회",
    "sequences": "개",
    "steps": "스텝",
    "tokens": "토큰",
}


def unit_name(unit: str, language: str) -> str:
    return UNITS_KO.get(unit, unit) if language == "ko" else unit
