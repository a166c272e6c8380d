"""The engine's log: lines as vLLM prints them, each under its process, so that the same readers read both."""

from __future__ import annotations

import time
from collections.abc import Callable

API, CORE = "APIServer", "EngineCore"
#: Process ids are made up, and the same in every log.
_PIDS = {API: 1, CORE: 100}
_WORKER_PID = 200
#: Lines begin with the month; a year is nowhere in them.
_TIME = "%m-%d %H:%M:%S"


def worker(rank: int, ranks: int) -> str:
    return f"Worker_TP{rank}" if ranks > 1 else "Worker"


class Log:
    """`unix`: the time of day, in seconds since 1970."""

    def __init__(self, unix: Callable[[], float]) -> None:
        self._unix = unix
        self._parts: list[str] = []
        self.size = 0  # in bytes

    def text(self) -> str:
        return "".join(self._parts)

    def raw(self, process: str, text: str) -> None:
        """Write lines as a process prints them without the logger: a traceback, the web server's words."""
        head = f"({process} pid={_pid(process)}) "
        self._write("".join(f"{head}{line}\n" for line in text.split("\n")))

    def say(self, process: str, where: str, text: str, level: str = "INFO") -> None:
        head = f"{level} {time.strftime(_TIME, time.gmtime(self._unix()))} [{where}] "
        self.raw(process, "\n".join(head + line for line in text.split("\n")))

    def plain(self, text: str) -> None:
        """Write a text as it is."""
        self._write(text if text.endswith("\n") else f"{text}\n")

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self.size += len(text.encode())


def _pid(process: str) -> int:
    return _PIDS.get(process) or _WORKER_PID + int(process.partition("_TP")[2] or 0)


def traceback(frame: str, error: str) -> str:
    """Return a traceback of one frame, given as file:line:function:code."""
    file, line, function, code = frame.split(":", 3)
    place = f'  File "/opt/vllm/lib/python3.11/site-packages/vllm/{file}", line {line}, in {function}'
    return f"Traceback (most recent call last):\n{place}\n    {code}\n{error}"
