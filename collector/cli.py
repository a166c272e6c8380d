"""The command line: arguments and exit codes, nothing else.

0 done, 1 some configurations failed or a check failed, 2 wrong use or bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

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
    chosen = parser(words[:1] if words and words[0] in VERBS else VERBS).parse_args(words)
    try:
        code: int = chosen.run(chosen)
    except UserError as error:
        print(f"collector: {error}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
