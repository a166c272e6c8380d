"""What the running system says of itself: limits, free space, load, and whether its clock is set by another."""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path

from collector.core.doctor.facts import UNLIMITED, Disk

GIB = 2**30
#: What adjtimex(2) returns while nobody disciplines the clock.
TIME_ERROR = 5
#: Longer than struct timex on any Linux; the call fills it and changes nothing while `modes` is 0.
TIMEX_BYTES = 512


def open_files() -> float:
    """Return the hard limit of open files."""
    return _limit(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def locked_gib() -> float:
    """Return the soft limit of locked memory in GiB."""
    return _limit(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]) / GIB


def _limit(value: int) -> float:
    return UNLIMITED if value == resource.RLIM_INFINITY else float(value)


def clock_synchronised() -> bool | None:
    """Return whether the kernel takes its clock to be synchronised, by whichever daemon; None if it does not say."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != TIME_ERROR


def total_gib(folder: Path) -> float | None:
    """Return the size of the file system under a folder."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize / GIB


def disk(holds: str, folder: Path) -> Disk | None:
    """Return the space that a user has where a folder is, or will be made."""
    for one in (folder, *folder.absolute().parents):
        try:
            found, device = os.statvfs(one), one.stat().st_dev
        except OSError:
            continue
        return Disk(holds=holds, free_gib=found.f_bavail * found.f_frsize / GIB, device=device)
    return None
