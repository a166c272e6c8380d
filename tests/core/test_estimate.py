"""The estimate: rough, but of the right shape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.core.configuration import Stage
from collector.core.estimate import (
    ASSUMPTIONS,
    PREFILL_S,
    START_S,
    STEP_PER_REQUEST_S,
    STEP_S,
    TYPICAL_PROMPT_TOKENS,
    plan_seconds,
    run_seconds,
    stage_seconds,
)
from collector.core.plan import parse_plan
from tests.data_files import DATA

STAGE = Stage(
    concurrency=8,
    requests=32,
    prompt_set="synthetic",
    prompt_tokens=700,
    output_tokens=256,
    warmup_requests=8,
    warmup_output_tokens=32,
)


def test_a_stage_takes_its_rounds_of_steps_and_its_prefills() -> None:
    """Four rounds of 256 steps and one of 32, and the prompts of 40 requests."""
    steps = (4 * 256 + 32) * (STEP_S + 8 * STEP_PER_REQUEST_S)
    assert stage_seconds(STAGE) == pytest.approx(steps + 40 * 700 * PREFILL_S)


def test_a_last_round_that_is_not_full_is_a_round() -> None:
    assert stage_seconds(replace(STAGE, requests=33)) > stage_seconds(STAGE) + 256 * STEP_S


def test_without_warm_up_only_the_requests_count() -> None:
    cold = replace(STAGE, warmup_requests=0)
    assert stage_seconds(cold) == pytest.approx(4 * 256 * (STEP_S + 8 * STEP_PER_REQUEST_S) + 32 * 700 * PREFILL_S)


def test_a_prompt_set_of_its_own_lengths_counts_as_typical() -> None:
    assert stage_seconds(replace(STAGE, prompt_tokens=None)) == stage_seconds(
        replace(STAGE, prompt_tokens=TYPICAL_PROMPT_TOKENS)
    )


@pytest.mark.parametrize(
    "more", [{"requests": 64}, {"output_tokens": 512}, {"prompt_tokens": 7000}, {"warmup_requests": 16}]
)
def test_more_work_takes_longer(more: dict[str, int]) -> None:
    assert stage_seconds(replace(STAGE, **more)) > stage_seconds(STAGE)  # type: ignore[arg-type]


def test_a_plan_takes_its_starts_and_stages() -> None:
    plan = parse_plan((DATA / "plans" / "reference.yaml").read_text(encoding="utf-8"), "reference.yaml")
    stages = [stage for run in plan.runs for stage in run.stages]
    assert plan_seconds(plan) == pytest.approx(25 * START_S + sum(map(stage_seconds, stages)))
    assert run_seconds(plan.runs[0]) == START_S + sum(map(stage_seconds, plan.runs[0].stages))
    assert 2 < plan_seconds(plan) / 3600 < 12


def test_the_assumptions_are_told_with_their_figures() -> None:
    assert ASSUMPTIONS == (
        "estimate for 27 to 33B on two RTX 3090s: 240 s a start, 20 ms a step and 1.5 ms more per request in it"
    )
