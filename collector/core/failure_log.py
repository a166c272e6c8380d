"""What an engine's log says, before anyone asks what it means: exceptions, and how far it came.

Several processes write into one log at once, each line under its own prefix. A process's lines are put back
together here: which exceptions it raised, in which frames, and which of them while handling another.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from collector.core.failure_text import QUIET, Line
from collector.core.failure_words import DOWNLOAD, KV_LEFT, NOISE, PHASE_MARKS, QUOTED, STALLED, STARTS, STOPPED

EVENTS_KEPT = 100  # at each end: a log of failed requests repeats itself
LOOSE_TRIED = 3_000  # plain lines held against the rules: many, not all of a long log
MESSAGE_LINES = 12
CAUSE_CHARS = 2_000

_FRAME = re.compile(r"File [\"“](?P<file>[^\"”]+)[\"”], line \d+, in (?P<function>\S+)")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\s*$")
_CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct cause")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failed|Interrupt|OutOfResources)(?=[:(]|$)")
_NAME = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:: |:?$)")  # inside a traceback any name may be an exception's
_ANSWER = re.compile(r'"(?P<method>GET|POST) /\S* HTTP/[\d.]+" (?P<kind>\d)\d\d')
_ECHOED = ("LLM engine (v", *STARTS)  # the engine's account of its configuration
_ECHO = re.compile(r"speculative_config=None|tensor_parallel_size=\d+|'port': \d+")


@dataclass(slots=True)
class Event:
    """An exception, or a plain line that is fatal by itself (`loose`)."""

    line: Line
    parts: list[str]
    frames: list[str]
    group: int  # exceptions raised while handling one another share it
    stamp: str  # when it was said; without a clock of its own, when it stands in the log
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
    kv_line: str = ""  # what was left for KV, which the refusal does not repeat
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


def course_of(lines: Iterable[Line]) -> Course:
    """Follow the engine through its phases and count its answers."""
    course = Course()
    for line in lines:
        course.stalled = course.stalled + 1 if STALLED in line.text else 0
        if line.stamp:
            hours, minutes, seconds = (int(part) for part in line.stamp[-8:].split(":"))
            course.clocks[1:] = [hours * 3600 + minutes * 60 + seconds]
        if line.level and line.level not in QUIET:
            continue
        phase = _phase_of(line.text)
        course.kv_line = line.text if KV_LEFT in line.text else course.kv_line
        if any(mark in line.text for mark in _ECHOED):
            course.echo = " ".join([course.echo, *_ECHO.findall(line.text)])
        if answer := _ANSWER.search(line.text):
            phase = _count_answer(course, answer["method"] == "POST", answer["kind"])
        if phase in ("ready", "serving") and course.ready_at is None:
            course.ready_at = line.number
        if phase:
            course.marks.append((line.number, "serving" if course.good_posts else phase))
    return course


def _phase_of(text: str) -> str:
    if DOWNLOAD.match(text):
        return "download"
    return next((phase for mark, phase in PHASE_MARKS if mark in text), "")


def _count_answer(course: Course, posted: bool, kind: str) -> str:
    """Count one answered request; whoever answers is ready, and the first good completion means that it serves."""
    good, bad = kind == "2", kind == "5"
    course.good += good
    course.bad += bad
    course.good_posts += good and posted
    course.bad_posts += bad and posted
    return "serving" if good and posted else "ready"


def events_of(lines: Iterable[Line], fatal: Callable[[str], bool]) -> list[Event]:
    """Collect what every process raised, in the order of the log; `fatal` knows the plain lines that count."""
    talks: defaultdict[str, _Talk] = defaultdict(_Talk)
    events: list[Event] = []
    heard: set[str] = set()
    now = ""
    for line in lines:
        talk = talks[line.process]
        now = max(now, line.stamp)
        if line.level in QUIET:
            talk.open = None
        elif (event := _hear(line, talk, line.stamp or now)) is not None:
            if not event.loose or (len(heard) < LOOSE_TRIED and event.said not in heard and fatal(event.said)):
                events.append(event)
            heard.add(event.said)
    return events if len(events) <= 2 * EVENTS_KEPT else events[:EVENTS_KEPT] + events[-EVENTS_KEPT:]


def _hear(line: Line, talk: _Talk, stamp: str) -> Event | None:
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
        return _raised(line, talk, stamp)
    elif talk.open is not None and _goes_on(line, talk.open):
        talk.open.parts.append(line.text.strip())
    elif not line.text[0].isspace():
        talk.open = None
        return Event(line=line, parts=[line.text], frames=[], group=line.number, stamp=stamp, loose=True)
    return None


def _raises(line: Line, talk: _Talk) -> bool:
    """Whether the line names an exception; one in brackets after another is part of its message."""
    if exception := _EXCEPTION.match(line.text):
        return talk.open is None or line.text[exception.end() :][:1] != "("
    return talk.inside and _NAME.match(line.text) is not None


def _raised(line: Line, talk: _Talk, stamp: str) -> Event | None:
    ignored, chained, frames = talk.ignored or STOPPED.match(line.text), talk.chained, talk.frames
    talk.inside, talk.ignored, talk.chained, talk.frames, talk.open = False, False, False, [], None
    if ignored:
        return None
    talk.group = talk.group if chained else line.number
    quoted = QUOTED.search(line.text)
    talk.open = Event(line, [(quoted["said"] if quoted else "") or line.text], frames, talk.group, stamp)
    return talk.open


def _goes_on(line: Line, event: Event) -> bool:
    same = (line.level, line.source) == (event.line.level, event.line.source)
    return same and len(event.parts) < MESSAGE_LINES and NOISE.search(line.text) is None
