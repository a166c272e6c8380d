"""The command line: arguments and exit codes, nothing else.

0 done, 1 some configurations failed or a check failed, 2 wrong use or bad input, 130 interrupted, 141 nobody reads any
more what is printed.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from collector import __version__
from collector.core.errors import UserError

#: Modules of collector.verbs, in the order of the help.
VERBS = (
    "plan",
    "doctor",
    "sweep",
    "status",
    "next",
    "recommend",
    "check",
    "recompute",
    "diagnose",
    "compare",
    "build",
    "emulate",
)

WRONG_USE = 2
INTERRUPTED = 130
#: What a shell says of a program that a closed pipe ended: 0 would let `collector compare A B | head` pass in CI.
NOBODY_READS = 141


def parser(wanted: Sequence[str] = VERBS) -> argparse.ArgumentParser:
    """Return the parser of some commands; what the others import is not loaded."""
    top = argparse.ArgumentParser(prog="collector", description=_DESCRIPTION)
    top.add_argument("--version", action="version", version=f"collector {__version__}")
    subparsers = top.add_subparsers(metavar="COMMAND", required=True)
    for verb in wanted:
        import_module(f"collector.verbs.{verb}").register(subparsers)
    return top


_DESCRIPTION = "Measure, on your own GPUs, which settings to serve a model with, and publish the answer as a site."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    _settle_streams()
    try:
        chosen = parser(words[:1] if words and words[0] in VERBS else VERBS).parse_args(words)
        code: int = chosen.run(chosen)
        sys.stdout.flush()
    except UserError as error:
        print(f"collector: {error}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _print_nowhere()
        return NOBODY_READS
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename:
            raise
        _print_nowhere()
        print(f"collector: standard output: {error.strerror}; send it elsewhere", file=sys.stderr)
        return WRONG_USE
    return code


def _settle_streams() -> None:
    """Let any text be printed: where the terminal's encoding lacks a sign, or the caller closed a stream."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # open until the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_nowhere() -> None:
    """Drop what is still to be printed, or Python would complain about it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
