"""A log as it lies on the disk -> the lines of its last start, without colours and prefixes.

Whatever wrote the file left its own marks: docker, compose, kubernetes, journald, ray, a terminal. Of a log of
any length only a bounded part is looked at: both ends, and what follows the first signs of trouble between.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from collector.core.failure_words import SHUTDOWN, STARTS

if TYPE_CHECKING:
    from mmap import mmap

QUIET: Final = frozenset({"DEBUG", "INFO", "WARNING"})

LINE_CHARS = 4_000  # echoes of the configuration and lists of architectures are longer; causes are not
WHOLE_BYTES = 4_000_000  # longer logs are read at both ends and around the first signs of trouble between
EDGE_BYTES = 1_000_000
WINDOW_BYTES = 200_000
SIGNS = (
    b"Application startup complete",
    b"Traceback (most recent call last)",
    b" ERROR ",
    b"died unexpectedly",
    b"EngineCore encountered a",
)

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[\d[0-9;]*m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
#: What else would act on the terminal or the page that shows a line: control characters, and turns of direction.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_PREFIX = re.compile(
    r"[\w.-]+ +\| "  # docker compose
    r"|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)? (?:std(?:out|err) [FP] )?"  # docker logs --timestamps, kubernetes
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [\w./@-]+(?:\[\d+\])?: "  # journald
    r"|\((?P<process>[A-Za-z][\w.-]*(?: rank=\d+)?) pid=\d+(?:, ip=[\d.]+)?\) ?"
    r"|\[(?P<rank>rank\d+)\]: ?"
    r"|(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d{4}-)?(?P<date>\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d)"
    r"(?:[.,]\d+)? \[?(?P<source>[^\]\s]+?):\d+\] ?"
    r"|(?P<server>INFO|WARNING|ERROR|CRITICAL): +"  # uvicorn
    r"|\[?(?P<glog>[DIWE])(?P<day>\d{3,4}) (?P<time>\d\d:\d\d:\d\d)\.\d+ (?:\d+ )?[^\]\s]+:\d+\] ?"  # torch
)
# What follows a collector's own mark, such as the pod and the container: the same words before every line.
_MARKED = re.compile(r"(?P<mark>[^\s()]+ (?:[^\s()]+ )?)(?:\([A-Za-z]\w* pid=\d+\)|(?:INFO|WARNING|ERROR) \d\d-\d\d )")
_MARKED_LINES = 3  # fewer may be chance
_MARK_TRIED = 400  # lines of the beginning in which a mark must show itself
_GLOG = {"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR"}
_JSON_FILE = '{"log":"'  # the file in which the docker daemon keeps a container's log


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its colours and prefixes."""

    number: int
    process: str
    level: str
    source: str
    stamp: str  # MM-DD HH:MM:SS by the engine's own clock; "" where the line has none
    text: str


def last_start(log: bytes | mmap) -> tuple[int, int]:
    """Return where the last start in a log begins, and how many there are: a container may have been restarted."""
    found = [at for mark in STARTS for at in _places(log, mark.encode())]
    return (log.rfind(b"\n", 0, max(found)) + 1 if len(found) > 1 else 0), max(1, len(found))


def _places(log: bytes | mmap, mark: bytes) -> Iterator[int]:
    at = log.find(mark)
    while at >= 0:
        yield at
        at = log.find(mark, at + 1)


def excerpt(log: bytes | mmap, start: int = 0) -> str:
    """Return the part of a log from `start` on that is looked at."""
    size = len(log)
    if size - start <= WHOLE_BYTES:
        return log[start:].decode("utf-8", "replace")
    head, end = start + EDGE_BYTES, size - EDGE_BYTES
    parts, done = [log[start:head]], head
    for at in sorted(log.find(sign, head, end) for sign in SIGNS):
        if at >= done:
            done = min(at + WINDOW_BYTES, end)
            parts.append(log[log.rfind(b"\n", 0, at) + 1 : done])
    return b"\n".join([*parts, log[end:]]).decode("utf-8", "replace")


def read_lines(log: str) -> Iterator[Line]:
    """Split a log into lines."""
    rows = log.split("\n")
    mark = _mark_of(rows[:_MARK_TRIED])
    for number, raw in enumerate(rows):
        if not raw or raw.isspace():
            continue
        text = _of_json_file(raw) if raw.startswith(_JSON_FILE) else raw.removeprefix(mark)
        text = text.rstrip("\r\n").rpartition("\r")[2][:LINE_CHARS]  # a progress bar overwrites itself
        text = _CONTROLS.sub("", _ANSI.sub("", text)).rstrip()
        said: dict[str, str] = {}
        while prefix := _PREFIX.match(text):
            said |= {name: value for name, value in prefix.groupdict().items() if value}
            text = text[prefix.end() :]
        if text:
            yield _line(number, text, said)


def _mark_of(rows: Sequence[str]) -> str:
    """Return what stands before every line of a log; "" for nothing."""
    marks = Counter(found["mark"] for row in rows if (found := _MARKED.match(row)))
    mark, lines = max(marks.items(), key=lambda item: item[1], default=("", 0))
    return mark if lines >= _MARKED_LINES else ""


def _of_json_file(raw: str) -> str:
    try:
        return str(json.loads(raw)["log"])
    except (ValueError, KeyError):
        return raw  # cut short


def _line(number: int, text: str, said: dict[str, str]) -> Line:
    date, clock = said.get("date"), said.get("clock")
    if "day" in said:
        date, clock = f"{said['day'][:-2]:0>2}-{said['day'][-2:]}", said["time"]
    return Line(
        number=number,
        process=said.get("process") or said.get("rank", ""),
        level=said.get("level") or said.get("server") or _GLOG.get(said.get("glog", ""), ""),
        source=said.get("source", ""),
        stamp=f"{date} {clock}" if date and clock else "",
        text=text,
    )


def until_stopped(lines: Sequence[Line]) -> Sequence[Line]:
    """Drop what the engine says once it was told to stop: noise of stopping is no cause."""
    for place, line in enumerate(lines):
        if line.level == "INFO" and SHUTDOWN.search(line.text):
            return lines[:place]
    return lines
