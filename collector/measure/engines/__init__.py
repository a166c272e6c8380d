"""One module per kind of engine behind one small interface (interface.py).

A new kind is a module with `start` and a line here.
"""

from __future__ import annotations

from collector.core.errors import UserError
from collector.measure.engines import docker, emulated, process, url
from collector.measure.engines.interface import Kind

KINDS: dict[str, Kind] = {"docker": docker, "process": process, "url": url, "emulated": emulated}


def kind_of(name: str) -> Kind:
    """Return the module of an engine kind. Raises UserError for one that this version cannot start."""
    if name not in KINDS:
        raise UserError(f"engine kind {name!r} cannot be started by this version; available: {', '.join(KINDS)}")
    return KINDS[name]
