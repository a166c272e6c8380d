"""`collector diagnose LOG...`: name the cause of a failed start from the engine's log."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from collector.core.errors import UserError
from collector.core.failures import CATEGORIES, Verdict, diagnose

STANDARD_INPUT = "-"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command's arguments."""
    parser = subparsers.add_parser(
        "diagnose",
        help="name the cause of a failed start from the engine's log",
        description="Name the cause of a failed start, one verdict per log. Exit code 0: every log is healthy.",
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help="file with an engine's log, or - for standard input")
    parser.add_argument("--json", action="store_true", help="print one JSON array, an object per log")
    parser.add_argument(
        "--exit-code", type=int, metavar="N", help="how the engine ended, where it is known; negative for a signal"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a verdict for every log; 1 if any of them is a failure."""
    texts = {log: _read(log) for log in args.logs}  # all of them, before anything is printed
    verdicts = [(log, diagnose(texts[log], exit_code=args.exit_code)) for log in args.logs]
    if args.json:
        print(json.dumps([_as_object(log, verdict) for log, verdict in verdicts], indent=2, ensure_ascii=False))
    else:
        print("\n\n".join(_as_text(log, verdict) for log, verdict in verdicts))
    return int(any(verdict.category != "ok" for _, verdict in verdicts))


def _read(log: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if log == STANDARD_INPUT else Path(log).read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{log}: cannot read it ({reason}); name the file with the engine's log, or -") from error
    return raw.decode("utf-8", errors="replace")


def _as_object(log: str, verdict: Verdict) -> dict[str, object]:
    return {
        "log": log,
        "category": verdict.category,
        "phase": verdict.phase,
        "cause": verdict.cause,
        "numbers": dict(verdict.numbers),
        "retryable": verdict.retryable,
        "candidates": list(verdict.candidates),
    }


def _as_text(log: str, verdict: Verdict) -> str:
    if verdict.category == "ok":
        return f"{log}: ok, reached {verdict.phase}"
    again = "may pass on a second try" if verdict.retryable else "will fail again"
    lines = [f"{log}: {verdict.category} ({CATEGORIES[verdict.category]})", f"  phase: {verdict.phase}; {again}"]
    if verdict.cause:
        lines.append(f"  cause: {verdict.cause}")
    if verdict.numbers:
        lines.append("  numbers: " + ", ".join(f"{name} {value:g}" for name, value in verdict.numbers.items()))
    lines.extend(f"  or: {candidate}" for candidate in verdict.candidates if candidate != verdict.cause)
    return "\n".join(lines)
