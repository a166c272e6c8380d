"""Where and when a sweep runs: on this host in real time, or on the emulated one in virtual time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.core.configuration import Plan
from collector.core.errors import UserError
from collector.measure import virtual
from collector.measure.clock import Clock, SystemClock
from collector.measure.engines import emulated
from collector.measure.host import Host, read_boot_id, read_host

#: The device that every NVIDIA driver makes; enough to say that a GPU is here.
GPU_DEVICE = Path("/dev/nvidia0")


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Time, host and chance of a sweep. `salt` makes its prompts unlike those of any other."""

    clock: Clock
    host: Host
    boot_id: str
    salt: str
    run: Callable[[Coroutine[Any, Any, Plan]], Plan]


def setting_of(kind_name: str, plan: Plan) -> Setting:
    if kind_name != "emulated":
        return Setting(
            clock=SystemClock(), host=read_host(), boot_id=read_boot_id(), salt=secrets.token_hex(8), run=asyncio.run
        )
    return Setting(
        clock=virtual.VirtualClock(),
        host=emulated.host_of(plan),
        boot_id="emulated",
        salt="emulated",  # the same plan gives the same rows; repeats differ by their row ids
        run=virtual.run,
    )


def chosen_kind(wanted: str) -> tuple[str, str | None]:
    """Return the engine kind and, where `auto` chose it, the sentence that says so loudly."""
    if wanted != "auto":
        return wanted, None
    if GPU_DEVICE.exists():
        raise UserError(
            "engine kind auto: a GPU is here, but this version starts no containers; "
            "choose --engine process to measure it, or --engine emulated to emulate the plan's hardware"
        )
    return "emulated", "NO GPU HERE: the embedded engine EMULATES the plan's hardware. Its rows are not measurements."
