"""Whose a process is, by the parents or the control group that the kernel names."""

from __future__ import annotations

from pathlib import Path


def descends(pid: int, ancestor: int) -> bool | None:
    """Return whether a process is `ancestor` or comes from it; None where there is no such process."""
    if not Path(f"/proc/{pid}").exists():
        return None
    while pid > 1:
        if pid == ancestor:
            return True
        pid = _parent(pid)
    return pid == ancestor


def in_container(pid: int, container: str) -> bool | None:
    """Return whether a process of this host runs in a container; None where there is no such process.

    The runtimes name the control group of a container by its id.
    """
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
    except OSError:
        return None
    return container in groups


def _parent(pid: int) -> int:
    """Return the parent of a process, 0 where it has none or has ended."""
    try:
        # pid (command) state parent …: a command may hold blanks and parentheses.
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
