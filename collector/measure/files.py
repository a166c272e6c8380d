"""Writes that a crash cannot tear: whole files by rename, lines by one write, both forced to the disk."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file as a whole."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    sync_folder(path.parent)


def append_durably(path: Path, text: str, *, create: bool = False) -> None:
    """Append complete lines in one write and force them to the disk. A file that somebody removed is an OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT if create else 0), 0o644)
    try:
        data = text.encode()
        if os.write(descriptor, data) != len(data):
            raise OSError(f"{path}: the disk took only a part of the line")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Force a folder's entries (new and renamed files) to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def without_torn_tail(text: str) -> str:
    """Return the text up to its last complete line."""
    return text[: text.rfind("\n") + 1]


def start_log(configuration_id: str, repeat: int | str, attempt: int | str) -> str:
    """Return the name of the log of one engine start."""
    return f"{configuration_id}-r{repeat}-a{attempt}.log"
