"""`collector diagnose LOG...`: name the cause of a failed start from the engine's log."""

from __future__ import annotations

import argparse
import json
import mmap
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import IO

from collector.core.errors import UserError
from collector.core.failures import CATEGORIES, Verdict, diagnose
from collector.core.secrets import redact, secret_values

STANDARD_INPUT = "-"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # what a Windows shell writes where it redirects
FIRST_BYTES = 64  # enough to see that every other byte is 0


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command's arguments."""
    parser = subparsers.add_parser(
        "diagnose",
        help="name the cause of a failed start from the engine's log",
        description="Name the cause of a failed start, one verdict per log, of its last start where it holds several. "
        "Exit code 0: every engine came to be ready and is healthy.",
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help="file with an engine's log, or - for standard input")
    parser.add_argument("--json", action="store_true", help="print one JSON array, an object per log")
    parser.add_argument(
        "--exit-code", type=int, metavar="N", help="how the engine ended, where it is known; negative for a signal"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a verdict for every log that can be read; 1 if any of them is a failure, 2 if one cannot be read."""
    verdicts, unread = [], list[UserError]()
    for log in args.logs:
        try:
            verdicts.append((log, _without_secrets(_judged(log, args.exit_code))))
        except UserError as error:
            unread.append(error)
    if args.json:
        print(json.dumps([_as_object(log, verdict) for log, verdict in verdicts], indent=2, ensure_ascii=False))
    elif verdicts:
        print("\n\n".join(_as_text(log, verdict) for log, verdict in verdicts))
    if unread:
        raise UserError("\n".join(map(str, unread)))
    return int(any(verdict.category != "ok" for _, verdict in verdicts))


def _without_secrets(verdict: Verdict) -> Verdict:
    """A verdict is made to be pasted into an issue; a log from elsewhere may hold anything."""
    secrets = secret_values(os.environ)
    candidates = tuple(redact(one, secrets) for one in verdict.candidates)
    return replace(verdict, cause=redact(verdict.cause, secrets), candidates=candidates)


def _judged(log: str, exit_code: int | None) -> Verdict:
    """Judge one log; a file of any size is mapped into memory, not read."""
    try:
        if log == STANDARD_INPUT:
            with tempfile.TemporaryFile() as spool:
                shutil.copyfileobj(sys.stdin.buffer, spool)
                spool.flush()
                return _judged_file(spool, exit_code)
        with Path(log).open("rb") as file:
            return _judged_file(file, exit_code)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{log}: cannot read it ({reason}); name the file with the engine's log, or -") from error


def _judged_file(file: IO[bytes], exit_code: int | None) -> Verdict:
    try:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
            if log[:2] in UTF_16 and b"\0" in log[2:FIRST_BYTES]:
                return diagnose(log[:].decode("utf-16", "replace"), exit_code=exit_code)
            return diagnose(log, exit_code=exit_code)
    except (ValueError, OSError):  # empty, or a pipe: nothing to map
        return diagnose(file.read(), exit_code=exit_code)


def _as_object(log: str, verdict: Verdict) -> dict[str, object]:
    return {
        "log": log,
        "category": verdict.category,
        "phase": verdict.phase,
        "cause": verdict.cause,
        "numbers": dict(verdict.numbers),
        "remedy": verdict.remedy,
        "retryable": verdict.retryable,
        "candidates": list(verdict.candidates),
        "starts": verdict.starts,
    }


def _as_text(log: str, verdict: Verdict) -> str:
    which = f" (the last of {verdict.starts} starts)" if verdict.starts > 1 else ""
    if verdict.category == "ok":
        return f"{log}: ok, reached {verdict.phase}{which}"
    again = "may pass on a second try" if verdict.retryable else "will fail again"
    again = "nothing shows why" if verdict.silent else again
    lines = [f"{log}: {verdict.category} ({CATEGORIES[verdict.category]}){which}", f"  phase: {verdict.phase}; {again}"]
    if verdict.cause:
        lines.append(f"  cause: {verdict.cause}")
    if verdict.numbers:
        lines.append("  numbers: " + ", ".join(f"{name} {value:g}" for name, value in verdict.numbers.items()))
    if verdict.remedy:
        lines.append(f"  remedy: {verdict.remedy}")
    lines.extend(f"  or: {candidate}" for candidate in verdict.candidates if candidate != verdict.cause)
    return "\n".join(lines)
