"""An engine's log, its exit code and a few flags -> why it did not start, or that it did.

The last line of a log is almost never the cause: three layers of processes repeat a failure in their own
words, and ranks that were fine fail because another one went away. So every exception of every process is
collected, those that only follow from others are set aside, and the first that is left is the cause. What it
means is looked up in `failure_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from collector.core.failure_found import Found, found_in, is_fatal
from collector.core.failure_log import Course, course_of, events_of
from collector.core.failure_numbers import numbers_in, remedy_of
from collector.core.failure_places import category_by_place, ended_its_process
from collector.core.failure_rules import RULES
from collector.core.failure_text import QUIET, Line, excerpt, last_start, read_lines, until_stopped
from collector.core.failure_words import (
    CATEGORIES,
    GPU_OOM,
    OOM_BY_PHASE,
    PHASE_FRAMES,
    PHASES,
    PROFILE,
    RETRYABLE,
    SAMPLER,
    STEP_FRAMES,
)

if TYPE_CHECKING:
    from mmap import mmap

__all__ = ["CATEGORIES", "PHASES", "Verdict", "diagnose"]

HOST_OOM_CODE = 137  # the container's main process was killed outright: nobody else does that unasked
CONTAINER_CODES = range(125, 128)  # docker run's own: the engine's program never began
STOP_CODES = frozenset({None, 0, 130, 137, 143, -2, -9, -15})  # how an engine ends that was told to, or made to
ENGINE_WAIT_S = range(570, 690)  # it gives up on a silent core after 600 s, and then names no failed process
STALLED_LINES = 5  # minutes of nothing but waiting, by a log that is all there is to judge from


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What became of one start."""

    category: str  # a word of CATEGORIES, or "ok"
    phase: str  # a word of PHASES: where it failed, or how far it came
    cause: str  # the engine's own line, or where its log ends; "" for ok
    numbers: Mapping[str, float]  # what the cause says in figures, units in the names
    retryable: bool  # a fault of the moment, not a property of the configuration
    candidates: tuple[str, ...]  # for `other`: the likeliest lines
    silent: bool = False  # neither log nor exit code says that anything went wrong
    starts: int = 1  # how many the log holds; the last one is judged

    @property
    def remedy(self) -> str:
        """What would help, in one line."""
        return remedy_of(self.category, self.numbers)


def diagnose(
    log: str | bytes | mmap,
    *,
    exit_code: int | None = None,
    oom_killed: bool = False,
    was_ready: bool | None = None,
    stopped_at: int | None = None,
) -> Verdict:
    """Name the cause of a failed start, or of a death while serving; `ok` for an engine that came to be ready.

    Of several starts in one log the last is judged. What follows `stopped_at` (a position in `log`), or the
    engine's own word that it was told to stop, does not count, nor does an exit code that such a stop explains.
    With no sign in the log the exit code decides; a log that just ends before the engine was ready is `other`.
    """
    log = log if stopped_at is None else log[: max(stopped_at, 0)]
    raw = log.encode("utf-8", "replace") if isinstance(log, str) else log
    start, starts = last_start(raw)
    everything = list(read_lines(excerpt(raw, start)))
    lines = until_stopped(everything)
    if stopped_at is not None or (len(lines) < len(everything) and exit_code in STOP_CODES):
        exit_code = None
    course = course_of(lines)
    ready = course.ready_at is not None if was_ready is None else was_ready
    found = found_in(events_of(lines, is_fatal), course.echo)
    lost = oom_killed or exit_code == HOST_OOM_CODE
    if ready:
        found = [each for each in found if each.event.line.number >= (course.ready_at or 0)]
        root = _root(found if course.only_errors else _of_engine(found))
        died = lost or bool(exit_code) or any(_ends_serving(each) for each in found)
        category = _served(root, died=died, lost=lost, only_errors=course.only_errors)
    else:
        root = _root(found)
        category = _unready(root, course, exit_code, lost=lost)
    verdict = _verdict(category, root, found, lines, course, ready=ready)
    ended = exit_code is None or exit_code == 0
    if category == "other" and root is None and ended and not lost:
        verdict = replace(verdict, cause=_ends_in(lines, verdict.phase), silent=True)
    return replace(verdict, starts=starts, silent=verdict.silent or category == "ok")


def _ends_in(lines: Sequence[Line], phase: str) -> str:
    return f"the log ends in phase {phase}, before the engine was ready" if lines else "the log is empty"


def _of_engine(found: list[Found]) -> list[Found]:
    """Once it serves, the front end raises for any bad request: the engine's processes are heard first."""
    return [each for each in found if not each.by_front_end] or found


def _root(found: Sequence[Found]) -> Found | None:
    """Pick the cause: the first that is known, then the first that is not, then what only follows from others."""
    named = [each for each in found if each.rule is not None and not each.follows]
    if named and named[0].category == GPU_OOM:
        # The engine's own sentence about the phase may come after the allocator's.
        return next((each for each in named if each.category in OOM_BY_PHASE.values()), named[0])
    if named:
        return named[0]
    strange = [each for each in found if each.rule is None]
    unknown = next((each for each in strange if ended_its_process(each.chain)), next(iter(strange), None))
    after = [each for each in found if each.follows]
    first_ccl = next((each for each in after if each.category == "nccl_p2p"), None)
    if unknown and not (first_ccl and first_ccl.when < unknown.when):
        return unknown
    return min(after, key=lambda each: RULES.index(each.rule) if each.rule else 0, default=None)


def _ends_serving(each: Found) -> bool:
    """Whether this is a death; a client that hangs up leaves a broken connection in the log, too."""
    by_engine = bool(each.event.line.process) and not each.by_front_end
    return each.category == "port_in_use" or (each.follows and (by_engine or bool(each.rule and each.rule.loose)))


def _served(root: Found | None, *, died: bool, lost: bool, only_errors: bool) -> str:
    """Judge an engine that was ready. GPU memory, and what kept it from answering at all, keep their names."""
    if not died and not only_errors:
        return "ok"
    if root and (root.category == GPU_OOM or root.category.startswith("oom_") or root.category == "port_in_use"):
        return root.category
    if lost:
        return "oom_host"
    return "environment" if root and root.category == "environment" and only_errors else "crashed_serving"


def _unready(root: Found | None, course: Course, exit_code: int | None, *, lost: bool) -> str:
    """Judge an engine that never was ready; a known cause in the log is better than any exit code."""
    if root and root.rule and not root.follows:
        return root.category
    if lost:
        return "oom_host"
    if root and root.rule is None:
        return category_by_place(root.chain) or "other"
    if root:
        silent = root.category == "worker_died" and "Failed core proc(s): {}" in root.event.said
        return "timeout" if silent and course.seconds in ENGINE_WAIT_S else root.category
    if course.stalled >= (1 if exit_code else STALLED_LINES):
        return "timeout"
    return _by_exit_code(exit_code or 0)


def _by_exit_code(exit_code: int) -> str:
    if exit_code in CONTAINER_CODES:
        return "container"
    if exit_code < 0 or exit_code > 128:
        return "worker_died"
    return "other"


def _verdict(
    category: str, root: Found | None, found: Sequence[Found], lines: Sequence[Line], course: Course, *, ready: bool
) -> Verdict:
    if category == "ok":
        root = None
    phase = _phase(root, lines, course, ready=ready)
    category = OOM_BY_PHASE[phase] if category == GPU_OOM else category
    likeliest = _likeliest(found, lines) if category == "other" else ()
    kin = next((each for each in found if each.category == GPU_OOM), None) if category.startswith("oom_") else None
    cause = root.event.said if root else next(iter(likeliest), "")
    if root is None and (category == "timeout" or (category == "crashed_serving" and course.only_errors)):
        cause = lines[-1].text  # the last answer, or the last minute of waiting
    # The engine's plain sentence about a phase has no figures; the allocator's exception has.
    cause = kin.event.said if kin and root and root.event.loose else cause
    spoken = [cause, *(event.said for each in (root, kin) if each for event in each.chain)]
    if category in ("port_in_use", "kv_cache"):
        spoken.append(course.echo if category == "port_in_use" else course.kv_line)
    numbers, retryable = numbers_in(spoken), _retryable(category, root)
    return Verdict(
        category=category, phase=phase, cause=cause, numbers=numbers, retryable=retryable, candidates=likeliest
    )


def _phase(root: Found | None, lines: Sequence[Line], course: Course, *, ready: bool) -> str:
    """Return where it failed: by the deepest telling frame, by the rule, else by the last mark before."""
    end = lines[-1].number if lines else 0
    reached = course.phase_at(root.event.line.number if root else end)
    if ready:
        by_request = root is not None and not STEP_FRAMES.isdisjoint(f.rpartition(":")[2] for f in root.frames)
        return "serving" if reached == "serving" else "first_request" if course.bad_posts or by_request else "ready"
    if root is None:
        return reached
    names = [frame.rpartition(":")[2] for frame in reversed(root.frames)]
    # The sampler is tried out while memory is profiled, too.
    telling = [name for name in names if name in PHASE_FRAMES and (name != SAMPLER or PROFILE not in names)]
    deepest = PHASE_FRAMES[telling[0]] if telling else ""
    return deepest or (root.rule.phase if root.rule else "") or reached


def _retryable(category: str, root: Found | None) -> bool:
    if root and root.rule and root.category == category and root.rule.retryable is not None:
        return root.rule.retryable
    if category == "crashed_serving":
        return root is None or root.follows  # nothing says that it would happen again
    return category in RETRYABLE


def _likeliest(found: Sequence[Found], lines: Sequence[Line]) -> tuple[str, ...]:
    """Return three lines that might be the cause: unknown exceptions, errors in the log, its last words."""
    plain = [line for line in lines if line.level not in QUIET and line.text[0].isalnum()]
    errors = [line.text for line in plain if line.level and not is_fatal(line.text)]
    unknown = [each.event.said for each in found if each.rule is None]
    last = [line.text for line in (*reversed(plain), *reversed(lines))]
    return tuple(dict.fromkeys((*unknown, *errors, *last)))[:3]
