"""The engine's log on stdout and stderr: every line says which process wrote it."""

from __future__ import annotations

import os
import time

API, CORE = "APIServer", "EngineCore"
PIDS: dict[str, int] = {}  # of the processes in whose name the API server logs


def raw(process: str, text: str, fd: int = 1) -> None:
    head = f"({process} pid={PIDS.get(process, os.getpid())}) "
    os.write(fd, "".join(f"{head}{line}\n" for line in text.split("\n")).encode())


def log(process: str, where: str, text: str, level: str = "INFO") -> None:
    head = f"{level} {time.strftime('%m-%d %H:%M:%S')} [{where}] "
    raw(process, "\n".join(head + line for line in text.split("\n")))


def traceback(frame: str, error: str) -> str:
    """Return a traceback of one frame, which is file:line:function:code."""
    file, line, function, code = frame.split(":", 3)
    place = f'  File "/opt/vllm/lib/python3.11/site-packages/vllm/{file}", line {line}, in {function}'
    return f"Traceback (most recent call last):\n{place}\n    {code}\n{error}"
