"""The one exception for "this configuration could not be measured", with its verdict."""

from __future__ import annotations

from collector.core.errors import EngineError


class MeasurementError(EngineError):
    """Becomes a line of failures.csv; the sweep goes on. `category` None: ask the log."""

    def __init__(self, *, category: str | None, phase: str, cause: str, retryable: bool = False) -> None:
        super().__init__(cause)
        self.category = category
        self.phase = phase
        self.cause = cause
        self.retryable = retryable


class CellRefusedError(MeasurementError):
    """One cell cannot be measured as the plan has it; the engine goes on with the others."""


class NoMoreEnginesError(EngineError):
    """No engine can be started on this host any more: the sweep ends, what it has measured stays."""
