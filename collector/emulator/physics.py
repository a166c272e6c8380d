"""What a step of a configuration costs on the profile's hardware: seconds, and bytes on the link."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from collector.core.footprint import nvlink_bytes
from collector.core.hardware import configured, drafter_dimensions, model_dimensions
from collector.core.step import StepLoad, StepTime
from collector.emulator.profile import Profile
from collector.emulator.setup import Setup

#: Loads that are remembered: apart from the KV that they read, the steps of an engine are of few kinds.
_REMEMBERED = 4096


def step_time(profile: Profile, setup: Setup) -> StepTime:
    """Return the seconds of a step."""
    model = configured(
        profile.hardware,
        profile.model(setup.model).dimensions,
        kv_dtype=setup.kv_cache_dtype,
        method=setup.speculation,
        nvlink=setup.nvlink,
        tensor_parallel=setup.tensor_parallel,
        scheduled=bool(setup.schedule),
    )
    rest = _without_reads(model.seconds)
    return lambda load: rest(load) + model.read_seconds(load)


def link_bytes(profile: Profile, setup: Setup) -> Callable[[StepLoad], float] | None:
    """Return the NVLink bytes of a step, sent plus received over all cards; None on a single card."""
    if setup.tensor_parallel == 1:
        return None
    if setup.nvlink == "off":
        return lambda _: 0.0
    dimensions = profile.model(setup.model).dimensions
    target, drafter = model_dimensions(dimensions), drafter_dimensions(dimensions, setup.speculation)
    return _without_reads(lambda load: nvlink_bytes(target, drafter, load))


def _without_reads(cost: Callable[[StepLoad], float]) -> Callable[[StepLoad], float]:
    """Return a step's cost as if it read no KV, remembered by what else there is in the step."""

    @lru_cache(_REMEMBERED)
    def remembered(
        prefill: int, decode: int, requests: int, decoding: int, k: int, drafting: int, sampled: int
    ) -> float:
        return cost(StepLoad(prefill, decode, requests, decoding, 0, 0, k, drafting, sampled))

    return lambda load: remembered(*load[:4], *load[6:])
