"""What a step of a configuration costs on the profile's hardware: seconds, and bytes on the link."""

from __future__ import annotations

from collections.abc import Callable

from collector.core.footprint import nvlink_bytes
from collector.core.hardware import configured, drafter_dimensions, model_dimensions
from collector.core.step import StepLoad, StepTime
from collector.emulator.profile import Profile
from collector.emulator.setup import Setup


def step_time(profile: Profile, setup: Setup) -> StepTime:
    """Return the seconds of a step."""
    return configured(
        profile.hardware,
        profile.model(setup.model).dimensions,
        kv_dtype=setup.kv_cache_dtype,
        method=setup.speculation,
        nvlink=setup.nvlink,
        tensor_parallel=setup.tensor_parallel,
    ).seconds


def link_bytes(profile: Profile, setup: Setup) -> Callable[[StepLoad], float] | None:
    """Return the NVLink bytes of a step, sent plus received over all cards; None on a single card."""
    if setup.tensor_parallel == 1:
        return None
    if setup.nvlink == "off":
        return lambda _: 0.0
    dimensions = profile.model(setup.model).dimensions
    target, drafter = model_dimensions(dimensions), drafter_dimensions(dimensions, setup.speculation)
    return lambda load: nvlink_bytes(target, drafter, load)
