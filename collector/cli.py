"""The command line: arguments and exit codes, nothing else.

0 done, 1 some configurations failed or a check failed, 2 wrong use or bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from collector import __version__
from collector.core.errors import UserError
from collector.verbs import (
    build,
    check,
    compare,
    diagnose,
    doctor,
    emulate,
    next,  # noqa: A004
    plan,
    recommend,
    recompute,
    status,
    sweep,
)

VERBS = (plan, doctor, sweep, status, next, recommend, check, recompute, diagnose, compare, build, emulate)

WRONG_USE = 2


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="collector", description=_DESCRIPTION)
    top.add_argument("--version", action="version", version=f"collector {__version__}")
    subparsers = top.add_subparsers(metavar="COMMAND", required=True)
    for verb in VERBS:
        verb.register(subparsers)
    return top


_DESCRIPTION = "Measure, on your own GPUs, which settings to serve a model with, and publish the answer as a site."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    chosen = parser().parse_args(arguments)
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
