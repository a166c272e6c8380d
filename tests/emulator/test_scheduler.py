"""Batching, memory and chance: what runs in a step, who must wait, and that the same plan gives the same bytes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collector.core.step import StepLoad
from collector.emulator.engine import EmbeddedEngine
from tests.emulator.engines import answer, drive, make, samples, scenario, started, total

MTP = {"speculation": "mtp", "num_speculative_tokens": 4}
SMALL = {"num_gpu_blocks_override": 61, "max_model_len": 400}  # 60 blocks of 16 tokens


def loads_of(facts: dict[str, Any], requests: list[tuple[int, int]], concurrency: int) -> list[StepLoad]:
    seen: list[StepLoad] = []

    async def work() -> None:
        async with started(make(facts, seen=seen)) as engine:
            await drive(engine, requests, concurrency)

    scenario(work)
    return seen


def test_no_step_is_larger_than_the_budget_and_prompts_come_in_chunks() -> None:
    seen = loads_of({"max_num_batched_tokens": 256}, [(640, 16)] * 8, 8)
    assert max(one.prefill_positions + one.decode_positions for one in seen) == 256
    assert sum(one.prefill_positions for one in seen) == 8 * 640
    assert any(one.prefill_positions and one.decoding for one in seen)  # decodes do not wait for prompts


def test_a_parallel_drafter_takes_its_slots_off_the_budget() -> None:
    facts = {"model": "sliding", "speculation": "dflash", "num_speculative_tokens": 7, "max_num_seqs": 32}
    seen = loads_of(facts, [(1900, 4)] * 3, 3)
    assert max(one.prefill_positions + one.decode_positions for one in seen) == 2048 - 6 * 32


def test_no_more_requests_run_than_max_num_seqs() -> None:
    seen = loads_of({"max_num_seqs": 3}, [(20, 20)] * 10, 10)
    assert max(one.requests for one in seen) == 3


def test_a_decoding_request_computes_itself_and_its_drafts() -> None:
    seen = loads_of(MTP, [(20, 40)], 1)
    prefill, *decodes = seen
    assert (prefill.prefill_positions, prefill.sampled, prefill.drafting) == (20, 1, 1)
    assert all(one.decode_positions == one.sampled == 5 and one.drafted_per_request == 4 for one in decodes)
    assert decodes[0].kv_read_tokens == 20 + 5


def test_sliding_layers_read_their_window_and_no_more() -> None:
    seen = loads_of({"model": "sliding"}, [(200, 10)], 1)
    assert seen[-1].kv_read_tokens > 200
    assert {one.kv_read_tokens_sliding for one in seen} == {64}


def test_a_schedule_gives_each_batch_size_its_k_in_the_next_step() -> None:
    facts = MTP | {"schedule": ((1, 2, 4), (3, 6, 2), (7, 32, 0))}
    for concurrency, k in ((1, 4), (4, 2), (12, 0)):
        seen = loads_of(facts, [(20, 64)] * concurrency, concurrency)
        full = [one for one in seen if one.decoding == one.requests == concurrency]
        assert {one.drafted_per_request for one in full} == {k}
        assert {one.decode_positions for one in full[1:]} == {concurrency * (1 + k)}
        assert all(one.drafting == one.requests for one in full)  # k = 0 still runs the drafter's first pass


def preempting(facts: dict[str, Any]) -> tuple[float, float, list[float], float]:
    """Return preemptions, the most that waited, the usage and prompt tokens of four long answers."""
    waited: list[float] = []
    usage: list[float] = []
    ends: list[float] = []

    async def work() -> None:
        async with started(make(facts)) as engine:
            load = drive(engine, [(50, 330)] * 4, 4)
            watched = watch(engine, waited, usage)
            done = await gather_first(load, watched)
            assert [one.generated for one in done] == [330] * 4
            found = samples(engine)
            assert total(found, "generation_tokens_total") == 4 * 330
            assert total(found, "inter_token_latency_seconds_count") == 4 * 329
            assert total(found, "request_success_total", finished_reason="length") == 4
            assert total(found, "kv_cache_usage_perc") == 0
            assert total(found, "prefix_cache_queries_total") == 200
            ends.extend((total(found, "num_preemptions_total"), total(found, "prompt_tokens_total")))

    scenario(work)
    return ends[0], max(waited), usage, ends[1]


async def watch(engine: EmbeddedEngine, waited: list[float], usage: list[float]) -> None:
    while True:
        await engine.clock.sleep(0.05)
        found = samples(engine)
        waited.append(total(found, "num_requests_waiting_by_reason", reason="capacity"))
        usage.append(total(found, "kv_cache_usage_perc"))


async def gather_first(load: Any, watched: Any) -> Any:
    task = asyncio.ensure_future(watched)
    try:
        return await load
    finally:
        task.cancel()


def test_a_small_cache_preempts_and_everything_still_finishes() -> None:
    preemptions, waited, usage, prompts = preempting(SMALL)
    assert preemptions > 0
    assert waited > 0
    assert max(usage) > 0.9
    assert prompts == 200  # computed again, but not counted again


def test_an_ample_cache_never_preempts() -> None:
    preemptions, waited, usage, prompts = preempting({})
    assert (preemptions, waited, prompts) == (0, 0, 200)
    assert max(usage) < 0.01


def test_a_preemption_is_counted_with_the_next_output_of_its_victim() -> None:
    moments: list[tuple[float, int]] = []

    async def work() -> None:
        async with started(make(SMALL)) as engine:
            scheduler, preempt = engine.scheduler, engine.scheduler._preempt
            happened = [0]

            def noted(request: Any) -> None:
                happened[0] += 1
                preempt(request)

            scheduler._preempt = noted  # type: ignore[method-assign]

            def look(new: int, reason: str | None) -> None:
                moments.append((engine.metrics.count("num_preemptions_total"), happened[0]))

            await drive(engine, [(50, 330)] * 4, 4, deliver=look)
            moments.append((engine.metrics.count("num_preemptions_total"), happened[0]))

    scenario(work)
    assert any(counted < happened for counted, happened in moments)
    assert moments[-1][0] == moments[-1][1] > 0


def test_a_prompt_seen_before_is_found_in_whole_blocks() -> None:
    async def work() -> None:
        async with started(make()) as engine:
            for _ in range(2):
                await answer(engine, 1, 50, 4)
            found = samples(engine)
            assert total(found, "prefix_cache_queries_total") == 100
            assert total(found, "prefix_cache_hits_total") == 48
            assert total(found, "prompt_tokens_by_source_total", source="local_cache_hit") == 48
            assert total(found, "prompt_tokens_total") == 100
            assert total(found, "request_prefill_kv_computed_tokens_sum") == 52

    scenario(work)


def test_a_block_that_repeats_a_known_one_is_kept_like_any_other() -> None:
    """As in vLLM, which never merges blocks: what a repeated answer leaves pushes out what is older."""

    async def work() -> None:
        async with started(make({"num_gpu_blocks_override": 11, "max_model_len": 128})) as engine:
            await answer(engine, 1, 40, 1)
            for _ in range(2):  # the second finds the prompt's first block and fills copies of the two after it
                await answer(engine, 2, 30, 20)
            await answer(engine, 3, 70, 1)  # takes five blocks, of which three hold nothing
            assert total(samples(engine), "prefix_cache_hits_total") == 16
            await answer(engine, 1, 40, 1)
            assert total(samples(engine), "prefix_cache_hits_total") == 16

    scenario(work)


def test_without_prefix_caching_nothing_is_looked_up_or_found() -> None:
    async def work() -> None:
        async with started(make({"enable_prefix_caching": False})) as engine:
            for _ in range(2):
                await answer(engine, 1, 50, 4)
            assert total(samples(engine), "prefix_cache_hits_total") == 0
            assert total(samples(engine), "prefix_cache_queries_total") == 0

    scenario(work)


@pytest.mark.parametrize("facts", [{}, {"model": "sliding"}, MTP, SMALL, SMALL | MTP])
def test_all_blocks_are_free_again_when_nobody_is_left(facts: dict[str, Any]) -> None:
    async def work() -> None:
        async with started(make(facts)) as engine:
            kv = engine.scheduler.kv
            await drive(engine, [(90, 150)] * 9 + [(33, 1)], 5)
            assert kv.free == kv.blocks - 1
            assert kv.usage == 0

    scenario(work)


async def noted(engine: EmbeddedEngine, index: int, steps: list[int]) -> None:
    """Answer a request and note how many tokens each step gave."""

    def deliver(new: int, _: str | None) -> None:
        steps.append(new)

    await answer(engine, index, 40, 60, deliver=deliver)


def test_a_request_is_accepted_alike_whatever_runs_beside_it() -> None:
    generated: list[list[list[int]]] = []

    async def work() -> None:
        for concurrency in (1, 6):
            steps: list[list[int]] = [[] for _ in range(6)]
            async with started(make(MTP)) as engine:
                if concurrency == 1:
                    for index in range(6):
                        await noted(engine, index, steps[index])
                else:
                    async with asyncio.TaskGroup() as group:
                        for index in range(6):
                            group.create_task(noted(engine, index, steps[index]))
            generated.append(steps)

    scenario(work)
    assert generated[0] == generated[1]
    assert any(max(one) > 1 for one in generated[0])


def test_a_client_that_goes_leaves_its_tokens_counted_and_its_end_not() -> None:
    async def work() -> None:
        async with started(make()) as engine:
            task = asyncio.ensure_future(answer(engine, 1, 50, 1000))
            await engine.clock.sleep(1.0)
            task.cancel()
            await engine.clock.sleep(1.0)
            found = samples(engine)
            assert 50 < total(found, "generation_tokens_total") < 150
            assert total(found, "request_success_total") == total(found, "e2e_request_latency_seconds_count") == 0
            assert total(found, "num_requests_running") == total(found, "kv_cache_usage_perc") == 0

    scenario(work)


SCRIPT = """
from tests.emulator.engines import *
async def work():
    async with started(make({"speculation": "mtp", "num_speculative_tokens": 4, **SMALL})) as engine:
        await drive(engine, [(50 + i, 300) for i in range(9)], 5)
        print(engine.metrics.text(), engine.log.text())
SMALL = {"num_gpu_blocks_override": 61, "max_model_len": 400}
scenario(work)
"""


def test_the_same_load_gives_the_same_bytes_under_any_hash_seed() -> None:
    def run(seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", SCRIPT]
        root = Path(__file__).parents[2]
        return subprocess.run(command, env=environment, cwd=root, check=True, capture_output=True, text=True).stdout

    first = run("1")
    assert "vllm:num_preemptions_total" in first
    assert first == run("1") == run("2")


def test_other_prompts_are_accepted_otherwise() -> None:
    async def work() -> None:
        found = []
        async with started(make(MTP)) as engine:
            for index in range(8):
                steps: list[int] = []
                await noted(engine, index, steps)
                found.append(tuple(steps))
        assert len(set(found)) > 4

    scenario(work)
