"""Where a plan's models lie on this host, and which commit of their repository that is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from collector.core.command import engine_environment, expander
from collector.core.configuration import Configuration

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: `hf download --local-dir` keeps, for each file, a note whose first line is the commit.
_NOTES = ".cache/huggingface/download"
_SNAPSHOTS = "snapshots"


def is_here(path: str, environment: Mapping[str, str]) -> bool:
    """Return whether a model can be loaded without a download: a folder, or a repository in the cache."""
    if Path(path).is_dir():
        return True
    kept = _kept(path, environment)
    return kept is not None and any((kept / _SNAPSHOTS).glob("*/*"))


def commit_of(path: str, revision: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the commit of a model's repository; None where nothing on this host tells."""
    folder = Path(path)
    if folder.is_dir():
        real = folder.resolve()
        if real.parent.name == _SNAPSHOTS:
            return _commit(real.name)
        notes = sorted((folder / _NOTES).glob("*.metadata"))
        found = {_commit(_text(one).partition("\n")[0]) for one in notes}
        return found.pop() if len(found) == 1 else None
    kept = _kept(path, environment)
    if kept is None:
        return None
    return _commit(revision or "") or _commit(_text(kept / "refs" / (revision or "main")))


def commits(configuration: Configuration, variables: Mapping[str, str]) -> dict[str, str | None]:
    """Return the commits of a configuration's model and drafter. Raises PlanError where a ${NAME} is not set."""
    expand = expander(variables, f"configuration {configuration.label}")
    environment = dict(variables) | engine_environment(configuration, expand)
    drafter = expand(configuration.drafter) if configuration.drafter else None
    return {
        "model_commit": commit_of(expand(configuration.model_path), configuration.model_revision, environment),
        "drafter_commit": commit_of(drafter, None, environment) if drafter else None,
    }


def hub_cache(environment: Mapping[str, str]) -> Path | None:
    """Return the Hugging Face cache under an engine's environment; None where it has no home."""
    home = environment.get("HOME")
    base = environment.get("HF_HOME") or (environment.get("XDG_CACHE_HOME") or f"{home or ''}/.cache") + "/huggingface"
    stated = environment.get("HF_HUB_CACHE") or f"{base}/hub"
    return Path(stated) if home or not stated.startswith("/.cache") else None


def _kept(path: str, environment: Mapping[str, str]) -> Path | None:
    cache = hub_cache(environment)
    if cache is None or not _REPOSITORY.fullmatch(path):
        return None
    return cache / f"models--{path.replace('/', '--')}"


def _commit(text: str) -> str | None:
    return text.strip() if _COMMIT.fullmatch(text.strip()) else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
