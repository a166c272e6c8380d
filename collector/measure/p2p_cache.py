"""vLLM's cache of which GPUs reach each other: where it lies, what it says, and clearing it.

It survives a start, so that one with NVLink off would take over what one with NVLink on has found. Both arms
therefore begin without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from collector.core.configuration import Configuration
from collector.core.doctor.facts import P2pCache
from collector.core.plan_schema import CONTAINER_HOME
from collector.measure.failed import MeasurementError

PATTERN = "gpu_p2p_access_cache_for_*.json"


def cache_root(environment: Mapping[str, str]) -> Path | None:
    """Return vLLM's cache folder under an engine's environment, by vLLM's own rule; None where it has no home."""
    home = environment.get("HOME")
    stated = environment.get("VLLM_CACHE_ROOT")
    if stated is None:
        base = environment.get("XDG_CACHE_HOME", None if home is None else f"{home}/.cache")
        stated = None if base is None else f"{base}/vllm"
    if stated is None or (stated.startswith("~") and home is None):
        return None
    return Path(f"{home}{stated[1:]}" if stated.startswith("~/") else stated)


def cache_files(root: Path | None) -> tuple[Path, ...]:
    """Return the cache's files (one a set of visible GPUs)."""
    return tuple(sorted(root.glob(PATTERN))) if root else ()


def clear_for(configuration: Configuration, root: Path | None) -> None:
    """Remove the cache before a start whose configuration names NVLink. Raises MeasurementError where it cannot."""
    if configuration.nvlink is None:
        return
    for one in cache_files(root):
        try:
            one.unlink(missing_ok=True)
        except OSError as error:
            cause = f"vLLM's P2P cache {one.name} cannot be removed before a start with NVLink {configuration.nvlink}"
            raise MeasurementError(
                category="environment", phase="launch", cause=f"{cause}: {error.strerror}", retryable=True
            ) from error


def container_root(environment: Mapping[str, str], folders: Iterable[tuple[str, str]]) -> Path | None:
    """Return the host's folder that is vLLM's cache in a container; None where the cache ends with the container."""
    return mounted(cache_root({"HOME": CONTAINER_HOME} | dict(environment)), folders)


def mounted(inside: Path | None, folders: Iterable[tuple[str, str]]) -> Path | None:
    """Return the host's folder of one in a container; `folders`: source and target of each mount. None: not mounted."""
    best: tuple[int, Path] | None = None
    for source, target in folders:
        if inside and inside.is_relative_to(target) and (best is None or len(target) > best[0]):
            best = len(target), Path(source) / inside.relative_to(target)
    return best[1] if best else None


def inspect(root: Path | None, booted_at: float | None) -> tuple[P2pCache, ...]:
    """Return what the cache says. `booted_at`: the host's start, seconds since the epoch."""
    return tuple(_inspected(one, booted_at) for one in cache_files(root))


def _inspected(path: Path, booted_at: float | None) -> P2pCache:
    try:
        stored, written = json.loads(path.read_text(encoding="utf-8")), path.stat().st_mtime
    except (OSError, ValueError):
        return P2pCache(path=str(path), grants=None, before_boot=None)
    return P2pCache(
        path=str(path), grants=_grants(stored), before_boot=None if booted_at is None else written < booted_at
    )


def _grants(stored: object) -> bool | None:
    """Return what the cache says of pairs of two: a key is `0->1`."""
    if not isinstance(stored, dict):
        return None
    pairs = {key: value for key, value in stored.items() if len(set(str(key).split("->"))) == 2}
    answers = set(map(bool, pairs.values()))
    return answers.pop() if len(answers) == 1 else None
