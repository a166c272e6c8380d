"""What one measured window left behind: the evidence from which a row is computed, now or years later."""

from __future__ import annotations

from dataclasses import dataclass

from collector.core.series import Samples
from collector.core.telemetry import GpuWatch

#: From before the first request to after the last response: ramp and drain are in it.
WHOLE_STAGE = "whole_stage"
#: Inside a running load: every lane is busy before it opens and stays so until it has closed.
STEADY = "steady"


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request as the client saw it. Times are seconds since the window's start.

    `index` counts the measured requests from 0; those of a steady window's ramp count down from -1.
    """

    index: int
    lane: int
    sent_s: float
    ended_s: float
    status: int | None  # HTTP status; None where no response came
    prompt_tokens: int | None
    completion_tokens: int | None
    finish_reason: str | None
    error: str | None = None

    @property
    def ramp(self) -> bool:
        return self.index < 0

    @property
    def done(self) -> bool:
        return self.status == 200 and self.completion_tokens is not None  # HTTP OK


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Gauges at one moment inside the window; None where the engine does not expose one."""

    at_s: float
    kv_usage: float | None
    running: float | None
    waiting: float | None
    generation_tokens: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Telemetry:
    """What an engine that is its own hardware counted in the window; None where it does not."""

    nvlink_bytes: int | None = None  # sent and received, over all GPUs


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Two scrapes and a duration, with what the client knows.

    `confirm` is the scrape once all is answered; `idle`, of a steady window, the one before its load began.
    """

    method: str
    window_s: float
    scrape_s: float
    client_cpu_s: float | None
    before: Samples
    after: Samples
    confirm: Samples
    idle: Samples | None = None
    requests_sent: int
    requests: tuple[Request, ...]
    #: Prompt length of each request by the engine's own tokenizer; None where it has no such route.
    tokenized: tuple[int, ...] | None = None
    telemetry: Telemetry = Telemetry()
    #: What NVML says of the GPUs that the engine uses; None where nobody watched them.
    gpus: GpuWatch | None = None
    samples: tuple[Sample, ...]

    @property
    def measured(self) -> tuple[Request, ...]:
        return tuple(one for one in self.requests if not one.ramp)
