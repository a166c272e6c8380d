"""A profile from its file. One that `extends` a shipped profile says only what is different."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from collector.core.errors import UserError, close_words
from collector.emulator.faults import Faults
from collector.emulator.profile import Profile

_FOLDER = Path(str(files("collector.emulator") / "profiles"))


@cache
def profile_of(name: str) -> Profile:
    """Return a shipped profile, or one in a file. Raises UserError naming what there is."""
    return load_profile(Path(name) if name.endswith(".json") else _shipped(name, "engine.profile", " or a .json file"))


def load_profile(path: Path) -> Profile:
    """Read a profile. Raises UserError that names the file and the place in it."""
    try:
        return parse_profile(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def parse_profile(text: str, name: str) -> Profile:
    """Read the text of a profile. `name`: of its file, for what is said of it."""
    try:
        stated = json.loads(text)
    except ValueError as error:
        raise UserError(f"{name}: not JSON: {error}") from error
    if isinstance(stated, dict) and "extends" in stated:
        stated = _extended(stated, name)
    try:
        return Profile.model_validate(stated)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "file"
        known = f"; the faults are {', '.join(Faults.model_fields)}" if "faults" in first["loc"] else ""
        raise UserError(f"{name}: {place}: {first['msg'].removeprefix('Value error, ')}{known}") from error


def _extended(stated: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the shipped profile that is named, changed by what is stated. It is then another host."""
    own = {"name": Path(name).stem, "about": ""} | {key: stated[key] for key in stated if key != "extends"}
    shipped = _shipped(str(stated["extends"]), f"{name}: extends")
    merged: dict[str, Any] = _merged(json.loads(shipped.read_text(encoding="utf-8")), own)
    return merged


def _merged(base: Any, own: Any) -> Any:
    """Change a document as a JSON Merge Patch does (RFC 7396): objects merge, null deletes, the rest replaces."""
    if not isinstance(own, dict):
        return own
    kept = base if isinstance(base, dict) else {}
    merged = kept | {key: _merged(kept.get(key), value) for key, value in own.items()}
    return {key: value for key, value in merged.items() if key not in own or own[key] is not None}


def _shipped(name: str, place: str, or_else: str = "") -> Path:
    shipped = sorted(path.stem for path in _FOLDER.glob("*.json"))
    if name not in shipped:
        close = close_words(name, shipped)
        raise UserError(f"{place}: found {name!r}, allowed: {', '.join(shipped)}{or_else}{close}")
    return _FOLDER / f"{name}.json"
