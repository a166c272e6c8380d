"""Writes that a crash cannot tear: whole files by rename, lines by one write, both forced to the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file as a whole; where that fails, the old one stays and nothing lies beside it."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def append_durably(path: Path, text: str, *, create: bool = False) -> None:
    """Append complete lines and force them to the disk, or leave the file as it was. Raises OSError, also where
    somebody removed the file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT if create else 0), 0o644)
    try:
        before = os.fstat(descriptor).st_size
        try:
            _write_whole(descriptor, text.encode())
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)  # needs no room
            raise
    finally:
        os.close(descriptor)


def _write_whole(descriptor: int, data: bytes) -> None:
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # the disk took a part


def sync_folder(folder: Path) -> None:
    """Force a folder's entries (new and renamed files) to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def without_torn_tail(content: bytes) -> bytes:
    """Return the lines up to the last complete one."""
    return content[: content.rfind(b"\n") + 1]


def start_log(configuration_id: str, repeat: int | str, attempt: int | str) -> str:
    """Return the name of the log of one engine start."""
    return f"{configuration_id}-r{repeat}-a{attempt}.log"
