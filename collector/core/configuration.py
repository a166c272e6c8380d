"""What a plan comes to: configurations, stages, engine starts, and their ids.

Ids are content hashes of what the plan says, so that the same entry has the same id on every machine;
where an engine comes from (kind, command, url, port) is not part of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collector.core.plan_schema import Engine, Limits
from collector.core.window import STEADY, WHOLE_STAGE

ID_DIGITS = 10
DIGEST_DIGITS = 12
DEFAULT_SERIES = "main"


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """Everything fixed at engine start."""

    configuration_id: str
    series: str
    model: str
    model_path: str
    model_revision: str | None
    drafter: str | None
    kv_cache_dtype: str
    speculation: str  # off, or the method
    num_speculative_tokens: int | None
    speculative_config: str | None  # canonical JSON
    nvlink: str | None
    tensor_parallel: int
    max_model_len: int | None
    max_num_seqs: int | None
    attention_backend: str | None
    image: str | None
    version: str | None
    flags: tuple[tuple[str, Any], ...]  # sorted by name
    environment: tuple[tuple[str, str], ...]  # sorted by name, ${NAME} not expanded

    @property
    def label(self) -> str:
        k = f" k={self.num_speculative_tokens}" if self.num_speculative_tokens is not None else ""
        link = f" · NVLink {self.nvlink}" if self.nvlink else ""
        series = f" · {self.series}" if self.series != DEFAULT_SERIES else ""
        return f"{self.model} · KV {self.kv_cache_dtype} · speculation {self.speculation}{k}{link}{series}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """One concurrency level with its workload, measured inside a running engine."""

    concurrency: int
    requests: int
    prompt_set: str
    prompt_tokens: int | None  # target length; None where the prompt set fixes its own
    output_tokens: int
    warmup_requests: int
    warmup_output_tokens: int
    window: str = WHOLE_STAGE  # method of the measured window

    @property
    def label(self) -> str:
        steady = ", steady window" if self.window == STEADY else ""
        return f"concurrency {self.concurrency}, {self.requests} requests, {self.prompt_set}{steady}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One engine start: a configuration, which repeat it is, and its stages in order."""

    configuration: Configuration
    repeat: int
    stages: tuple[Stage, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    campaign: str
    about: str
    digest: str
    continues: str | None = None  # digest of the plan that began the campaign, where this one adds to it
    engine: Engine
    limits: Limits
    runs: tuple[Run, ...]

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        return tuple({run.configuration.configuration_id: run.configuration for run in self.runs}.values())


def plan_digest(text: str) -> str:
    """Return what a plan's text is known by: in its rows, and in the plans that continue it."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def content_id(content: Mapping[str, Any]) -> str:
    """Return the id of some content: SHA-256 of its canonical JSON, shortened. None values do not count."""
    stated = {key: value for key, value in content.items() if value is not None}
    text = json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def row_id(configuration: Configuration, stage: Stage, repeat: int) -> str:
    return content_id(
        {
            "configuration": configuration.configuration_id,
            "repeat": repeat,
            "concurrency": stage.concurrency,
            "requests": stage.requests,
            "prompt_set": stage.prompt_set,
            "prompt_tokens": stage.prompt_tokens,
            "output_tokens": stage.output_tokens,
            "window": None if stage.window == WHOLE_STAGE else stage.window,
        }
    )
