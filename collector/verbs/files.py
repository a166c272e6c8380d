"""Reading what a user names on the command line."""

from __future__ import annotations

from pathlib import Path

from collector.core.errors import UserError


def read_text(path: Path) -> str:
    """Return a file's text. Raises UserError naming the file and what to do."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from error
