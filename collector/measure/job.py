"""What a sweep works with, and one engine start of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collector.core.configuration import Plan, Run, Stage, row_id
from collector.core.engine_log import is_emulated
from collector.measure.bay import Bay
from collector.measure.clock import Clock
from collector.measure.engines.interface import Kind
from collector.measure.files import start_log
from collector.measure.host import Host
from collector.measure.journal import Journal
from collector.measure.ready import Ready
from collector.measure.sensor import Sensor
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
    bay: Bay | None = None  # the host's GPUs; None where there are none, or none that the engines use
    signals: Signals = field(default_factory=Signals)
    #: Configuration and repeat of what failed in this call: another round of it does not try them again.
    failed: set[tuple[str, int]] = field(default_factory=set)

    def provenance(self, ready: Ready | None, log: str) -> str:
        """Return what a row is. The embedded engine may also be reached over a port: then it says so itself.

        A start that failed before it could say anything is what the rows of its campaign are.
        """
        said = self.kind_name == "emulated" or (ready is not None and ready.emulated) or is_emulated(log)
        unsaid = ready is None and any(row.provenance == "emulated" for row in self.store.rows)
        return "emulated" if said or unsaid else "measured"

    @property
    def replays(self) -> bool:
        """Whether an engine that is started again does the very same again."""
        return self.kind_name == "emulated"

    def log(self, run: Run, number: int) -> Path:
        """Return where the log of an engine start is kept."""
        return self.store.logs / start_log(run.configuration.configuration_id, run.repeat, number)

    def moment(self) -> dict[str, float]:
        """Return what the journal says of the time: where virtual time goes on; real time needs no telling."""
        return {"clock_s": self.clock.monotonic()} if self.replays else {}


@dataclass(kw_only=True, slots=True)
class Attempt:
    """One engine start and how far it came: needed to say what failed."""

    run: Run
    number: int
    log: Path
    began: float
    ready: Ready | None = None
    stage: Stage | None = None
    died: bool = False
    sensor: Sensor | None = None

    @property
    def identity(self) -> dict[str, Any]:
        return {"configuration_id": self.run.configuration.configuration_id, "repeat": self.run.repeat}

    def row_id(self) -> str | None:
        """Return the cell under way, or None while the engine starts."""
        return row_id(self.run.configuration, self.stage, self.run.repeat) if self.stage else None
