"""One module per kind of engine behind one small interface (interface.py).

A new kind is a module with `start` and a word here. A kind is loaded when it is asked for: what the others need (the
Docker API, the embedded engine) is no cost of a sweep without them.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from collector.core.errors import UserError
from collector.measure.engines.interface import Kind

KINDS = ("docker", "process", "url", "emulated")


def kind_of(name: str) -> Kind:
    """Return the module of an engine kind. Raises UserError for one that this version cannot start."""
    if name not in KINDS:
        raise UserError(f"engine kind {name!r} cannot be started by this version; available: {', '.join(KINDS)}")
    return cast("Kind", import_module(f"{__name__}.{name}"))
