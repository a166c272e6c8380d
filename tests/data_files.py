"""The recorded scrape pairs under tests/data/vllm, and how to read what lies beside them.

`metrics` holds scrapes of a real engine on a CPU. `metrics-synthetic` holds what the metrics code of a
version exposes after it was fed with known figures. The JSON of a pair says what really happened.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from collector.core.configuration import Configuration, Stage
from collector.core.engine_log import EngineFacts
from collector.core.plan import parse_plan
from collector.core.record import Context
from collector.core.series import Samples
from collector.core.telemetry import Card, GpuWatch, Reading
from collector.core.window import WHOLE_STAGE, Request, Sample, Window
from collector.measure.scrape import parse

DATA = Path(__file__).parent / "data"
LOGS = DATA / "vllm" / "logs"


@dataclass(frozen=True)
class Pair:
    """Two scrapes with load in between, and the truth about that load."""

    name: str  # such as vllm-0.27.0-nospec-preempt
    folder: Path

    @property
    def truth(self) -> dict[str, Any]:
        truth: dict[str, Any] = json.loads((self.folder / f"{self.name}.json").read_text(encoding="utf-8"))
        return truth

    @property
    def real(self) -> bool:
        return self.folder.name == "metrics"

    @property
    def version(self) -> str:
        return self.name.split("-")[1]

    @property
    def speculation(self) -> bool:
        return "-spec" in self.name

    @property
    def label(self) -> str:
        return f"{self.folder.name}/{self.name}"

    def text(self, when: str) -> str:
        return gzip.decompress((self.folder / f"{self.name}-{when}.prom.gz").read_bytes()).decode()

    def samples(self, when: str) -> Samples:
        return _parsed(self, when)


@cache
def _parsed(pair: Pair, when: str) -> Samples:
    return parse(pair.text(when))


#: Found, not listed: a pair that is added is tested.
PAIRS = [
    Pair(path.name.removesuffix("-after.prom.gz"), path.parent)
    for path in sorted((DATA / "vllm").glob("metrics*/*-after.prom.gz"))
]


def pair(label: str) -> Pair:
    """Return a pair by its label, such as metrics/vllm-0.27.0-spec."""
    return next(one for one in PAIRS if one.label == label)


#: Two cards that were only asked who uses them: nothing is wrong with them, and no figure is known.
WATCHED = GpuWatch(
    cards=tuple(
        Card(index=index, **(dict.fromkeys(set(Card.__dataclass_fields__) - {"index"}) | {"architecture": "ampere"}))
        for index in range(2)
    ),
    idle=(),
    readings=tuple(
        Reading(index=index, at_s=at_s, throttle_reasons=(), pcie_width=8) for at_s in (0, 1, 2) for index in range(2)
    ),
    foreign=(),
)

#: Of the time that a lane is loaded in `window_of`, the part that the engine counts as its own.
BUSY = 0.99


def window_of(pair: Pair) -> Window:
    """Return the window of a pair with the requests that fit its truth, answered one after another per lane."""
    truth = pair.truth
    count, lanes = truth["requests"], truth.get("concurrency", 2)
    each = truth["completion_tokens"] // count
    prompts = [one["prompt_tokens"] for one in truth.get("per_request", [])] or [
        truth["prompt_tokens"] // count
    ] * count
    delta = truth.get("delta", {})
    itl = delta.get("vllm:inter_token_latency_seconds_sum", truth.get("itl_sum"))
    ttft = delta.get("vllm:time_to_first_token_seconds_sum", truth.get("ttft_sum"))
    took = (itl + ttft) / count / BUSY
    requests = tuple(
        Request(
            index=index,
            lane=index % lanes,
            sent_s=index // lanes * took,
            ended_s=(index // lanes + 1) * took,
            status=200,
            prompt_tokens=prompts[index],
            completion_tokens=each,
            finish_reason="length",
        )
        for index in range(count)
    )
    sample = Sample(at_s=0.25, kv_usage=0.125, running=float(lanes), waiting=1.0, generation_tokens=10.0)
    return Window(
        method=WHOLE_STAGE,
        window_s=truth["wall_seconds"],
        scrape_s=0.005,
        client_cpu_s=0.02,
        before=pair.samples("before"),
        after=pair.samples("after"),
        confirm=pair.samples("after"),
        requests_sent=count,
        requests=requests,
        tokenized=tuple(prompts),
        gpus=WATCHED,
        samples=(sample, replace(sample, at_s=1.25, kv_usage=0.5, waiting=0.0, generation_tokens=20.0)),
    )


#: A plan of which a recorded pair could be a stage, without speculation and with.
_PLAN = """\
plan: 1
campaign: recorded
engine: {version: 0.27.0, image: "vllm@sha256:00", flags: {seed: 1, enforce-eager: true}}
models: {tiny: {path: "${MODELS}/tiny", revision: abc, drafter: "${MODELS}/draft"}}
speculation: {ngram-4: {method: ngram, num_speculative_tokens: 4}}
matrix: {model: tiny, nvlink: on, speculation: [off, ngram-4], max_num_seqs: 32}
stages: {concurrency: {2: 4}, prompt_tokens: 50, output_tokens: 64}
"""

#: What a row says beside its figures.
CONTEXT = Context(
    campaign="recorded",
    repeat=1,
    provenance="measured",
    measured_at="2026-08-20T10:00:00Z",
    collector_version="0.1.0",
    plan_digest="0123456789ab",
    host_id="host",
    cpu_model="a processor",
    gpu_model=None,
    gpu_count=None,
    driver_version=None,
    engine_kind="process",
    engine_version="0.27.0",
    max_model_len=2048,
    start_s=12.5,
    prompt_set_digest="abcdef",
    facts=EngineFacts(attention_backend="CPU_ATTN", cudagraph_mode="NONE", kv_cache_tokens=77),
)


def cell_of(recorded: Pair) -> tuple[Configuration, Stage]:
    """Return the configuration and stage that would have given this pair."""
    runs = {run.configuration.speculation != "off": run for run in parse_plan(_PLAN, "p.yaml").runs}
    run, truth = runs[recorded.speculation], recorded.truth
    each = truth["completion_tokens"] // truth["requests"]
    stage = replace(run.stages[0], requests=truth["requests"], output_tokens=each)
    return run.configuration, replace(stage, concurrency=truth.get("concurrency", 2))
