"""The embedded engine under the collector's own load: real requests, real scrapes, real rows, no waiting."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from collector.core.configuration import Configuration, Stage
from collector.core.engine_log import read_engine_log
from collector.core.plan import parse_plan
from collector.core.plan_schema import Limits
from collector.core.record import make_row
from collector.core.rows import Row
from collector.core.window import Telemetry, Window
from collector.emulator.engine import EmbeddedEngine
from collector.emulator.faults import parse_faults
from collector.emulator.setup import Setup, setup_of
from collector.emulator.transport import EngineTransport
from collector.measure.engines.interface import End
from collector.measure.scrape import parse
from collector.measure.stage import Measured, measure_stage
from collector.measure.target import Target
from tests.data_files import CONTEXT
from tests.emulator.engines import CLOCK, GIB, drive, make, profile, scenario, setup, step_time

PLAN = """\
plan: 1
campaign: emulated
engine: {kind: emulated, version: 0.27.0, flags: {max-num-batched-tokens: 1024}}
models: {plain: {path: "${MODELS}/plain"}}
speculation:
  mtp-4: {method: mtp, num_speculative_tokens: 4}
  scheduled: {method: mtp, num_speculative_tokens: 4, num_speculative_tokens_per_batch_size: [[1, 4, 4], [5, 32, 1]]}
matrix: {model: plain, nvlink: [on, off], speculation: [off, mtp-4, scheduled], tensor_parallel: 2}
defaults: {max_model_len: 4096, max_num_seqs: 8, kv_cache_dtype: fp8_e5m2}
stages:
  - {concurrency: {1: 2, 8: 12}, prompt_tokens: 300, output_tokens: 48}
  - {concurrency: {2: 4}, prompt_set: general/korean, output_tokens: 48}
"""
RUNS = parse_plan(PLAN, "plan.yaml").runs
CELLS = [(run.configuration, stage) for run in RUNS for stage in run.stages]


class Embedded:
    """The engine as the sweep sees one."""

    owned = True
    image_digest: str | None = None

    def __init__(self, engine: EmbeddedEngine) -> None:
        self._engine = engine
        self.target = Target(base_url="http://engine", transport=lambda: EngineTransport(engine))

    async def ended(self) -> End:
        return End(exit_code=await self._engine.ended())

    async def stop(self, patience_s: float) -> End:
        return End(exit_code=await self._engine.stop())

    def owns(self, pid: int) -> bool | None:
        return None

    def telemetry(self) -> Telemetry:
        return Telemetry()

    def log_size(self) -> int:
        return self._engine.log.size

    def log_text(self) -> str:
        return self._engine.log.text()


def measured(configuration: Configuration, stage: Stage, salt: str = "salt", **faults: Any) -> tuple[Row, Measured]:
    """Return the row of one cell, and its evidence."""
    found: list[tuple[Row, Measured]] = []

    async def work() -> None:
        facts = setup_of(configuration)
        engine = EmbeddedEngine(profile(), facts, clock=CLOCK, step_time=step_time, faults=parse_faults(faults))
        engine.start()
        assert await engine.ready()
        running = Embedded(engine)
        got = await measure_stage(
            running, stage, Limits(), CLOCK, model=configuration.model, salt=salt, max_model_len=4096
        )
        context = replace(CONTEXT, provenance="emulated", facts=read_engine_log(running.log_text()))
        row, _ = make_row(context, configuration, stage, window_of(got))
        await running.stop(1)
        found.append((row, got))

    scenario(work)
    return found[0]


def window_of(got: Measured) -> Window:
    return Window(
        method=got.method,
        window_s=got.window_s,
        scrape_s=got.scrape_s,
        client_cpu_s=got.client_cpu_s,
        before=parse(got.before),
        after=parse(got.after),
        confirm=parse(got.confirm),
        requests_sent=got.requests_sent,
        requests=got.requests,
        tokenized=got.tokenized,
        samples=got.samples,
    )


@pytest.mark.parametrize("cell", range(len(CELLS)))
def test_every_check_of_a_row_is_run_and_holds(cell: int) -> None:
    configuration, stage = CELLS[cell]
    row, _ = measured(configuration, stage)
    assert (row.checks, row.checks_not_run) == ("", "nvlink_traffic"), "the engine as it stands here has no link"
    assert row.requests_done == stage.requests
    assert row.generation_tokens == stage.requests * 48
    assert row.kv_cache_tokens_source == "info"
    assert row.samples
    if configuration.speculation == "off":
        assert (row.tokens_per_step, row.acceptance_rate) == (1.0, None)
    else:
        assert row.tokens_per_step is not None
        assert row.tokens_per_step > 1
        assert row.acceptance_rate is not None
        assert (row.acceptance_rate < 0.5) == (stage.prompt_set == "general/korean")
    if stage.prompt_set == "synthetic":
        assert row.prompt_tokens_mean is not None
        assert 200 < row.prompt_tokens_mean <= 310


def test_the_same_cell_gives_the_same_evidence_and_another_salt_other_figures() -> None:
    configuration, stage = next(cell for cell in CELLS if cell[0].speculation == "mtp" and cell[1].concurrency == 8)
    first, again, other = (measured(configuration, stage, salt)[1] for salt in ("a", "a", "b"))
    assert first == again
    assert other.after != first.after


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"reset_after_tokens": 450}, "counter_reset"),
        ({"drop_series": ["inter_token_latency_seconds"]}, "missing_series"),
        ({"fail_every": 11}, "request_failed"),
    ],
)
def test_a_fault_in_a_stage_is_caught_by_its_check(fault: dict[str, Any], check: str) -> None:
    configuration, stage = CELLS[1]
    row, _ = measured(configuration, stage, **fault)
    assert check in row.checks.split()


def test_a_configuration_s_flags_reach_the_engine() -> None:
    by_label = {run.configuration.label: run.configuration for run in RUNS}
    setups = [setup_of(one) for one in by_label.values()]
    assert {one.custom_all_reduce for one in setups if one.nvlink == "on"} == {True}
    assert {one.custom_all_reduce for one in setups if one.nvlink == "off"} == {False}
    assert setups[0] == Setup(
        model="plain",
        model_path="${MODELS}/plain",
        kv_cache_dtype="fp8_e5m2",
        nvlink="on",
        tensor_parallel=2,
        max_model_len=4096,
        max_num_seqs=8,
        max_num_batched_tokens=1024,
    )
    scheduled = next(one for one in setups if one.schedule)
    assert [scheduled.drafts_at(batch) for batch in (1, 4, 5, 8)] == [4, 4, 1, 1]


def test_the_published_load_costs_little() -> None:
    """64 requests of 256 tokens at concurrency 32: the time of the engine alone, without HTTP."""

    class Free:
        """A clock of which every sleep only lets the others work."""

        now = 0.0

        def monotonic(self) -> float:
            return self.now

        async def sleep(self, seconds: float) -> None:
            self.now += seconds
            await asyncio.sleep(0)

    async def work() -> float:
        engine = EmbeddedEngine(profile(), setup(), clock=Free(), step_time=step_time)
        engine.start()
        assert await engine.ready()
        began = time.process_time()
        await drive(engine, [(640, 256)] * 64, 32)
        spent = time.process_time() - began
        assert engine.metrics.count("generation_tokens_total") == 64 * 256
        await engine.stop()
        return spent

    assert min(asyncio.run(work()) for _ in range(3)) < 0.6  # 0.15 s on an idle machine; tests share theirs


def test_the_cache_is_what_weights_drafter_and_graphs_leave() -> None:
    async def work() -> None:
        sizes = {}
        cases: dict[str, dict[str, Any]] = {
            "plain": {},
            "eager": {"enforce_eager": True},
            "fp8": {"kv_cache_dtype": "fp8_e5m2"},
            "two": {"tensor_parallel": 2},
        }
        for name, facts in cases.items():
            engine = make(facts)
            engine.start()
            assert await engine.ready()
            sizes[name] = engine.kv
            await engine.stop()
        left = 24 * GIB * 0.92 - (8 + 1 + 1 + 0.5) * GIB
        assert sizes["plain"].available_bytes == pytest.approx(left, rel=1e-6)
        assert sizes["plain"].blocks == int(left) // (16 * 8 * 1024)
        assert sizes["eager"].available_bytes - sizes["plain"].available_bytes == GIB // 2
        assert sizes["fp8"].tokens == pytest.approx(2 * sizes["plain"].tokens, rel=1e-3)
        assert sizes["two"].available_bytes - sizes["plain"].available_bytes == 4 * GIB
        assert sizes["two"].tokens > 2 * sizes["plain"].tokens

    scenario(work)


def test_sliding_layers_take_a_window_and_a_drafter_its_share() -> None:
    async def work() -> None:
        plans = []
        for facts in ({}, {"speculation": "dflash", "num_speculative_tokens": 7}):
            engine = make({"model": "sliding", "max_model_len": 16_384, **facts})
            engine.start()
            assert await engine.ready()
            plans.append(engine.kv)
            await engine.stop()
        alone, drafted = plans
        assert alone.windows == (None, 64, 64, 64, 64, 64)  # groups of two layers, as few as the full ones
        assert drafted.windows == (None, 64, 64, 64)  # the drafter's two layers make the full group larger
        assert drafted.available_bytes == alone.available_bytes - 2 * GIB
        # A request holds its context in the full group and a window with what is in flight in each other.
        blocks = 16_384 // 16 + 5 * (-(-(63 + 2 * 2048) // 16) + 1)
        assert alone.max_concurrency == pytest.approx(alone.blocks / blocks)

    scenario(work)
