"""Time as a parameter: the sweep and the load never ask the system themselves.

An embedded engine hands in a virtual clock; everything else uses SystemClock.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def utc_now(self) -> datetime:
        """Return the wall-clock time in UTC."""

    def cpu(self) -> float | None:
        """Return CPU seconds of this process, or None where they mean nothing."""

    async def sleep(self, seconds: float) -> None:
        """Wait, letting others work."""


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def utc_now(self) -> datetime:
        return datetime.now(UTC)

    def cpu(self) -> float | None:
        return time.process_time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def stamp(moment: datetime) -> str:
    """Return a time as rows write it: UTC, whole seconds, ISO 8601."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
