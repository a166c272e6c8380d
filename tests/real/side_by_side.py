"""The same requests to a real vLLM and to the embedded engine, and what both then expose.

Both are started from one plan, by the modules that a sweep uses. Prompts are token ids, so that no tokenizer
comes between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from collector.core.configuration import Run
from collector.core.plan import parse_plan
from collector.core.plan_schema import Limits
from collector.core.series import Samples
from collector.core.window import Request
from collector.measure.clock import Clock, SystemClock
from collector.measure.engines import kind_of
from collector.measure.engines.interface import Launch, Running
from collector.measure.ready import wait_ready
from collector.measure.scrape import parse, scrape
from collector.measure.virtual import VirtualClock
from collector.measure.virtual import run as run_virtually
from tests.real.workload import PARTS, REQUEST_S, Send, watched

PROFILE = Path(__file__).with_name("cpu-tiny.json")
ENGINES = {
    "real": '{kind: process, version: 0.27.0, command: ["${COLLECTOR_VLLM}"], environment: {HF_HUB_OFFLINE: 1}}',
    "embedded": f"{{kind: emulated, version: 0.27.0, profile: {PROFILE}}}",
}
#: A step takes at most 256 prompt tokens, so that prefills come in chunks. 64 MiB are 512 blocks of 128 tokens:
#: ample. Nine blocks, of which one is the null block, do not hold four requests of 380 tokens. The drafter of
#: `twin` is the model itself, so that every draft is accepted; what n-grams draft depends on the model's text.
PLAN = """\
plan: 1
campaign: differential
engine: ENGINE
models: {tiny-a: {path: "${COLLECTOR_TINY_MODELS}/tiny-a", drafter: "${COLLECTOR_TINY_MODELS}/tiny-a"}}
speculation:
  twin-3: {method: draft_model, model: "{drafter}", num_speculative_tokens: 3}
  ngram-4: {method: ngram, num_speculative_tokens: 4, prompt_lookup_max: 4}
defaults:
  model: tiny-a
  max_model_len: 1024
  max_num_seqs: 4
  flags: {enforce-eager: true, kv-cache-memory-bytes: 67108864, max-num-batched-tokens: 256}
extra:
  - {series: ample}
  - {series: small-cache, max_model_len: 512, flags: {num-gpu-blocks-override: 9}}
  - {series: twin, speculation: twin-3}
  - {series: ngram, speculation: ngram-4, flags: {enable-prefix-caching: false, block-size: 64}}
stages: {concurrency: {1: 1}, prompt_tokens: 60, output_tokens: 8}
limits: {ready_s: 600, start_stall_s: 300, request_s: 300}
"""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What an engine exposed before and after one part of the workload, and what the client was told."""

    before: str
    after: str
    requests: tuple[Request, ...]
    peaks: Mapping[str, float]

    @property
    def samples(self) -> tuple[Samples, Samples]:
        return parse(self.before), parse(self.after)


def compare(series: str, folder: Path, variables: Mapping[str, str]) -> dict[str, dict[str, Seen]]:
    """Run the workload of a series on both engines: engine to part to what was seen."""
    results: dict[str, dict[str, Seen]] = {}

    async def work(engine: str, clock: Clock) -> None:
        plan = parse_plan(PLAN.replace("ENGINE", ENGINES[engine]), f"{engine}.yaml")
        run = next(one for one in plan.runs if one.configuration.series == series)
        launch = Launch(
            configuration=run.configuration,
            repeat=1,
            attempt=1,
            engine=plan.engine,
            log=folder / f"{series}-{engine}.log",
            variables=variables,
        )
        results[engine] = await _work_through(plan.engine.kind, launch, run, plan.limits, clock)

    run_virtually(work("embedded", VirtualClock()))
    asyncio.run(work("real", SystemClock()))
    return results


async def _work_through(kind: str, launch: Launch, run: Run, limits: Limits, clock: Clock) -> dict[str, Seen]:
    engine = await kind_of(kind).start(launch)
    try:
        await wait_ready(engine, run, limits, clock, began=clock.monotonic())
        parts = PARTS[run.configuration.series]
        return {name: await _seen(engine, part.send, clock) for name, part in parts.items()}
    finally:
        await engine.stop(limits.stop_s)


async def _seen(engine: Running, send: Send, clock: Clock) -> Seen:
    async with engine.target.client(REQUEST_S) as observer:
        before = await scrape(observer, clock)
        requests, peaks = await watched(engine, send, clock)
        after = await scrape(observer, clock)
    return Seen(before=before.text, after=after.text, requests=requests, peaks=peaks)
