"""The stand-in keeps its counters as the engine does, fails as it does, and leaves nothing behind."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.fakes import VLLM

SPEC = json.dumps({"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4})
MODEL = "none/needed"
PROMPTS = [f"prompt number {n} says " + "word " * n for n in range(8)]


class Running:
    """One stand-in, its log so far and a client for it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.log = process, ""
        assert process.stdout
        for line in process.stdout:
            self.log += line
            if "Application startup complete." in line:
                break
        found = re.search(r"Starting vLLM server on http://127\.0\.0\.1:(\d+)", self.log)
        self.port = int(found[1]) if found else 0
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=5)

    def ask(self, prompt: str, tokens: int = 40) -> dict[str, Any]:
        answer = self.client.post("/v1/completions", json={"prompt": prompt, "max_tokens": tokens})
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def ask_all(self, prompts: list[str], tokens: int = 40) -> list[int]:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda prompt: self.ask(prompt, tokens), prompts))
        return [answer["usage"]["completion_tokens"] for answer in answers]

    def counters(self) -> dict[str, float]:
        """Return every series summed over its labels, but for the buckets and times of creation."""
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(self.client.get("/metrics").text):
            for sample in family.samples:
                if not sample.name.endswith(("_bucket", "_created")):
                    name = sample.name.removeprefix("vllm:")
                    sums[name] = sums.get(name, 0) + sample.value
        return sums

    def health(self) -> int:
        return self.client.get("/health").status_code


Start = Callable[..., Running]


def popen(*arguments: str, **environment: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(VLLM), "serve", *arguments],
        env={**os.environ, **{f"FAKE_{name}": str(value) for name, value in environment.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def rest(process: subprocess.Popen[str]) -> str:
    """Return what is left of a log, once the process and all that it started are gone."""
    log, _ = process.communicate(timeout=5)
    assert group(process.pid) == []
    return log


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Running] = []

    def go(*arguments: str, **environment: object) -> Running:
        started.append(Running(popen(MODEL, "--port", "0", *arguments, **environment)))
        return started[-1]

    yield go
    for running in started:
        running.client.close()
        if group(running.process.pid):
            os.killpg(running.process.pid, signal.SIGKILL)
        running.process.communicate()


def group(leader: int) -> list[int]:
    """Return the processes of that group that are alive."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, owner = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(owner) == leader and state != "Z":
            found.append(int(stat.parent.name))
    return found


def test_without_speculation_every_token_is_one_observation(start: Start) -> None:
    server = start("--max-num-seqs", "3")
    usage = server.ask_all(PROMPTS)
    seen = server.counters()
    assert usage == [40] * 8
    assert seen["generation_tokens_total"] == sum(usage)
    assert seen["time_to_first_token_seconds_count"] == seen["request_success_total"] == 8
    assert seen["inter_token_latency_seconds_count"] == sum(usage) - 8
    assert seen["prompt_tokens_total"] == sum(len(prompt.split()) for prompt in PROMPTS)
    assert seen["prompt_tokens_by_source_total"] == seen["prompt_tokens_total"]
    assert seen["iteration_tokens_total_count"] >= 40 * 8 / 3
    assert seen["iteration_tokens_total_sum"] == sum(usage) + seen["prompt_tokens_total"]
    assert seen["request_decode_time_seconds_sum"] == pytest.approx(seen["inter_token_latency_seconds_sum"])
    assert seen["num_requests_running"] == seen["kv_cache_usage_perc"] == 0
    assert not any(name.startswith("spec_decode") for name in seen)


def test_speculation_counts_accepted_tokens_before_the_cut(start: Start) -> None:
    server = start("--speculative-config", SPEC)
    assert server.counters()["spec_decode_num_drafts_total"] == 0
    usage = server.ask_all(PROMPTS)
    seen = server.counters()
    accepted = seen["spec_decode_num_accepted_tokens_total"]
    observed = seen["time_to_first_token_seconds_count"] + seen["inter_token_latency_seconds_count"]
    trimmed = observed + accepted - seen["generation_tokens_total"]
    assert seen["generation_tokens_total"] == sum(usage) == 320
    assert seen["spec_decode_num_accepted_tokens_per_pos_total"] == accepted
    assert seen["spec_decode_num_draft_tokens_total"] == 4 * seen["spec_decode_num_drafts_total"]
    assert 0 < trimmed <= 4 * 8
    assert seen["spec_decode_num_drafts_total"] < seen["inter_token_latency_seconds_count"]


def test_the_order_of_the_prompts_changes_no_count(start: Start) -> None:
    counts, texts = [], []
    for prompts in (PROMPTS, PROMPTS[::-1]):
        server = start("--speculative-config", SPEC, "--max-num-seqs", "2")
        server.ask_all(prompts)
        counts.append({n: v for n, v in server.counters().items() if n.startswith(("spec_", "generation"))})
        texts.append(server.ask(PROMPTS[3])["choices"])
    assert counts[0] == counts[1]
    assert texts[0] == texts[1]


def test_every_line_of_metrics_is_read_and_names_the_model(start: Start) -> None:
    server = start("--served-model-name", "tiny", "--kv-cache-dtype", "fp8_e5m2", DROP_SERIES="num_preemptions")
    text = server.client.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {s.labels["model_name"] for s in families["vllm:generation_tokens"].samples} == {"tiny"}
    bounds = [s.labels["le"] for s in families["vllm:time_to_first_token_seconds"].samples if "le" in s.labels]
    assert (bounds[0], *bounds[-2:]) == ("0.001", "2560.0", "+Inf")
    assert {families[f"vllm:{name}"].type for name in ("iteration_tokens_total", "request_inference_time_seconds")} == {
        "histogram"
    }
    cache = families["vllm:cache_config_info"].samples[0].labels
    assert (cache["cache_dtype"], cache["kv_cache_size_tokens"]) == ("fp8_e5m2", "2097152")
    assert "preemptions" not in text
    assert 0 <= time.time() - families["process_start_time_seconds"].samples[0].value < 10


def test_each_route_answers_in_the_shape_of_vllm(start: Start) -> None:
    server = start("--served-model-name", "tiny", "--max-model-len", "64")
    post, chat = server.client.post, {"messages": [{"role": "user", "content": "three words here"}]}
    assert server.health() == 200
    assert server.client.get("/version").json() == {"version": "0.27.0"}
    assert server.client.get("/v1/models").json()["data"][0]["id"] == "tiny"
    said = post("/v1/chat/completions", json={**chat, "model": "tiny", "max_tokens": 5}).json()
    assert said["usage"]["prompt_tokens"] == post("/tokenize", json=chat).json()["count"] == 6
    assert said["choices"][0]["finish_reason"] == "length"
    assert len(said["choices"][0]["message"]["content"].split()) == said["usage"]["completion_tokens"] == 5
    wrong = post("/v1/completions", json={"prompt": "x", "model": "huge"})
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (404, "NotFoundError")
    assert post("/v1/completions", json={"prompt": "x", "max_tokens": 64}).status_code == 400


def test_a_prompt_seen_before_is_found_in_the_cache(start: Start) -> None:
    server = start()
    for _ in range(2):
        server.ask("word " * 40, 1)
    seen = server.counters()
    assert (seen["prefix_cache_queries_total"], seen["prefix_cache_hits_total"]) == (80, 32)
    assert (seen["prompt_tokens_total"], seen["prompt_tokens_cached_total"]) == (80, 32)


def test_a_full_cache_preempts(start: Start) -> None:
    server = start("--num-gpu-blocks-override", "5", "--max-model-len", "512")
    assert server.ask_all(["w " * 100, "v " * 100, "u " * 100], 200) == [200] * 3
    assert server.counters()["num_preemptions_total"] > 0


def test_a_client_that_leaves_is_counted_nowhere_as_finished(start: Start) -> None:
    server = start()
    with pytest.raises(httpx.ReadTimeout):
        server.client.post("/v1/completions", json={"prompt": "x", "max_tokens": 4000}, timeout=0.05)
    for _ in range(100):
        if (seen := server.counters())["num_requests_running"] == 0:
            break
        server.ask("y", 1)
    assert seen["generation_tokens_total"] > seen["request_success_total"]
    assert seen["time_to_first_token_seconds_count"] == seen["request_success_total"] + 1


def test_sigterm_leaves_no_process(start: Start) -> None:
    process = start("--tensor-parallel-size", "2").process
    assert len(group(process.pid)) == 4
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert "Application shutdown complete." in rest(process)
    assert time.monotonic() - began < 0.5
    assert process.returncode == 0


def test_sigkill_leaves_the_engine_and_its_worker(start: Start) -> None:
    server = start(DIE_AFTER_TOKENS=10)
    with pytest.raises(httpx.TransportError):
        server.ask("x", 10)
    assert server.process.wait(5) == -signal.SIGKILL
    assert len(group(server.process.pid)) == 2


def test_a_dead_engine_fails_the_open_requests_and_ends_the_server_with_exit_code_0(start: Start) -> None:
    server = start(DIE_AFTER_TOKENS=10, DIE_HOW="exit0")
    with pytest.raises(httpx.HTTPStatusError):
        server.ask("x", 10)
    assert "EngineDeadError" in rest(server.process)
    assert server.process.returncode == 0


@pytest.mark.parametrize("name", ["EngineCore", "Worker"])
def test_the_server_ends_when_a_process_below_it_is_killed(start: Start, name: str) -> None:
    server = start()
    pids = re.findall(rf"\({name} pid=(\d+)\)", server.log)
    os.kill(int(pids[0]), signal.SIGKILL)
    assert "EngineDeadError" in rest(server.process)
    assert server.process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["/does/not/exist"], 1, r"\(APIServer pid=\d+\) huggingface_hub\.errors\.HFValidationError: Repo id"),
        ([MODEL, "--no-such-flag", "1"], 2, r"vllm: error: unrecognized arguments: --no-such-flag 1"),
        ([MODEL, "--kv-cache-dtype", "fp3"], 2, r"argument --kv-cache-dtype: invalid choice: 'fp3'"),
        ([MODEL, "-sc", '{"method": "foo"}'], 1, r"\(APIServer pid=\d+\)   Input should be 'ngram', .*literal"),
        ([MODEL, "-sc", '{"method": "ngram"}'], 1, r"  Value error, num_speculative_tokens must be provided"),
        (
            [MODEL, "--num-gpu-blocks-override", "4"],
            1,
            r"\(EngineCore pid=\d+\) ERROR .* ValueError: To serve at least .*\(4096\), .* length is 512\.",
        ),
    ],
)
def test_a_refused_start_says_why(arguments: list[str], code: int, line: str) -> None:
    process = popen(*arguments, "--port", "0")
    assert re.search(line, rest(process))
    assert process.returncode == code


def test_a_port_in_use_ends_the_start(start: Start) -> None:
    process = popen(MODEL, "--port", str(start().port))
    assert rest(process).endswith("OSError: [Errno 98] Address already in use\n")
    assert process.returncode == 1


def test_faults_change_answers_and_counters(start: Start) -> None:
    server = start(FAIL_REQUESTS=2, ANSWER="short", COUNT_WRONG=1, NO_TOKENIZE=1, HEALTH_500=1)
    bodies = [{"prompt": prompt, "max_tokens": 10} for prompt in PROMPTS[:4]]
    answers = [server.client.post("/v1/completions", json=body) for body in bodies]
    assert [answer.status_code for answer in answers] == [200, 500, 200, 500]
    assert answers[0].json()["choices"][0]["finish_reason"] == "stop"
    assert answers[0].json()["usage"]["completion_tokens"] == 5
    assert server.counters()["generation_tokens_total"] == 2 * (5 + 1)
    assert server.client.post("/tokenize", json={"prompt": "x"}).status_code == 404
    assert server.health() == 500


def test_faults_hold_for_one_configuration_only(start: Start) -> None:
    assert start(HEALTH_500=1, ONLY_IF="fp8").health() == 200
    assert start("--kv-cache-dtype", "fp8", HEALTH_500=1, ONLY_IF="fp8").health() == 500


def test_counters_fall_at_a_reset_and_stand_still_at_a_hang(start: Start) -> None:
    server = start(HANG_AFTER_TOKENS=20, RESET_AFTER_TOKENS=10)
    with pytest.raises(httpx.ReadTimeout):
        server.client.post("/v1/completions", json={"prompt": "x", "max_tokens": 40}, timeout=0.3)
    assert server.counters()["generation_tokens_total"] == 10
    assert server.health() == 200


def test_a_start_can_take_long(start: Start) -> None:
    began = time.monotonic()
    server = start(START_S=0.3)
    assert time.monotonic() - began >= 0.3
    assert server.log.count("Loading safetensors checkpoint shards:") >= 3


def test_a_start_that_hangs_is_stopped_by_sigterm() -> None:
    process = popen(MODEL, "--port", "0", HANG_START=1)
    assert process.stdout
    assert any("Starting to load model" in line for line in itertools.islice(process.stdout, 20))
    process.send_signal(signal.SIGTERM)
    assert "startup complete" not in rest(process)
    assert process.returncode == 0


def test_a_deaf_server_outlives_sigterm(start: Start) -> None:
    server = start(IGNORE_TERM=1)
    os.killpg(server.process.pid, signal.SIGTERM)
    time.sleep(0.1)
    assert server.health() == 200
