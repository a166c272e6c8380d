"""An engine that somebody else runs: nothing is started or stopped, its own statements are recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from collector.core.configuration import Plan
from collector.core.errors import UserError
from collector.core.window import Telemetry
from collector.measure.engines.interface import End, Launch
from collector.measure.target import Target


def preflight(plan: Plan, variables: Mapping[str, str]) -> None:
    """A running engine has one configuration: a plan with several would label rows falsely."""
    if not plan.engine.url:
        raise UserError("engine.url: is missing; name the engine's address, such as http://127.0.0.1:8000")
    if len(plan.configurations) > 1:
        raise UserError(
            f"the plan has {len(plan.configurations)} configurations, but the engine at {plan.engine.url} is one: "
            "give a plan with the one configuration that it runs"
        )
    key = plan.engine.api_key_variable
    if key and key not in variables:
        raise UserError(f"engine.api_key_variable: {key} is not set; export it before the sweep")


async def prepare(*_: object) -> None:
    """Do nothing: nothing is started."""


async def start(launch: Launch) -> UrlEngine:
    key = launch.engine.api_key_variable
    headers = {"authorization": f"Bearer {launch.variables[key]}"} if key and key in launch.variables else {}
    return UrlEngine(Target(base_url=(launch.engine.url or "").rstrip("/"), headers=headers))


class UrlEngine:
    owned = False
    image_digest: str | None = None

    def __init__(self, target: Target) -> None:
        self.target = target

    async def ended(self) -> End:
        await asyncio.Event().wait()  # its end shows in failing requests
        return End()

    async def stop(self, patience_s: float) -> End:  # not ours to stop
        return End()

    def owns(self, pid: int) -> bool | None:  # it may run anywhere
        return None

    def telemetry(self) -> Telemetry:
        return Telemetry()

    def log_size(self) -> int:
        return 0

    def log_text(self) -> str:
        return ""
