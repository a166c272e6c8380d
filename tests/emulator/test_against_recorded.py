"""The same small workloads as those recorded on the real engine: what does not depend on time must be equal."""

from __future__ import annotations

import pytest

from collector.core.series import Samples
from tests.data_files import Pair, pair
from tests.emulator.engines import drive, make, samples, scenario, started, total

#: Counts of tokens and events; no sum of seconds is among them.
UNTIMED = (
    "generation_tokens_total",
    "prompt_tokens_total",
    "prompt_tokens_by_source_total",
    "prompt_tokens_cached_total",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "num_preemptions_total",
    "request_success_total",
    "time_to_first_token_seconds_count",
    "inter_token_latency_seconds_count",
    "request_time_per_output_token_seconds_count",
    "e2e_request_latency_seconds_count",
    "iteration_tokens_total_sum",
    "request_prompt_tokens_sum",
    "request_generation_tokens_sum",
    "request_max_num_generation_tokens_sum",
    "request_params_max_tokens_sum",
    "request_params_n_sum",
    "request_prefill_kv_computed_tokens_sum",
    "estimated_flops_per_gpu_total",
    "external_prefix_cache_queries_total",
)


def emulated(recorded: Pair) -> tuple[Samples, Samples]:
    """Run the workload of a recorded pair on an engine with that one's cache; return both scrapes."""
    truth = recorded.truth
    info = dict(next(iter(recorded.samples("after")["vllm:cache_config_info"])))
    facts = {
        "max_model_len": round(int(info["kv_cache_size_tokens"]) / float(info["kv_cache_max_concurrency"])),
        "block_size": int(info["block_size"]),
        "num_gpu_blocks_override": int(info["num_gpu_blocks"]),
    }
    requests = [(one["prompt_tokens"], one["completion_tokens"]) for one in truth["per_request"]]
    found: list[Samples] = []

    async def work() -> None:
        async with started(make(facts)) as engine:
            found.append(samples(engine))
            await drive(engine, requests, truth["concurrency"])
            found.append(samples(engine))

    scenario(work)
    return found[0], found[1]


@pytest.mark.parametrize("name", ["nospec", "nospec-preempt"])
def test_what_does_not_depend_on_time_is_counted_as_the_real_engine_counted_it(name: str) -> None:
    recorded = pair(f"metrics/vllm-0.27.0-{name}")
    before, after = emulated(recorded)
    ours = {one: total(after, one) - total(before, one) for one in UNTIMED}
    theirs = {one: total(recorded.samples("after"), one) - total(recorded.samples("before"), one) for one in UNTIMED}
    assert ours == theirs
    assert (ours["num_preemptions_total"] > 0) == (name == "nospec-preempt")
    for label in ("stop", "length", "abort", "error", "repetition"):
        counted = [total(one, "request_success_total", finished_reason=label) for one in (before, after)]
        real = [
            total(recorded.samples(one), "request_success_total", finished_reason=label) for one in ("before", "after")
        ]
        assert counted[1] - counted[0] == real[1] - real[0]


@pytest.mark.parametrize("name", ["nospec", "nospec-preempt"])
def test_the_cache_is_stated_as_the_real_engine_states_it(name: str) -> None:
    recorded = pair(f"metrics/vllm-0.27.0-{name}")
    _, after = emulated(recorded)
    ours, theirs = (dict(next(iter(one["vllm:cache_config_info"]))) for one in (after, recorded.samples("after")))
    for label in ("block_size", "num_gpu_blocks", "kv_cache_size_tokens", "kv_cache_max_concurrency", "cache_dtype"):
        assert ours[label] == theirs[label]
