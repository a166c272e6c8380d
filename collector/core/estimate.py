"""A rough estimate of how long a plan takes, from assumptions that are printed with it."""

from __future__ import annotations

from math import ceil

from collector.core.configuration import Plan, Run, Stage

#: A 27 to 33B model: weights from a disk, profiling, CUDA graphs.
START_S = 240.0
#: One decode step of such a model on two RTX 3090s: about 20 ms alone, more with every request beside it.
STEP_S = 0.020
STEP_PER_REQUEST_S = 0.0015
#: Prefill of one prompt token there, about 1,300 tokens a second.
PREFILL_S = 1 / 1300
#: Prompt length assumed where the prompt set fixes its own.
TYPICAL_PROMPT_TOKENS = 150

ASSUMPTIONS = (
    f"estimate for 27 to 33B on two RTX 3090s: {START_S:.0f} s a start, "
    f"{STEP_S * 1000:.0f} ms a step and {STEP_PER_REQUEST_S * 1000:.1f} ms more per request in it"
)


def stage_seconds(stage: Stage) -> float:
    """Return seconds of a stage with its warm-up."""
    step = STEP_S + STEP_PER_REQUEST_S * stage.concurrency
    prefill = PREFILL_S * (stage.prompt_tokens or TYPICAL_PROMPT_TOKENS)
    rounds = ceil(stage.requests / stage.concurrency)
    measured = rounds * stage.output_tokens * step + stage.requests * prefill
    warm_up = stage.warmup_output_tokens * step * (stage.warmup_requests / stage.concurrency)
    return measured + warm_up + stage.warmup_requests * prefill


def run_seconds(run: Run) -> float:
    return START_S + sum(map(stage_seconds, run.stages))


def plan_seconds(plan: Plan) -> float:
    return sum(map(run_seconds, plan.runs))
