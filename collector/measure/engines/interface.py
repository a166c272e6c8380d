"""What the sweep knows of an engine: how to start one, where it answers, when it ended, how to end it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from collector.core.configuration import Configuration, Plan, Run
from collector.core.plan_schema import Engine
from collector.core.window import Telemetry
from collector.measure.target import Target


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """All that a start needs. `variables`: what ${NAME} in the plan stands for on this host.

    `log` lies in the folder `logs` of the campaign.
    """

    configuration: Configuration
    repeat: int
    attempt: int
    engine: Engine
    log: Path
    variables: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """How an engine ended; every field None while it still runs or nothing is known of it."""

    exit_code: int | None = None
    exit_signal: int | None = None
    oom_killed: bool | None = None


class Running(Protocol):
    """A started engine."""

    target: Target
    #: False for an engine that somebody else runs: it is neither awaited nor stopped.
    owned: bool

    #: Digest of the image that it runs in; None where it runs in none.
    image_digest: str | None

    async def ended(self) -> End:
        """Wait until the engine has ended by itself. Raises MeasurementError where that cannot be seen any more."""

    async def stop(self, patience_s: float) -> End:
        """End the engine and all that came from it; kill what has not ended after `patience_s`."""

    def owns(self, pid: int) -> bool | None:
        """Return whether a process of this host belongs to the engine; None where that cannot be told."""

    def telemetry(self) -> Telemetry:
        """Return what an engine without hardware counts in its place; a window takes the difference."""

    def log_size(self) -> int:
        """Return how many bytes the engine has logged."""

    def log_text(self) -> str:
        """Return the engine's log, secrets removed."""


class Kind(Protocol):
    """An engine module."""

    def preflight(self, plan: Plan, variables: Mapping[str, str]) -> None:
        """Look at what can be known before the first start. Raises UserError with the fix."""

    async def prepare(
        self,
        campaign: Path,
        plan: Plan,
        runs: Sequence[Run],
        variables: Mapping[str, str],
        tell: Callable[[str], None],
        /,
    ) -> None:
        """Clear away what a killed sweep of this campaign left, and fetch what the runs need, before the first start.

        What cannot be fetched is told, and fails at the start of its configuration.
        """

    async def start(self, launch: Launch) -> Running:
        """Start an engine. Raises MeasurementError where not even that was possible, NoMoreEnginesError where it never
        will be."""
