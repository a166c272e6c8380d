"""What the client costs: CPU and memory of load, sampler and scrapes inside a window.

A stage of 64 requests at concurrency 32 with 256 tokens each, against the stand-in engine (a process of
its own, so that its CPU does not count), once in a window of about 3 s and once in one of about 30 s.
The same clock as in the column client_cpu_s, plus the full parse of the three scrapes. Exit code 1 above
a limit.

    python -m benchmarks.client_cost
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from collector.core.configuration import Stage
from collector.core.plan_schema import Limits
from collector.core.window import Telemetry
from collector.measure.clock import SystemClock
from collector.measure.engines.interface import End
from collector.measure.scrape import gauges, parse
from collector.measure.stage import Measured, measure_stage
from collector.measure.target import Target
from tests.fakes import VLLM

STAGE = Stage(
    concurrency=32,
    requests=64,
    prompt_set="synthetic",
    prompt_tokens=700,
    output_tokens=256,
    warmup_requests=32,
    warmup_output_tokens=8,
)
#: Window to aim at (s), engine step that gives it (s), most CPU the client may take (s).
CASES = ((3.0, 0.0055, 0.4), (30.0, 0.058, 1.0))
#: Most CPU that one sample's work on the text may take, as a share of the second between two samples.
SAMPLER_LIMIT = 0.005
REPEATS = 200


@dataclass
class Attached:
    """The running stand-in, as the sweep sees an engine."""

    target: Target
    owned: bool = False
    image_digest: str | None = None

    async def ended(self) -> End:
        await asyncio.Event().wait()
        return End()

    async def stop(self, patience_s: float) -> End:
        raise NotImplementedError(f"the benchmark ends it, not after {patience_s}")

    def owns(self, pid: int) -> bool | None:
        return None

    def telemetry(self) -> Telemetry:
        return Telemetry()

    def log_size(self) -> int:
        return 0

    def log_text(self) -> str:
        return ""


def measured_with(step_s: float) -> Measured:
    with tempfile.TemporaryDirectory() as model:
        command = [sys.executable, str(VLLM), "serve", model, "--port", "0", "--served-model-name", "tiny"]
        environment = os.environ | {"FAKE_STEP_S": str(step_s)}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        ) as engine:
            try:
                if engine.stdout is None:
                    raise RuntimeError("the stand-in has no output")
                line = next(one for one in engine.stdout if "Starting vLLM server on" in one)
                attached = Attached(Target(base_url=line.split("server on ")[1].strip()))
                while "Application startup complete." not in engine.stdout.readline():
                    pass
                stage = measure_stage(attached, STAGE, Limits(), SystemClock(), model="tiny", salt="benchmark")
                return asyncio.run(stage)
            finally:
                engine.terminate()
                engine.communicate()  # its last words need a reader


def cpu_of(work: object) -> float:
    """Return CPU seconds of one call, the mean of many."""
    if not callable(work):
        raise TypeError("work is called")
    began = time.process_time()
    for _ in range(REPEATS):
        work()
    return (time.process_time() - began) / REPEATS


def main() -> int:
    over = False
    for aim, step_s, limit in CASES:
        measured = measured_with(step_s)
        began = time.process_time()
        for text in (measured.before, measured.after, measured.confirm):
            parse(text)
        cpu = (measured.client_cpu_s or 0.0) + time.process_time() - began
        over |= cpu > limit
        print(
            f"window {measured.window_s:5.1f} s (aim {aim:.0f}): client {cpu:.3f} s of CPU, limit {limit} s; "
            f"{len(measured.samples)} samples, {measured.requests_sent} requests"
        )
    picking = cpu_of(lambda: gauges(measured.after))
    parsing = cpu_of(lambda: parse(measured.after))
    over |= picking > SAMPLER_LIMIT
    print(f"one sample's lines {picking * 1000:.2f} ms, a full parse {parsing * 1000:.2f} ms of CPU")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:.0f} MiB; 'pandas' loaded: {'pandas' in sys.modules}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
