"""What a sweep works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from collector.core.configuration import Plan, Run
from collector.measure.clock import Clock
from collector.measure.engines.interface import Kind
from collector.measure.host import Host
from collector.measure.journal import Journal
from collector.measure.store import Store


@dataclass(slots=True)
class Signals:
    """How often somebody asked for the end: once lets an engine end by itself, twice does not."""

    count: int = 0

    @property
    def at_once(self) -> bool:
        return self.count > 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Everything a sweep works with; time, engine and chance are handed in."""

    plan: Plan
    store: Store
    journal: Journal
    clock: Clock
    host: Host
    kind_name: str
    kind: Kind
    variables: Mapping[str, str]
    secrets: tuple[str, ...]  # never stored or shown
    salt: str  # makes prompts unlike those of any other sweep
    tell: Callable[[str], None]
    retry_failed: bool = False
    signals: Signals = field(default_factory=Signals)

    @property
    def provenance(self) -> str:
        return "emulated" if self.kind_name == "emulated" else "measured"

    @property
    def replays(self) -> bool:
        """Whether an engine that is started again does the very same again."""
        return self.kind_name == "emulated"

    def log(self, run: Run, number: int) -> Path:
        """Return where the log of an engine start is kept."""
        return self.store.logs / f"{run.configuration.configuration_id}-r{run.repeat}-a{number}.log"

    def moment(self) -> dict[str, float]:
        """Return what the journal says of the time: where virtual time goes on; real time needs no telling."""
        return {"clock_s": self.clock.monotonic()} if self.replays else {}
