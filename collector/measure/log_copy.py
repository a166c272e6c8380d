"""Copies what an engine prints into its log, line by line, without its secrets. Light: the keeper loads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from collector.core.secrets import redact


def copy_log(chunks: Iterable[bytes], write: Callable[[bytes], object], secrets: Sequence[str]) -> None:
    """Write what comes, whole lines at a time, so that no secret is cut in two."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        # A progress bar ends its lines with a carriage return.
        end = max(rest.rfind(b"\n"), rest.rfind(b"\r")) + 1
        if end:
            write(redact(rest[:end].decode("utf-8", "replace"), secrets).encode())
            rest = rest[end:]
    if rest:
        write(redact(rest.decode("utf-8", "replace"), secrets).encode())


def size_of(log: Path) -> int:
    """Return the bytes of a log. One that somebody removed must not keep its engine from being ended."""
    return log.stat().st_size if log.exists() else 0


def text_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
