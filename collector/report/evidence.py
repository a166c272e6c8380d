"""What a campaign keeps beside its pages: the tables, and the scrapes and logs that its rows are made from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from collector.analysis.study import StoredFile
from collector.core.errors import UserError

#: Where a campaign's files lie, beside its article.
FILES = "files"
#: The tables and what describes them. The journal is the sweep's own.
TABLES = ("rows.csv", "failures.csv", "positions.csv", "datapackage.json", "plan.yaml", "host.json")
PUBLISHED_TABLES = ("figures.csv", "failures.csv", "calibration.json")
FOLDERS = ("logs", "raw")
#: Plans by which cells were added to a campaign.
CONTINUING = re.compile(r"plan-[0-9a-f]{12}\.yaml")
#: What collector itself writes there. Anything else stays at home: its name would become an address of the site,
#: and MkDocs would make a page of a Markdown file.
EVIDENCE = re.compile(r"logs/[A-Za-z0-9][A-Za-z0-9_-]*\.log|raw/[A-Za-z0-9][A-Za-z0-9_-]*\.(prom|json)\.gz")


def stored_files(folder: Path, tables: Sequence[str] = TABLES) -> dict[str, bytes]:
    """Return what may be published of a campaign, by its path there: plain files only, no link out of it."""
    found = [folder / name for name in tables]
    found += sorted(one for one in folder.glob("plan-*.yaml") if CONTINUING.fullmatch(one.name))
    for name in FOLDERS:
        if not (folder / name).is_symlink():
            known = sorted((folder / name).glob("*"))
            found += [one for one in known if EVIDENCE.fullmatch(one.relative_to(folder).as_posix())]
    try:
        return {
            one.relative_to(folder).as_posix(): one.read_bytes()
            for one in found
            if one.is_file() and not one.is_symlink()
        }
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from error


def described(files: Mapping[str, bytes]) -> tuple[StoredFile, ...]:
    """Return what a reader can check of the tables that he takes with him."""
    return tuple(
        StoredFile(name=name, size=len(content), lines=_lines(content), sha256=sha256(content).hexdigest())
        for name, content in files.items()
        if not name.startswith(tuple(f"{folder}/" for folder in FOLDERS))
    )


def _lines(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
