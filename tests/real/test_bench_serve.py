"""`vllm bench serve` of the real vLLM 0.27.0, unmodified, against the embedded engine on a port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from collector.core.series import COUNTERS, total
from collector.measure.scrape import parse
from tests.real.environment import ensure

pytestmark = pytest.mark.real

PROMPTS, OUTPUT = 24, 64
SPECULATION = '{"method":"dflash","num_speculative_tokens":15}'


@pytest.fixture
def address() -> Iterator[str]:
    command = [sys.executable, "-m", "collector.cli", "emulate", "--port", "0", "--speed", "20"]
    command += ["--model", "muse-glimmer-30b", "--speculative-config", SPECULATION]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as engine:
        try:
            assert engine.stderr is not None
            told = engine.stderr.readline()
            assert told.startswith("EMULATED muse-glimmer-30b"), told
            yield told.split(" on ")[1].strip()
        finally:
            engine.terminate()


def test_the_client_completes_and_its_token_count_is_the_engines(address: str) -> None:
    folder = ensure()
    command = [str(folder / "bin" / "vllm"), "bench", "serve", "--backend", "vllm", "--base-url", address]
    command += ["--model", "muse-glimmer-30b", "--tokenizer", str(folder / "models" / "tiny-a")]
    command += ["--dataset-name", "random", "--random-input-len", "200", "--random-output-len", str(OUTPUT)]
    command += [
        "--num-prompts",
        str(PROMPTS),
        "--max-concurrency",
        "8",
        "--ignore-eos",
        "--ready-check-timeout-sec",
        "60",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"HF_HUB_OFFLINE": "1"}, timeout=300
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    told = re.search(r"Total generated tokens:\s+(\d+)", done.stdout)
    assert told, done.stdout[-3000:]
    with urllib.request.urlopen(f"{address}/metrics") as response:
        samples = parse(response.read().decode())
    # The client's own check that the engine answers is one request more, which its count leaves out.
    counted = total(samples, COUNTERS["generation_tokens"])
    requests = total(samples, COUNTERS["requests_succeeded"])
    assert int(told.group(1)) == PROMPTS * OUTPUT
    assert counted is not None
    assert requests is not None
    assert counted == requests * OUTPUT
    assert requests in (PROMPTS, PROMPTS + 1)
