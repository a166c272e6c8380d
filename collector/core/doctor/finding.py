"""What a check found: how bad it is, what is there, why it matters and what mends it."""

from __future__ import annotations

from dataclasses import dataclass

#: Worst first. spoils: rows would be wrong or not comparable; note: worth knowing, rows stay right.
LEVELS = ("spoils", "note", "unknown", "ok")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    level: str
    found: str
    reason: str = ""
    fix: str = ""  # a command, or what to do


def spoils(found: str, reason: str, fix: str) -> Finding:
    return Finding(level="spoils", found=found, reason=reason, fix=fix)


def note(found: str, reason: str, fix: str = "") -> Finding:
    return Finding(level="note", found=found, reason=reason, fix=fix)


def unknown(found: str, reason: str = "", fix: str = "") -> Finding:
    return Finding(level="unknown", found=found, reason=reason, fix=fix)


def ok(found: str) -> Finding:
    return Finding(level="ok", found=found)
