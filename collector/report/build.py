"""data/ to site_src/: gather every page first, then write what changed and remove what is stale."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import FileSystemLoader

from collector.analysis.left_open import EMULATED
from collector.core.codec import check_objects, from_csv
from collector.core.due import made_good
from collector.core.errors import DataError, PlanError, UserError, close_words
from collector.core.plan import parse_plan
from collector.core.rows import Failure, Position, Row
from collector.core.sound import check_tables
from collector.report.evidence import CONTINUING, FILES, PUBLISHED_TABLES, described, stored_files
from collector.report.pages import Campaign, pages
from collector.report.published_files import Published, parse_published
from collector.report.tree import COMMON, campaigns_written, common_files, remove_stale, write_if_changed
from collector.report.words import LANGUAGES

#: The words and loops of the pages, and the plans that come with the program, stand beside the package.
TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
PLANS = TEMPLATES.with_name("plans")
#: The emulation whose parameters were fitted to the published figures.
PROFILE = Path(__file__).resolve().parents[1] / "emulator" / "profiles" / "dual-3090.json"
#: Figures published elsewhere lie beside the campaigns and are none.
PUBLISHED = "published"

CAMPAIGN_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
RESERVED_NAMES = ("index",)

Record = TypeVar("Record", Row, Failure, Position)


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildReport:
    """What a build did; paths are relative to site_src."""

    campaigns: tuple[str, ...]
    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    faults: tuple[str, ...] = ()  # what pages do without, a sentence each


@cache
def loader_of(templates: Path) -> FileSystemLoader:
    """Return the loader of a folder: one, so that its templates are compiled once a process."""
    return FileSystemLoader(templates)


def build_site(
    data: Path, site_src: Path, campaigns: Sequence[str] | None = None, *, allow_empty: bool = False
) -> BuildReport:
    """Write the pages of all campaigns, or of the named ones only, into site_src/ko and site_src/en.

    Raises UserError before anything is written or removed: where a campaign cannot be read, and where none is left
    while pages of some are there, unless `allow_empty`.
    """
    names = _chosen(data, campaigns)
    if not names and not allow_empty:
        _refuse_to_empty(data, campaigns_written(site_src) - {PUBLISHED})
    read = _read_all(data, names)
    published = read_published(data / PUBLISHED)
    loader = loader_of(_existing(TEMPLATES, "the page templates"))
    common = common_files(_existing(site_src / COMMON, "the site's own files"))
    for name in (*names, *([PUBLISHED] if published else [])):
        stored = stored_files(data / name, *([PUBLISHED_TABLES] if name == PUBLISHED else []))
        common |= {f"campaigns/{name}/{FILES}/{file}": content for file, content in stored.items()}
    files: dict[str, bytes] = {}
    for language in LANGUAGES:
        texts = {name: text.encode() for name, text in pages(read, loader, language, published).items()}
        files |= {f"{language}/{name}": content for name, content in (common | texts).items()}
    written = [name for name, content in sorted(files.items()) if write_if_changed(site_src / name, content)]
    removed = [name for language in LANGUAGES for name in remove_stale(site_src, language, files)]
    return BuildReport(
        campaigns=tuple(names),
        written=tuple(written),
        unchanged=tuple(name for name in sorted(files) if name not in written),
        removed=tuple(removed),
        faults=tuple(fault for one in read for fault in one.unreadable_plans),
    )


def _refuse_to_empty(data: Path, gone: Collection[str]) -> None:
    """A wrong --data, or a checkout without its data, must not cost the pages of every campaign."""
    if gone:
        raise UserError(
            f"{data}: no campaign there, and a build would remove the pages of {', '.join(sorted(gone))}; name the "
            "folder of campaigns with --data, or remove them with --allow-empty"
        )


def _chosen(data: Path, campaigns: Sequence[str] | None) -> list[str]:
    known = campaign_names(data)
    for name in campaigns or ():
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "there is none yet"
            raise UserError(f"no campaign {name!r} under {data}{close_words(name, known) or f'; {there}'}")
    return sorted(set(campaigns)) if campaigns else known


def campaign_names(data: Path) -> list[str]:
    """Return the folders under `data` that hold a campaign: rows, or a plan that has none yet."""
    if not data.is_dir():
        return []
    return sorted(one.name for one in data.iterdir() if (one / "rows.csv").is_file() or (one / "plan.yaml").is_file())


def _read_all(data: Path, names: Sequence[str]) -> list[Campaign]:
    """Read every campaign. Raises DataError with what is wrong in each of them, and the ways out."""
    read, wrong = [], dict[str, str]()
    for name in names:
        try:
            _check_name(data / name)
            read.append(read_campaign(data / name))
        except UserError as error:
            wrong[name] = str(error)
    if wrong:
        rest = " ".join(name for name in names if name not in wrong)
        leave = f"leave {'it' if len(wrong) == 1 else 'them'} out"
        ways = f"`collector build {rest}` or moving the folder away from {data}" if rest else "moving the folder away"
        told = "\n".join(wrong.values())
        raise DataError(f"{told}\nnothing was written: mend this (`collector check` says more), or {leave} by {ways}")
    return read


def _check_name(folder: Path) -> None:
    if not CAMPAIGN_NAME.fullmatch(folder.name) or folder.name in RESERVED_NAMES:
        raise DataError(
            f"{folder}: a campaign's folder has lower-case letters, digits, dots and hyphens, "
            f"and is not called {RESERVED_NAMES[0]}; rename it, and the column campaign in its tables"
        )


def read_campaign(folder: Path) -> Campaign:
    """Read a campaign's files. A missing table is an empty one. Errors name file and line."""
    rows = _read(Row, folder / "rows.csv")
    failures = _read(Failure, folder / "failures.csv")
    check_objects(rows, str(folder / "rows.csv"))
    check_tables(folder, rows, failures)
    host = _text(folder / "host.json")
    if host is not None:
        _check_json(folder / "host.json", host)
    shown = tuple(one for one in failures if not made_good(one, rows))
    stored = stored_files(folder)
    plan, kept = _text(folder / "plan.yaml"), _text(PLANS / f"{folder.name}.yaml")
    return Campaign(
        name=folder.name,
        rows=tuple(rows),
        failures=shown,
        positions=tuple(_read(Position, folder / "positions.csv")),
        plan_text=plan,
        continuing=tuple(stored[name].decode() for name in sorted(stored) if CONTINUING.fullmatch(name)),
        plan_path=f"{PLANS.name}/{folder.name}.yaml" if plan and plan == kept else None,
        host_text=host,
        files=tuple(stored),
        tables=described(stored),
        profile=_profile() if plan and _emulates_it(plan, rows) else None,
        scripted=tuple(one.failure_id for one in shown if one.provenance == EMULATED and _scripted(one)),
    )


def read_published(folder: Path) -> Published | None:
    """Read the figures published elsewhere; None where there are none."""
    files = {name: _text(folder / name) for name in ("figures.csv", "failures.csv", "calibration.json")}
    texts = {name: text for name, text in files.items() if text is not None}
    if "figures.csv" not in texts:
        return None
    found = parse_published(texts, lambda name: str(folder / name), _profile())
    return replace(found, tables=described(stored_files(folder, PUBLISHED_TABLES)))


@cache
def _profile() -> Any:
    text = _text(PROFILE)
    return None if text is None else _check_json(PROFILE, text)


def _emulates_it(plan_text: str, rows: Sequence[Row]) -> bool:
    """Whether these rows are of the profile that was fitted to the published figures, which the plan names."""
    try:
        plan = parse_plan(plan_text, "plan.yaml")
    except PlanError:
        return False
    return bool(rows) and {row.provenance for row in rows} == {EMULATED} and plan.engine.profile == PROFILE.stem


def _scripted(failure: Failure) -> bool:
    """Whether the emulation was told to fail in these words, instead of finding that it must."""
    return any(
        one["log"].partition("\n")[0] in failure.cause
        and all(getattr(failure, name, value) == value for name, value in one["match"].items())
        for one in (_profile() or {}).get("outcomes", ())
    )


def _read(record: type[Record], path: Path) -> list[Record]:
    text = _text(path)
    return [] if text is None else from_csv(record, text, str(path))


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        line = path.read_bytes().count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: not UTF-8 text") from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def _check_json(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}: {error.msg}") from error


def _existing(folder: Path, what: str) -> Path:
    if not folder.is_dir():
        raise UserError(f"{folder}: not found; {what} come with a checkout of the repository")
    return folder
