"""The files of site_src: read what is common to the languages, write what changed, remove what is stale."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from collector.core.errors import UserError

#: Hand-written files that every language's tree gets a copy of.
COMMON = "common"
#: Lists what the last build wrote, so that only its own files are ever removed. MkDocs skips dot files.
WRITTEN = ".written-by-build"


def campaigns_written(site_src: Path) -> set[str]:
    """Return the names of the campaigns that have pages from an earlier build."""
    paths = [PurePosixPath(name).parts for tree in site_src.glob("*") for name in _written_before(tree)]
    return {name for folder, name, *rest in (one for one in paths if len(one) > 1) if folder == "campaigns" and rest}


def common_files(folder: Path) -> dict[str, bytes]:
    """Return the hand-written files, by their path in every language's tree."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def write_if_changed(path: Path, content: bytes) -> bool:
    """Leave an unchanged file untouched: a preview that watches it would build without end."""
    try:
        if path.is_file() and path.read_bytes() == content:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
    return True


def remove_stale(site_src: Path, language: str, files: Iterable[str]) -> list[str]:
    """Remove what an earlier build wrote and this one did not, and note what it wrote."""
    tree = site_src / language
    note = tree / WRITTEN
    now = sorted(name.removeprefix(f"{language}/") for name in files if name.startswith(f"{language}/"))
    stale = [name for name in _written_before(tree) if name not in set(now) and _inside(tree, name)]
    for name in stale:
        try:
            (tree / name).unlink()
            for folder in (tree / part for part in PurePosixPath(name).parents if part.name):
                if not any(folder.iterdir()):
                    folder.rmdir()
        except OSError as error:
            raise UserError(f"{tree / name}: cannot be removed: {error.strerror}") from error
    write_if_changed(note, "".join(f"{name}\n" for name in now).encode())
    return [f"{language}/{name}" for name in stale]


def _written_before(tree: Path) -> list[str]:
    note = tree / WRITTEN
    return note.read_text(encoding="utf-8").splitlines() if note.is_file() else []


def _inside(tree: Path, name: str) -> bool:
    path = tree / name
    return path.is_file() and path.resolve().is_relative_to(tree.resolve())
