"""Every way in which an embedded engine can be made to fail, and what the collector's own readers call it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from collector.core.engine_log import EngineFacts, read_engine_log
from collector.core.errors import UserError
from collector.core.failures import Verdict, diagnose
from collector.emulator.engine import EmbeddedEngine
from collector.emulator.faults import Faults, parse_faults
from tests.emulator.engines import GIB, answer, drive, make, profile, samples, scenario, started, total
from tests.emulator.test_server import HI, client_of

OOM = "torch.OutOfMemoryError: CUDA out of memory. GPU 0 has a total capacity of 23.56 GiB of which 6.38 MiB is free."
FP8 = (
    "ValueError: FP8 KV cache is not supported by the Triton attention backend on NVIDIA GeForce RTX 3090 "
    "(compute capability 8.6); native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype bfloat16."
)


def refused(engine_of: Any) -> Verdict:
    """Return what a start that must fail is called, by its log and its exit code."""
    verdicts: list[Verdict] = []

    async def work() -> None:
        engine: EmbeddedEngine = engine_of()
        engine.start()
        assert not await engine.ready()
        code = await engine.ended()
        assert code != 0
        assert await engine.stop() == code
        verdicts.append(diagnose(engine.log.text(), exit_code=code))

    scenario(work)
    return verdicts[0]


@pytest.mark.parametrize(
    ("facts", "faults", "category", "said"),
    [
        ({}, {"refuse": OOM}, "oom_weights", "CUDA out of memory"),
        ({}, {"refuse": FP8}, "kv_dtype", "FP8 KV cache is not supported"),
        ({}, {"gpu_held_gib": 8.0}, "gpu_busy", "Free memory on device cuda:0 (16.0/24.0 GiB) on startup is less than"),
        ({"max_model_len": 200_000}, {}, "max_model_len", "User-specified max_model_len (200000) is greater"),
        ({"num_gpu_blocks_override": 9}, {}, "kv_cache", "estimated maximum model length is 144"),
        ({"gpu_memory_utilization": 0.4}, {}, "kv_cache", "No available memory for the cache blocks"),
        ({"kv_cache_dtype": "fp9"}, {}, "cli", "invalid choice: 'fp9'"),
    ],
)
def test_a_refused_start_is_diagnosed(facts: dict[str, Any], faults: dict[str, Any], category: str, said: str) -> None:
    verdict = refused(lambda: make(facts, faults))
    assert (verdict.category, said in verdict.cause) == (category, True)


def test_a_drafter_that_takes_every_slot_of_a_step_is_refused() -> None:
    facts = {"speculation": "dflash", "num_speculative_tokens": 16, "max_num_seqs": 256}
    verdict = refused(lambda: make(facts, of=profile(acceptance={"plain": {"dflash": {"16": {"synthetic": [0.5]}}}})))
    assert verdict.category == "speculation"
    assert "max_num_scheduled_tokens is set to -1792" in verdict.cause


def test_weights_larger_than_the_card_are_out_of_memory_while_loading() -> None:
    big = profile().models["plain"].model_copy(update={"weights_bytes": 60 * GIB})
    verdict = refused(lambda: make({"tensor_parallel": 2}, of=profile(models={"plain": big.model_dump()})))
    assert (verdict.category, verdict.phase) == ("oom_weights", "weights")


@pytest.mark.parametrize(
    ("log", "phase", "category"),
    [
        (OOM, "config", "oom_unknown"),
        (OOM, "weights", "oom_weights"),
        (OOM, "profile", "oom_activation"),
        (OOM, "graph_capture", "kv_cache"),
        (FP8, "weights", "kv_dtype"),
    ],
)
def test_a_scripted_outcome_fails_those_starts_that_it_names(log: str, phase: str, category: str) -> None:
    match = {"model": "plain", "speculation": "mtp", "nvlink": "off"}
    of = profile(outcomes=[{"match": match, "log": log, "phase": phase, "note": "published"}])
    facts = {"speculation": "mtp", "num_speculative_tokens": 4}
    verdict = refused(lambda: make(facts | {"nvlink": "off"}, of=of))
    assert verdict.category == category
    assert log in verdict.cause

    async def other() -> None:
        async with started(make(facts | {"nvlink": "on"}, of=of)):
            pass

    scenario(other)


def test_a_slow_start_goes_on_telling_how_far_it_is() -> None:
    async def work() -> None:
        engine = make(faults={"slow_start_s": 300.0})
        engine.start()
        sizes = []
        for _ in range(30):
            await engine.clock.sleep(10)
            sizes.append(engine.log.size)
        assert sizes == sorted(set(sizes))
        assert not engine.listening
        assert await engine.ready()
        assert engine.clock.monotonic() > 330
        await engine.stop()

    scenario(work)


def test_a_hang_in_loading_falls_silent() -> None:
    async def work() -> None:
        engine = make(faults={"hang_in_load": True})
        engine.start()
        await engine.clock.sleep(100)
        size = engine.log.size
        await engine.clock.sleep(10_000)
        assert engine.log.size == size > 0
        assert not engine.listening
        async with httpx.AsyncClient(transport=_transport(engine)) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("http://engine/health")
        assert await engine.stop() == 0

    scenario(work)


def _transport(engine: EmbeddedEngine) -> httpx.AsyncBaseTransport:
    from collector.emulator.transport import EngineTransport

    return EngineTransport(engine)


@pytest.mark.parametrize("stream", [False, True])
def test_a_death_fails_what_runs_and_is_in_the_log(stream: bool) -> None:
    async def work() -> None:
        engine = make(faults={"die_after_tokens": 10})
        async with client_of(engine) as client:
            got = await client.post("/v1/completions", json=HI | {"stream": stream})
            assert "EngineCore encountered an issue" in got.text
            assert got.status_code == (200 if stream else 500)
            assert await engine.ended() == 0
            with pytest.raises(httpx.ConnectError):
                await client.get("/health")
            verdict = diagnose(engine.log.text(), exit_code=0)
            assert (verdict.category, verdict.phase) == ("crashed_serving", "ready")

    scenario(work)


def test_a_silent_death_cuts_the_connection_and_says_nothing() -> None:
    async def work() -> None:
        engine = make(faults={"die_after_tokens": 10, "die_silently": True})
        async with client_of(engine) as client:
            size = engine.log.size
            with pytest.raises(httpx.ReadError):
                await client.post("/v1/completions", json=HI)
            assert await engine.ended() == -9
            assert engine.log.size == size

    scenario(work)


def test_a_hang_while_serving_leaves_the_routes_alive() -> None:
    async def work() -> None:
        async with client_of(make(faults={"hang_after_tokens": 10})) as client:
            with pytest.raises(httpx.ReadTimeout, match="no answer in 7 s"):
                await client.post("/v1/completions", json=HI, timeout=7)
            assert (await client.get("/health")).status_code == 200
            assert "vllm:generation_tokens_total" in (await client.get("/metrics")).text

    scenario(work)


def test_a_reset_sets_the_counters_back_once() -> None:
    async def work() -> None:
        async with started(make(faults={"reset_after_tokens": 10})) as engine:
            created = next(iter(samples(engine)["vllm:generation_tokens_created"].values()))
            await answer(engine, 1, 50, 50)
            found = samples(engine)
            assert total(found, "generation_tokens_total") == 40
            assert next(iter(found["vllm:generation_tokens_created"].values())) > created

    scenario(work)


def test_dropped_series_are_not_in_the_scrape() -> None:
    async def work() -> None:
        names = ["vllm:inter_token_latency_seconds", "generation_tokens_total", "cache_config_info"]
        async with started(make(faults={"drop_series": names})) as engine:
            await answer(engine, 1, 50, 5)
            text = engine.metrics.text()
            assert not any(name.removeprefix("vllm:") in text.replace("request_generation", "") for name in names)
            assert "vllm:request_generation_tokens_count" in text

    scenario(work)


def test_every_nth_completion_fails() -> None:
    async def work() -> None:
        async with client_of(make(faults={"fail_every": 3})) as client:
            statuses = [(await client.post("/v1/completions", json=HI)).status_code for _ in range(7)]
            assert statuses == [200, 200, 500, 200, 200, 500, 200]

    scenario(work)


def test_a_slow_front_end_delays_every_route() -> None:
    async def work() -> None:
        engine = make(faults={"answer_delay_s": 2.0})
        async with client_of(engine) as client:
            for path in ("/health", "/metrics"):
                began = engine.clock.monotonic()
                await client.get(path)
                assert engine.clock.monotonic() - began == pytest.approx(2.0)

    scenario(work)


def test_an_unknown_fault_is_refused_and_every_fault_is_documented() -> None:
    with pytest.raises(UserError, match=r"die_after_token: .*the faults are refuse, "):
        parse_faults({"die_after_token": 3})
    with pytest.raises(UserError, match="fail_every"):
        parse_faults({"fail_every": 0})
    assert all(field.description for field in Faults.model_fields.values())


def test_a_healthy_log_tells_the_facts_and_no_failure() -> None:
    async def work() -> None:
        facts = {
            "model": "sliding",
            "tensor_parallel": 2,
            "kv_cache_dtype": "fp8_e5m2",
            "speculation": "dflash",
            "num_speculative_tokens": 7,
        }
        async with started(make(facts)) as engine:
            await drive(engine, [(50, 5)] * 3, 3)
            text = engine.log.text()
            assert "embedded engine" in text.splitlines()[0]
            assert read_engine_log(text) == EngineFacts(
                attention_backend="FLASHINFER",
                cudagraph_mode="PIECEWISE",
                all_reduce="CUSTOM,PYNCCL",
                custom_all_reduce=True,
                model_load_gib=5.0,
                weights_load_s=profile().models["sliding"].load_s,
                graph_gib=0.5,
                kv_cache_tokens=engine.kv.tokens,
            )
            assert diagnose(text, was_ready=True).category == diagnose(text).category == "ok"

    scenario(work)


@pytest.mark.parametrize(
    ("facts", "mode"),
    [
        ({"model": "sliding"}, "FULL_AND_PIECEWISE"),
        ({"model": "sliding", "schedule": ((1, 2, 3), (3, 8, 0))}, "PIECEWISE"),
        ({"model": "sliding", "kv_cache_dtype": "fp8_e5m2", "schedule": ((1, 8, 0),)}, "PIECEWISE"),
        ({"model": "sliding", "schedule": ((1, 8, 0),), "enforce_eager": True}, "NONE"),
    ],
)
def test_a_schedule_costs_the_full_cuda_graphs_and_the_log_says_so_once(facts: dict[str, Any], mode: str) -> None:
    async def work() -> None:
        async with started(make(facts | {"speculation": "dflash", "num_speculative_tokens": 3})) as engine:
            text = engine.log.text()
            assert read_engine_log(text).cudagraph_mode == mode
            lowered = text.count("Overriding cudagraph_mode from FULL_AND_PIECEWISE to PIECEWISE for reliability")
            assert lowered == (1 if mode == "PIECEWISE" else 0)
            assert "setting cudagraph_mode" not in text

    scenario(work)


def test_requests_still_running_at_a_stop_fail() -> None:
    async def work() -> None:
        async with client_of(engine := make()) as client:
            asking = asyncio.ensure_future(client.post("/v1/completions", json=HI | {"max_tokens": 1000}))
            await engine.clock.sleep(1)
            await engine.stop()
            assert (await asking).status_code == 500

    scenario(work)
