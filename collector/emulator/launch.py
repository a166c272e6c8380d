"""The start of an engine: the same steps as vLLM's, in its order, each with its lines and its refusals."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from collector.emulator.blocks import KvCache
from collector.emulator.cache_info import cache_info
from collector.emulator.faults import Faults
from collector.emulator.memory import (
    GIB,
    KvPlan,
    RefusedStartError,
    check_budget,
    check_free,
    check_kv_dtype,
    check_weights,
    kv_plan,
    model_len,
)
from collector.emulator.metrics import Metrics
from collector.emulator.profile import Phase, Profile
from collector.emulator.scheduler import Scheduler
from collector.emulator.setup import Setup
from collector.emulator.start_log import StartLog

#: How often a loading engine says how far it is.
PROGRESS_S = 5.0
#: Profiling, graph capture and warm-up after the weights are there.
WARM_UP_S = 20.0


class Clock(Protocol):
    def monotonic(self) -> float:
        """Return seconds that never go back."""

    async def sleep(self, seconds: float) -> None:
        """Wait, letting others work."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What a started engine consists of."""

    kv: KvPlan
    scheduler: Scheduler
    metrics: Metrics


async def launch(
    profile: Profile, setup: Setup, faults: Faults, clock: Clock, told: StartLog, unix: Callable[[], float]
) -> Parts:
    """Start. Raises RefusedStartError where the real engine would not start either."""
    check_kv_dtype(setup)
    told.asked()
    told.resolved(model_len(profile.model(setup.model), setup))
    check_budget(profile, setup)
    check_free(profile, setup, round(faults.gpu_held_gib * GIB))
    _play(profile, setup, "config")
    told.loading()
    check_weights(profile, setup)
    seconds = profile.model(setup.model).load_s + faults.slow_start_s
    await _load(seconds, faults, clock, told)
    _play(profile, setup, "weights")
    told.loaded(seconds)
    _play(profile, setup, "profile")
    plan = kv_plan(profile, setup)
    told.measured(plan)
    _play(profile, setup, "graph_capture")
    await clock.sleep(WARM_UP_S)
    told.captured(WARM_UP_S)
    parts = _build(profile, setup, faults, plan, unix())
    told.serving()
    return parts


def _play(profile: Profile, setup: Setup, reached: Phase) -> None:
    """Fail as the profile's script says, where it says so for this configuration and phase."""
    outcome = profile.outcome(setup)
    if outcome is not None and outcome.log is not None and outcome.phase == reached:
        raise RefusedStartError("outcome", outcome.log, outcome.exit_code)


async def _load(seconds: float, faults: Faults, clock: Clock, told: StartLog) -> None:
    """Load for as long as it takes, telling how far it is."""
    if faults.hang_in_load:
        await asyncio.Event().wait()
    parts = max(1, math.ceil(seconds / PROGRESS_S))
    for part in range(parts):
        told.progress(part / parts)
        await clock.sleep(seconds / parts)
    told.progress(1.0)
    if faults.refuse is not None:
        raise RefusedStartError("outcome", faults.refuse, faults.refuse_exit_code)


def _build(profile: Profile, setup: Setup, faults: Faults, plan: KvPlan, unix: float) -> Parts:
    model = profile.model(setup.model)
    kv = KvCache(
        plan.blocks,
        plan.block_size,
        windows=plan.windows,
        max_model_len=plan.max_model_len,
        in_flight=plan.in_flight,
        caching=setup.enable_prefix_caching,
        recompute_last=setup.drafts_with_kv,
    )
    scheduler = Scheduler(
        setup,
        kv,
        budget=setup.budget(profile.max_num_batched_tokens),
        max_model_len=plan.max_model_len,
        window=model.sliding_window if model.sliding_layers else None,
    )
    metrics = Metrics(
        model_name=setup.model,
        max_model_len=plan.max_model_len,
        positions=setup.num_speculative_tokens if setup.speculates else 0,
        cache_info=cache_info(profile, setup, plan),
        unix=unix,
        dropped=faults.drop_series,
    )
    return Parts(kv=plan, scheduler=scheduler, metrics=metrics)
