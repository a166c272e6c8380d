"""The errors that tell a user what to mend. Only `cli` turns them into an exit code.

A message names the place (file, line, column or plan path), what was found and what would be right.
Anything else that rises to the top is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Wrong use or bad input: exit code 2, nothing was changed."""


class PlanError(UserError):
    """A plan that cannot be run as it is written."""


class DataError(UserError):
    """A campaign's file that is not what the schema says."""


class EngineError(Exception):
    """The engine did not do what a measurement needs. The sweep records it and goes on."""


class RefusedError(EngineError):
    """A route answered with another status than 200."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def close_words(found: str, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest allowed words, or an empty string."""
    near = get_close_matches(found, list(allowed), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(repr(word) for word in near)}?" if near else ""
