"""What was attempted and finished, one JSON line each, on the disk before the work begins.

After a crash the journal says what was under way; rows.csv and failures.csv say what is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collector.core.errors import DataError
from collector.measure.clock import Clock, stamp
from collector.measure.files import append_durably, without_torn_tail, write_atomically

START_ATTEMPTED = "start_attempted"
START_FINISHED = "start_finished"
STAGE_ATTEMPTED = "stage_attempted"
STAGE_FINISHED = "stage_finished"
STAGE_REFUSED = "stage_refused"
STAGES_ADDED = "stages_added"
FAILED = "failed"
ENGINE_ENDED = "engine_ended"
HOST_WENT_DOWN = "host_went_down"
INTERRUPTED = "interrupted"
ROWS_REPLACED = "rows_replaced"
SWEEP_STARTED = "sweep_started"
SWEEP_FINISHED = "sweep_finished"

#: How an attempt comes to its end. One that was interrupted has none: it is made again under its number.
ENDS = (FAILED, ENGINE_ENDED, HOST_WENT_DOWN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """An engine start as the journal tells it."""

    configuration_id: str
    repeat: int
    number: int
    boot_id: str
    clock_s: float | None  # of an emulated sweep: virtual time at its end, or at its begin where it has none
    ready: bool = False
    row_id: str | None = None  # the cell under way
    end: str = ""  # an event of ENDS
    #: Collector ended before it did, for a reason of its own: by a signal, an error, or while the host went on.
    cut: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    path: Path
    clock: Clock
    boot_id: str

    def note(self, event: str, **facts: Any) -> None:
        """Append an event and force it to the disk."""
        line = {"at": stamp(self.clock.utc_now()), "boot_id": self.boot_id, "event": event} | facts
        append_durably(self.path, json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n", create=True)

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the events in order. Raises DataError naming the line."""
        content = self.path.read_bytes() if self.path.exists() else b""
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                event = json.loads(line)
                known = isinstance(event["event"], str) and isinstance(event["boot_id"], str)
            except (ValueError, KeyError, TypeError):  # of which UnicodeDecodeError is the first
                known = False
            if not known:
                raise DataError(
                    f"{self.path}, line {number}: not an event of a sweep; remove the line "
                    "(what is measured is in rows.csv, the journal tells what was attempted)"
                )
            yield event

    def attempts(self) -> list[Attempt]:
        """Return all engine starts in order, each as far as it came. Raises DataError."""
        found: list[Attempt] = []
        for event in self.events():
            if event["event"] == START_ATTEMPTED:
                found.append(_attempt(event, self.path))
            elif found:
                found[-1] = _further(found[-1], event)
        return found

    def clock_s(self) -> float:
        """Return the virtual time at which an emulated sweep goes on."""
        last = next(iter(self.attempts()[-1:]), None)
        return (last.clock_s if last else None) or 0.0


def open_journal(path: Path, clock: Clock, boot_id: str) -> Journal:
    """Open a campaign's journal; a last line that a crash cut short is dropped. Raises DataError naming a line."""
    if path.exists():
        content = path.read_bytes()
        whole = without_torn_tail(content)
        if whole != content:
            write_atomically(path, whole)
    journal = Journal(path=path, clock=clock, boot_id=boot_id)
    journal.attempts()  # before anything is measured
    return journal


def _attempt(event: dict[str, Any], path: Path) -> Attempt:
    try:
        return Attempt(
            configuration_id=str(event["configuration_id"]),
            repeat=int(event["repeat"]),
            number=int(event["attempt"]),
            boot_id=event["boot_id"],
            clock_s=None if event.get("clock_s") is None else float(event["clock_s"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: a {START_ATTEMPTED} without {error}; remove its line") from error


def _further(attempt: Attempt, event: dict[str, Any]) -> Attempt:
    """Return the attempt after one more event."""
    kind = event["event"]
    if kind in ENDS:
        return replace(attempt, end=kind, clock_s=event.get("clock_s", attempt.clock_s))
    if kind == INTERRUPTED or (kind == SWEEP_STARTED and event["boot_id"] == attempt.boot_id):
        return replace(attempt, cut=True)
    if kind == STAGE_ATTEMPTED:
        return replace(attempt, row_id=event.get("row_id"))
    if kind in (START_FINISHED, STAGE_FINISHED, STAGE_REFUSED):
        return replace(attempt, ready=True, row_id=None)
    return attempt
