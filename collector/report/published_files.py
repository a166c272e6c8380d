"""The files under data/published, parsed: figures, failed starts and the errors of a calibration."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from collector.analysis.figures import Figure, Labels
from collector.analysis.study import PublishedFailure, StoredFile
from collector.core.errors import DataError

Line = Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """data/published, and the profile whose parameters were fitted to it."""

    figures: tuple[Figure, ...]
    failures: tuple[PublishedFailure, ...] = ()
    sources: tuple[str, ...] = ()
    calibration: Mapping[str, Any] | None = None
    profile: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[StoredFile, ...] = ()


def parse_published(
    texts: Mapping[str, str], name: Callable[[str], str], profile: Mapping[str, Any] | None = None
) -> Published:
    """Parse the files by their names; `name` says what to call one in an error."""
    lines = _lines(texts.get("figures.csv", ""), name("figures.csv"), _figure)
    failures = _lines(texts.get("failures.csv", ""), name("failures.csv"), _failure)
    failures = [(replace(one, failure_id=f"P{place:03}"), source) for place, (one, source) in enumerate(failures, 1)]
    return Published(
        figures=tuple(figure for figure, _ in lines),
        failures=tuple(failure for failure, _ in failures),
        sources=tuple(dict.fromkeys(source for _, source in (*lines, *failures))),
        calibration=_calibration(texts.get("calibration.json"), name("calibration.json")),
        profile=profile or {},
    )


def _lines(text: str, name: str, parse: Callable[[Line], Any]) -> list[tuple[Any, str]]:
    reader = csv.DictReader(io.StringIO(text))
    found = []
    for line in reader:
        try:
            found.append((parse(line), line["source"]))
        except KeyError as error:
            raise DataError(f"{name}, line 1: has no column {error}") from error
        except (ValueError, TypeError) as error:
            raise DataError(f"{name}, line {reader.line_num}: {error}") from error
    return found


def _figure(line: Line) -> Figure:
    return Figure(
        figure_id=line["figure_id"],
        section=line["section"],
        labels=_labels(line, concurrency=_whole(line["concurrency"]), prompt_set=line["prompt_set"] or None),
        metric=line["metric"],
        value=float(line["value"]),
        unit=line["unit"],
        resolution=float(line["resolution"]),
        note=line["note"],
    )


def _failure(line: Line) -> PublishedFailure:
    memory = f" (GPU {line['gpu']}: {line['free_mib']} MiB free of {line['total_gib']} GiB)" if line["free_mib"] else ""
    return PublishedFailure(
        failure_id="", labels=_labels(line), category=line["category"], message=f"{line['engine_message']}{memory}"
    )


def _labels(line: Line, concurrency: int | None = None, prompt_set: str | None = None) -> Labels:
    return Labels(
        model=line["model"] or None,
        kv_cache_dtype=line["kv_cache_dtype"] or None,
        speculation=line["speculation"] or None,
        num_speculative_tokens=_whole(line["num_speculative_tokens"]),
        nvlink=line["nvlink"] or None,
        concurrency=concurrency,
        prompt_set=prompt_set,
        series=line["series"] or None,
    )


def _whole(text: str) -> int | None:
    return int(text) if text else None


def _calibration(text: str | None, name: str) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{name}, line {error.lineno}: {error.msg}") from error
    if not isinstance(found, dict):
        raise DataError(f"{name}: an object is expected")
    return found
