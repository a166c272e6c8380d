"""What an engine's log says, before anyone asks what it means: lines, exceptions, and how far it came.

Several processes write into one log at once, each line under its own prefix. A process's lines are put back
together here: which exceptions it raised, in which frames, and which of them while handling another.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from collector.core.failure_rules import NOISE, PHASE_MARKS, QUOTED, SHUTDOWN, STALLED, STOPPED

QUIET: Final = frozenset({"DEBUG", "INFO", "WARNING"})

LINE_CHARS = 4_000  # echoes of the configuration and lists of architectures are longer; causes are not
WHOLE_CHARS = 4_000_000  # longer logs are read at both ends and around the first signs of trouble between
EDGE_CHARS = 1_000_000
WINDOW_CHARS = 200_000
SIGNS = ("Application startup complete", "Traceback (most recent call last)", " ERROR ", "died unexpectedly")
EVENTS_KEPT = 100  # at each end: a log of failed requests repeats itself
LOOSE_TRIED = 3_000  # plain lines held against the rules: many, not all of a long log
MESSAGE_LINES = 12
CAUSE_CHARS = 2_000

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[\d[0-9;]*m")
_PREFIX = re.compile(
    r"[\w.-]+ +\| "  # docker compose
    r"|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)? "  # docker logs --timestamps
    r"|\((?P<process>[A-Za-z][\w.-]*(?: rank=\d+)?) pid=\d+(?:, ip=[\d.]+)?\) ?"
    r"|\[(?P<rank>rank\d+)\]: ?"
    r"|(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d{4}-)?\d\d-\d\d (?P<clock>\d\d:\d\d:\d\d)(?:[.,]\d+)? "
    r"\[?(?P<source>[^\]\s]+?):\d+\] ?"
    r"|(?P<server>INFO|WARNING|ERROR|CRITICAL): +"  # uvicorn
    r"|\[?(?P<glog>[DIWE])\d{3,4} \d\d:\d\d:\d\d\.\d+ (?:\d+ )?[^\]\s]+:\d+\] ?"  # torch
)
_GLOG = {"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR"}
_FRAME = re.compile(r"File [\"“](?P<file>[^\"”]+)[\"”], line \d+, in (?P<function>\S+)")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\s*$")
_CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct cause")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failed|Interrupt|OutOfResources)(?=[:(]|$)")
_NAME = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:: |:?$)")  # inside a traceback any name may be an exception's
_ANSWER = re.compile(r'"(?P<method>GET|POST) /\S* HTTP/[\d.]+" (?P<kind>\d)\d\d')
_ECHOED = ("LLM engine (v", "non-default args:")  # the engine's account of its configuration
_ECHO = re.compile(r"speculative_config=None|tensor_parallel_size=\d+|'port': \d+")


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its colours and prefixes."""

    number: int
    process: str
    level: str
    source: str
    clock: str
    text: str


@dataclass(slots=True)
class Event:
    """An exception, or a plain line that is fatal by itself (`loose`)."""

    line: Line
    parts: list[str]
    frames: list[str]
    group: int  # exceptions raised while handling one another share it
    loose: bool = False

    @property
    def said(self) -> str:
        """The message on one line: two bars part the exception from what it goes on to say."""
        head, rest = self.parts[0], " | ".join(self.parts[1:])
        return (f"{head} || {rest}" if rest else head)[:CAUSE_CHARS]


@dataclass(slots=True)
class Course:
    """How far the engine came, and how it answered once it was ready."""

    marks: list[tuple[int, str]] = field(default_factory=lambda: [(0, "launch")])
    ready_at: int | None = None
    echo: str = ""  # what the configuration says of speculation, ranks and port
    good: int = 0
    bad: int = 0
    good_posts: int = 0
    bad_posts: int = 0
    stalled: int = 0  # lines about a silent rank at the very end
    clocks: list[int] = field(default_factory=list)  # seconds of the day of the first and the last dated line

    @property
    def seconds(self) -> int:
        """Return the time the log spans; a start is shorter than a day."""
        return (self.clocks[-1] - self.clocks[0]) % 86_400 if self.clocks else 0

    @property
    def only_errors(self) -> bool:
        """Whether it answered, and with nothing but server errors."""
        return (self.bad > 0 and self.good == 0) or (self.bad_posts > 0 and self.good_posts == 0)

    def phase_at(self, number: int) -> str:
        """Return the phase the engine was in when it wrote a line."""
        return next(phase for at, phase in reversed(self.marks) if at <= number)


@dataclass(slots=True)
class _Talk:
    """What one process is in the middle of saying."""

    frames: list[str] = field(default_factory=list)
    open: Event | None = None
    inside: bool = False
    chained: bool = False
    ignored: bool = False
    group: int = 0


def read_lines(log: str) -> Iterator[Line]:
    """Split a log into lines; of a very long one only the parts that can matter."""
    for number, raw in enumerate(_excerpt(log).split("\n")):
        if not raw or raw.isspace():
            continue
        text = raw.rstrip("\r").rpartition("\r")[2][:LINE_CHARS]  # a progress bar overwrites itself
        text = _ANSI.sub("", text).rstrip()
        found = dict.fromkeys(("process", "level", "source", "clock"), "")
        while prefix := _PREFIX.match(text):
            said = {name: value for name, value in prefix.groupdict().items() if value}
            text = text[prefix.end() :]
            found["process"] = said.get("process") or said.get("rank") or found["process"]
            found["level"] = said.get("level") or said.get("server") or _GLOG.get(said.get("glog", ""), found["level"])
            found["source"] = said.get("source", found["source"])
            found["clock"] = said.get("clock", found["clock"])
        if text:
            yield Line(number=number, text=text, **found)


def _excerpt(log: str) -> str:
    if len(log) <= WHOLE_CHARS:
        return log
    end = len(log) - EDGE_CHARS
    parts, done = [log[:EDGE_CHARS]], EDGE_CHARS
    for at in sorted(log.find(sign, EDGE_CHARS, end) for sign in SIGNS):
        if at >= done:
            done = min(at + WINDOW_CHARS, end)
            parts.append(log[log.rfind("\n", 0, at) + 1 : done])
    return "\n".join([*parts, log[end:]])


def until_stopped(lines: Sequence[Line]) -> Sequence[Line]:
    """Drop what the engine says once it was told to stop: noise of stopping is no cause."""
    for place, line in enumerate(lines):
        if line.level == "INFO" and SHUTDOWN.search(line.text):
            return lines[:place]
    return lines


def course_of(lines: Iterable[Line]) -> Course:
    """Follow the engine through its phases and count its answers."""
    course = Course()
    for line in lines:
        course.stalled = course.stalled + 1 if STALLED in line.text else 0
        if line.clock:
            hours, minutes, seconds = (int(part) for part in line.clock.split(":"))
            course.clocks[1:] = [hours * 3600 + minutes * 60 + seconds]
        if line.level and line.level not in QUIET:
            continue
        phase = next((phase for mark, phase in PHASE_MARKS if mark in line.text), "")
        if any(mark in line.text for mark in _ECHOED):
            course.echo = " ".join([course.echo, *_ECHO.findall(line.text)])
        if phase == "ready" and course.ready_at is None:
            course.ready_at = line.number
        if (answer := _ANSWER.search(line.text)) and course.ready_at is not None:
            phase = _count_answer(course, answer["method"] == "POST", answer["kind"]) or phase
        if phase:
            course.marks.append((line.number, phase))
    return course


def _count_answer(course: Course, posted: bool, kind: str) -> str:
    """Count one answered request; the first good one means that the engine serves."""
    good, bad = kind == "2", kind == "5"
    course.good += good
    course.bad += bad
    course.good_posts += good and posted
    course.bad_posts += bad and posted
    return "serving" if good and posted else ""


def events_of(lines: Iterable[Line], fatal: Callable[[str], bool]) -> list[Event]:
    """Collect what every process raised, in the order of the log; `fatal` knows the plain lines that count."""
    talks: defaultdict[str, _Talk] = defaultdict(_Talk)
    events: list[Event] = []
    heard: set[str] = set()
    for line in lines:
        talk = talks[line.process]
        if line.level in QUIET:
            talk.open = None
        elif (event := _hear(line, talk)) is not None:
            if not event.loose or (len(heard) < LOOSE_TRIED and event.said not in heard and fatal(event.said)):
                events.append(event)
            heard.add(event.said)
    return events if len(events) <= 2 * EVENTS_KEPT else events[:EVENTS_KEPT] + events[-EVENTS_KEPT:]


def _hear(line: Line, talk: _Talk) -> Event | None:
    """Take one line of a process in, and return what begins with it: an exception or a plain line."""
    if frame := _FRAME.search(line.text):
        talk.frames.append(f"{frame['file']}:{frame['function']}")
        talk.open = None
    elif _TRACEBACK.search(line.text):
        talk.open, talk.inside, talk.frames = None, True, []
    elif _CHAINED.match(line.text):
        talk.open, talk.chained = None, True
    elif line.text.startswith("Exception ignored"):
        talk.open, talk.ignored = None, True
    elif _raises(line, talk):
        return _raised(line, talk)
    elif talk.open is not None and _goes_on(line, talk.open):
        talk.open.parts.append(line.text.strip())
    elif not line.text[0].isspace():
        talk.open = None
        return Event(line=line, parts=[line.text], frames=[], group=line.number, loose=True)
    return None


def _raises(line: Line, talk: _Talk) -> bool:
    """Whether the line names an exception; one in brackets after another is part of its message."""
    if exception := _EXCEPTION.match(line.text):
        return talk.open is None or line.text[exception.end() :][:1] != "("
    return talk.inside and _NAME.match(line.text) is not None


def _raised(line: Line, talk: _Talk) -> Event | None:
    ignored, chained, frames = talk.ignored or STOPPED.match(line.text), talk.chained, talk.frames
    talk.inside, talk.ignored, talk.chained, talk.frames, talk.open = False, False, False, [], None
    if ignored:
        return None
    talk.group = talk.group if chained else line.number
    quoted = QUOTED.search(line.text)
    talk.open = Event(line, [(quoted["said"] if quoted else "") or line.text], frames, talk.group)
    return talk.open


def _goes_on(line: Line, event: Event) -> bool:
    same = (line.level, line.source) == (event.line.level, event.line.source)
    return same and len(event.parts) < MESSAGE_LINES and NOISE.search(line.text) is None
