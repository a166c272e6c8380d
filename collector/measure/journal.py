"""What was attempted and finished, one JSON line each, on the disk before the work begins.

After a crash the journal says what was under way; rows.csv and failures.csv say what is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.measure.clock import Clock, stamp
from collector.measure.files import append_durably, without_torn_tail, write_atomically

START_ATTEMPTED = "start_attempted"
START_FINISHED = "start_finished"
STAGE_ATTEMPTED = "stage_attempted"
STAGE_FINISHED = "stage_finished"
STAGES_ADDED = "stages_added"
FAILED = "failed"
ENGINE_ENDED = "engine_ended"
INTERRUPTED = "interrupted"
SWEEP_STARTED = "sweep_started"
SWEEP_FINISHED = "sweep_finished"


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
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                yield json.loads(line)

    def mend(self) -> None:
        """Drop a line that a crash cut short."""
        if self.path.exists():
            text = self.path.read_text(encoding="utf-8", errors="replace")
            whole = without_torn_tail(text)
            if whole != text:
                write_atomically(self.path, whole.encode())

    def attempts(self, configuration_id: str, repeat: int) -> int:
        """Return how often this engine start was attempted so far."""
        return sum(
            event["event"] == START_ATTEMPTED
            and event["configuration_id"] == configuration_id
            and event["repeat"] == repeat
            for event in self.events()
        )
