"""The raw evidence of a row under raw/: both scrapes, what the client saw, and the circumstances.

Everything a row is computed from is here, so `collector recompute` needs nothing else; files are
compressed without time stamps, so that the same evidence gives the same bytes.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from collector.core.configuration import Configuration, Stage
from collector.core.engine_log import EngineFacts
from collector.core.errors import DataError
from collector.core.record import Context
from collector.core.series import Samples
from collector.core.telemetry import Card, GpuWatch, Reading
from collector.core.window import STEADY, Request, Sample, Telemetry, Window
from collector.measure.files import write_atomically
from collector.measure.scrape import parse
from collector.measure.stage import Measured

#: Goes up when the evidence changes shape.
EVIDENCE_VERSION = 1
SCRAPES = ("before", "after", "confirm")
#: Only of a steady window.
IDLE = "idle"


class LostError(DataError):
    """A file of the evidence that is not there."""


def store(folder: Path, row_id: str, context: Context, cell: tuple[Configuration, Stage], measured: Measured) -> None:
    """Write the evidence of a row; it is whole before the row is appended."""
    configuration, stage = cell
    for name in SCRAPES if measured.idle is None else (*SCRAPES, IDLE):
        write_atomically(folder / f"{row_id}-{name}.prom.gz", _pack(getattr(measured, name)))
    facts = {key: value for key, value in asdict(measured).items() if key not in (*SCRAPES, IDLE)}
    if measured.gpus is None:  # evidence of a host without GPUs looks as it always did
        del facts["gpus"]
    content = {
        "evidence": EVIDENCE_VERSION,
        "context": asdict(context),
        "configuration": asdict(configuration),
        "stage": asdict(stage),
        "measured": facts,
    }
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    write_atomically(folder / f"{row_id}-stage.json.gz", _pack(text))


def load(folder: Path, row_id: str) -> tuple[Context, Configuration, Stage, Window]:
    """Read the evidence of a row. Raises DataError naming the file."""
    stored = _json(folder / f"{row_id}-stage.json.gz")
    try:
        measured = stored["measured"]
        context = dict(stored["context"])
        facts = EngineFacts(**context.pop("facts"))
        scrapes = _scrapes(folder, row_id, (*SCRAPES, IDLE) if measured["method"] == STEADY else SCRAPES)
        window = Window(
            method=measured["method"],
            window_s=measured["window_s"],
            scrape_s=measured["scrape_s"],
            client_cpu_s=measured["client_cpu_s"],
            requests_sent=measured["requests_sent"],
            requests=tuple(Request(**one) for one in measured["requests"]),
            tokenized=None if measured["tokenized"] is None else tuple(measured["tokenized"]),
            telemetry=Telemetry(**measured["telemetry"]),
            gpus=_gpus(measured["gpus"]) if "gpus" in measured else None,
            samples=tuple(Sample(**one) for one in measured["samples"]),
            **scrapes,
        )
        configuration = Configuration(**(stored["configuration"] | _pairs(stored["configuration"])))
        return Context(**context, facts=facts), configuration, Stage(**stored["stage"]), window
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{folder / row_id}-stage.json.gz: not evidence of this version: {error}") from error


def _pairs(configuration: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple((key, value) for key, value in configuration[name]) for name in ("flags", "environment")}


def _gpus(stored: dict[str, Any]) -> GpuWatch:
    """Return the watched GPUs; JSON has no tuples."""
    return GpuWatch(
        cards=tuple(Card(**_tupled(one, "nvlinks")) for one in stored["cards"]),
        idle=tuple(Reading(**_tupled(one, "throttle_reasons")) for one in stored["idle"]),
        readings=tuple(Reading(**_tupled(one, "throttle_reasons")) for one in stored["readings"]),
        foreign=None if stored["foreign"] is None else tuple(stored["foreign"]),
    )


def _tupled(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return fields | {name: None if fields[name] is None else tuple(fields[name])}


def _scrapes(folder: Path, row_id: str, names: Iterable[str]) -> dict[str, Samples]:
    """Parse the scrapes; a full parse is the slowest step of all, so that equal texts are parsed once."""
    parsed: dict[str, Samples] = {}
    found: dict[str, Samples] = {}
    for name in names:
        path = folder / f"{row_id}-{name}.prom.gz"
        text = _unpack(path)
        if text not in parsed:
            try:
                parsed[text] = parse(text)
            except DataError as error:
                raise DataError(f"{path}: {error}") from error
        found[name] = parsed[text]
    return found


def _json(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(_unpack(path))
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    if not isinstance(stored, dict) or stored.get("evidence") != EVIDENCE_VERSION:
        raise DataError(f"{path}: evidence of another version; this collector reads {EVIDENCE_VERSION}")
    return stored


def _pack(text: str) -> bytes:
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)


def _unpack(path: Path) -> str:
    try:
        packed = path.read_bytes()
        text = gzip.decompress(packed).decode()
    except FileNotFoundError as error:
        raise LostError(f"{path}: not there") from error
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        said = (error.strerror if isinstance(error, OSError) else None) or error
        raise DataError(f"{path}: cannot be read: {said}") from error
    if not packed:  # which gzip takes for a compressed nothing
        raise DataError(f"{path}: cannot be read: the file is empty")
    return text
