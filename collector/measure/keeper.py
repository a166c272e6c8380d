"""Keeps one engine process: a small program between collector and the engine it starts.

It ends the engine and every process that came from it when collector asks, or when collector is gone
(its end of standard input closes, also by SIGKILL): no orphan worker holds a GPU. The engine's output
passes through it into the log, line by line, with secrets removed before they reach the disk.

    python -m collector.measure.keeper LOG -- COMMAND…       (Linux)

Standard input: `stop SECONDS`, again for less patience. Standard output: {"pid": …}, {"exit": code} once the engine
ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from io import BufferedReader, FileIO
from pathlib import Path
from typing import cast

from collector.core.secrets import secret_values
from collector.measure.log_copy import copy_log

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
#: Time that workers get to end by themselves after their leader, and the engine when collector is gone.
GRACE_S = 3.0
POLL_S = 0.02
#: Time between two writes of the log to the disk: what a host that goes down takes with it, at most.
SYNC_S = 1.0
NOT_STARTED = 127
CHUNK = 65_536


def main(arguments: list[str]) -> int:
    log, command = arguments[0], arguments[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    # Orphans of the engine become children of this process, so that it can find and end them.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keeper = os.getpid()
    with Path(log).open("ab", buffering=0) as file:
        try:
            engine = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: _die_with(keeper, libc),  # noqa: PLW1509  # no other thread runs yet
            )
        except OSError as error:
            file.write(f"collector: cannot start {command[0]}: {error}\n".encode())
            _tell(exit=NOT_STARTED)
            return 0
        _tell(pid=engine.pid)
        copying = threading.Thread(target=_copy, args=(engine, _Log(file)), daemon=True)
        copying.start()
        threading.Thread(target=_obey, args=(engine,), daemon=True).start()
        # Told at once, so that a dead engine is noticed; this process ends when everything is gone.
        _tell(exit=engine.wait())
        _end_descendants(engine.pid)
        copying.join(GRACE_S)
    return 0


def _die_with(keeper: int, libc: ctypes.CDLL) -> None:
    """Have the kernel end the engine with its keeper; one that is gone by now would never be told of."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != keeper:
        os._exit(NOT_STARTED)


def _tell(**message: int) -> None:
    with contextlib.suppress(OSError):  # collector may be gone
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


class _Log:
    """Writes what a full disk takes, and forces it to the disk: it tells how far an engine took the host down."""

    def __init__(self, file: FileIO) -> None:
        self._file, self._synced = file, time.monotonic()

    def __call__(self, content: bytes) -> None:
        # An engine whose output nobody takes would stand still; collector finds the disk full by itself.
        with contextlib.suppress(OSError):
            self._file.write(content)
            if time.monotonic() - self._synced >= SYNC_S:
                os.fdatasync(self._file.fileno())
                self._synced = time.monotonic()


def _copy(engine: subprocess.Popen[bytes], write: Callable[[bytes], object]) -> None:
    """Copy the engine's output to the log without its secrets."""
    if engine.stdout is not None:
        out = cast("BufferedReader", engine.stdout)
        copy_log(iter(lambda: out.read1(CHUNK), b""), write, secret_values(os.environ))


def _obey(engine: subprocess.Popen[bytes]) -> None:
    """Wait for `stop SECONDS`, or for the end of input, which means that collector is gone."""
    patience = _patience()
    deadline = time.monotonic() + patience
    with contextlib.suppress(ProcessLookupError):
        os.kill(engine.pid, signal.SIGTERM)
    while time.monotonic() < deadline and engine.poll() is None:
        if select.select([sys.stdin], [], [], POLL_S)[0]:
            patience = _patience()  # asked again, or collector has gone meanwhile
            deadline = min(deadline, time.monotonic() + patience)
            time.sleep(POLL_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(engine.pid, signal.SIGKILL)


def _patience() -> float:
    """Wait for a word of collector and return the seconds it gives; unbuffered, so that no second word is missed."""
    words = os.read(sys.stdin.fileno(), CHUNK).split()
    return float(words[-1]) if words[:1] == [b"stop"] else GRACE_S


def _children() -> list[int]:
    """Return the children of this process, those that an ended engine left behind included."""
    me, found = str(os.getpid()), []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                # pid (command, which may hold spaces and brackets) state parent …
                parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
                found += [int(folder.name)] if parent == me else []
    return found


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _end_descendants(group: int) -> None:
    """Let what the engine left behind end by itself for a moment, then kill it, then see that it is gone."""
    deadline = time.monotonic() + GRACE_S
    while True:
        _reap()
        left = _children()
        if not left:
            return
        if time.monotonic() >= deadline:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
