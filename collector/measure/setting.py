"""Where and when a sweep runs: on this host in real time, or on the emulated one in virtual time."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.core.command import expander
from collector.core.configuration import Plan
from collector.core.errors import UserError
from collector.measure import virtual
from collector.measure.clock import Clock, SystemClock
from collector.measure.failed import MeasurementError
from collector.measure.host import Host, read_boot_id, read_host

#: What a loaded NVIDIA driver shows, on WSL the last: enough to say that a GPU is here.
GPU_TRACES = (Path("/proc/driver/nvidia/gpus"), Path("/dev/nvidia0"), Path("/dev/dxg"))
_EMULATES = "the embedded engine EMULATES the plan's hardware. Its rows are not measurements."


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Time, host and chance of a sweep. `salt` makes its prompts unlike those of any other.

    `run` takes the work and the virtual time (s) at which it goes on; real time asks nobody.
    """

    clock: Clock
    host: Host
    boot_id: str
    salt: str
    run: Callable[[Coroutine[Any, Any, Plan], float], Plan]


def setting_of(kind_name: str, plan: Plan) -> Setting:
    if kind_name != "emulated":
        return Setting(
            clock=SystemClock(),
            host=read_host(),
            boot_id=read_boot_id(),
            salt=secrets.token_hex(8),
            run=lambda work, _: asyncio.run(work),
        )
    from collector.measure.engines import emulated  # all of the embedded engine, for its own sweeps

    return Setting(
        clock=virtual.VirtualClock(),
        host=emulated.host_of(plan),
        boot_id="emulated",
        salt="emulated",  # the same plan gives the same rows; repeats differ by their row ids
        run=virtual.run,
    )


def chosen_kind(wanted: str, plan: Plan, variables: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the engine kind and, where `auto` chose it, the sentence that says so loudly."""
    if wanted != "auto":
        return wanted, None
    if not any(one.exists() for one in GPU_TRACES):
        return "emulated", f"NO GPU HERE: {_EMULATES}"
    no_container = _why_no_container(plan, variables)
    if no_container is None:
        return "docker", "auto: a GPU and a Docker daemon are here; each configuration runs in a container"
    program = expander(variables, "engine.command")(plan.engine.command[0])
    if shutil.which(program, path=variables.get("PATH")):
        return (
            "process",
            f"auto: a GPU and {program} are here, and no container ({no_container}): runs {program} itself",
        )
    return (
        "emulated",
        f"A GPU IS HERE, BUT NOTHING TO MEASURE IT WITH: {no_container}; no program {program!r}. {_EMULATES}",
    )


def _why_no_container(plan: Plan, variables: Mapping[str, str]) -> str | None:
    """Return why no configuration can run in a container here, None where each can."""
    if not all(one.image for one in plan.configurations):
        return "the plan names no engine.image"
    from collector.measure.engines import daemon  # the Docker API

    try:
        daemon.connect(variables).close()
    except (MeasurementError, UserError) as error:
        return str(error)
    return None
