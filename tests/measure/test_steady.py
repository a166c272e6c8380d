"""A window inside a running load: every lane busy at both edges, and the load proved from idle to idle."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from collector.core.configuration import Stage
from collector.core.plan_schema import Limits
from collector.core.record import make_row
from collector.core.window import Window
from collector.measure import evidence
from collector.measure.clock import SystemClock
from collector.measure.stage import Measured, measure_stage
from collector.measure.workload import SPARE_ROUNDS, ramp_lengths
from tests.measure.test_emulated import _sweep as sweep
from tests.measure.test_stage import STAGE, Server, _running

PLAN = """\
plan: 1
campaign: emulated
engine: {kind: emulated, version: 0.27.0}
models:
  muse-glimmer-30b: {path: org/muse, drafter: org/muse-dflash}
speculation:
  dflash-15: {method: dflash, model: "{drafter}", num_speculative_tokens: 15}
defaults: {model: muse-glimmer-30b, kv_cache_dtype: fp8_e5m2, tensor_parallel: 2, max_num_seqs: 32}
matrix: {speculation: [off, dflash-15]}
stages:
  - {concurrency: {1: 4, 8: 32}, prompt_tokens: 200, output_tokens: 64}
  - {concurrency: {1: 4, 8: 32}, prompt_tokens: 200, output_tokens: 64, window: steady}
"""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("steady")
    done = sweep(folder, PLAN)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "data" / "emulated"


def rows(campaign: Path, method: str) -> list[dict[str, str]]:
    with (campaign / "rows.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["window_method"] == method]


def test_all_identities_hold_and_a_cell_is_another_one_than_that_of_the_whole_stage(campaign: Path) -> None:
    steady, whole = rows(campaign, "steady"), rows(campaign, "whole_stage")
    assert [(row["checks"], row["checks_not_run"]) for row in steady] == [("", "late_counters")] * 4
    assert [row["checks_not_run"] for row in whole] == [""] * 4
    assert len({row["row_id"] for row in steady + whole}) == 8


def test_only_a_whole_stage_has_a_ramp_and_a_drain(campaign: Path) -> None:
    """The lanes that begin together wait for each other's prompts; spread over an answer, they do not."""
    for steady, whole in zip(rows(campaign, "steady"), rows(campaign, "whole_stage"), strict=True):
        if steady["concurrency"] == "8":
            assert float(steady["running_mean"]) > float(whole["running_mean"])
            assert float(steady["ttft_mean_s"]) < float(whole["ttft_mean_s"])
        assert float(steady["occupancy"]) == pytest.approx(1, abs=0.05)


# --- one thing broken --------------------------------------------------------------------------------------

Break = Callable[[Window], Window]


def changed(index: int, **facts: object) -> Break:
    def change(window: Window) -> Window:
        requests = [replace(one, **facts) if one.index == index else one for one in window.requests]  # type: ignore[arg-type]
        return replace(window, requests=tuple(requests))

    return change


def late(window: Window) -> Window:
    """As if half of the requests had been under way for half of their time only."""
    requests = [replace(one, sent_s=(one.sent_s + one.ended_s) / 2) for one in window.requests]
    return replace(window, requests=tuple(requests))


def without_last(window: Window) -> Window:
    return replace(window, requests=window.requests[:-1], requests_sent=window.requests_sent - 1)


def unanswered(window: Window) -> Window:
    """As if the window had closed before the last of the requests that it waits for."""
    closing = sorted(one.ended_s for one in window.measured)[-SPARE_ROUNDS * 8]
    return replace(window, window_s=closing - 1e-6)


@pytest.mark.parametrize(
    ("breaks", "found"),
    [
        (changed(0, completion_tokens=63), "short_output token_mismatch"),
        (changed(-1, completion_tokens=63), "token_mismatch"),
        (changed(0, prompt_tokens=1), "prompt_mismatch prompt_length"),
        (changed(3, status=500, completion_tokens=None), "request_failed token_mismatch"),
        (without_last, "token_mismatch"),
        (late, "not_steady"),
        (unanswered, "request_failed"),
        (lambda window: replace(window, idle=window.before), "engine_busy"),
    ],
)
def test_what_is_wrong_is_named(campaign: Path, breaks: Break, found: str) -> None:
    name = next(row["row_id"] for row in rows(campaign, "steady") if row["concurrency"] == "8")
    context, configuration, stage, window = evidence.load(campaign / "raw", name)
    row, _ = make_row(context, configuration, stage, breaks(window))
    assert set(found.split()) <= set(row.checks.split()), row.checks


# --- the load itself ---------------------------------------------------------------------------------------


def measured(server: Server, stage: Stage) -> Measured:
    async def run() -> Measured:
        async with _running(server) as engine:
            return await measure_stage(engine, stage, Limits(), SystemClock(), model="tiny", salt="s")

    return asyncio.run(run())


def test_every_lane_is_busy_at_both_edges_and_what_is_under_way_is_answered_outside() -> None:
    server = Server(answer_s=0.1, metrics_s=0.0)
    found = measured(server, replace(STAGE, concurrency=3, requests=6, window="steady"))
    assert server.most_in_flight == 3
    assert server.completions == found.requests_sent == len(found.requests)
    inside = [one for one in found.requests if one.index >= 0]
    assert sum(one.ended_s <= found.window_s for one in inside) >= 6
    for at in (0.01, found.window_s - 0.01):
        assert sum(one.sent_s < at < one.ended_s for one in found.requests) == 3
    assert min(one.sent_s for one in inside) >= 0 > min(one.sent_s for one in found.requests)
    assert found.idle == 'vllm:generation_tokens_total{engine="0"} 0\n'
    assert found.confirm == f'vllm:generation_tokens_total{{engine="0"}} {8 * server.completions}\n'


def test_the_first_requests_end_one_after_another() -> None:
    lengths = ramp_lengths(replace(STAGE, concurrency=4, output_tokens=256, window="steady"))
    assert lengths[:5] == [64, 128, 192, 256, 256]
    assert len(lengths) == 4 + SPARE_ROUNDS * 4
    assert min(ramp_lengths(replace(STAGE, concurrency=32, output_tokens=2, window="steady"))) == 1


def test_an_engine_that_refuses_everything_does_not_hang_the_window() -> None:
    class Refusing(Server):
        async def answer(self) -> bytes:
            await super().answer()
            return b"{}"

    found = measured(Refusing(answer_s=0.0, metrics_s=0.0), replace(STAGE, window="steady"))
    assert not any(one.done for one in found.requests)
