"""The data page of a study: what can be taken from it, how to check it, and how to make it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from jinja2 import Environment

from collector.analysis.added import added
from collector.analysis.study import Study
from collector.core.rows import SCHEMA_VERSION, Row
from collector.report.evidence import FILES, FOLDERS
from collector.report.facts import facts
from collector.report.words import Words

#: Facts about host and versions; what varies between cells stands in the article.
FACTS = ("gpu_model", "cpu_model", "driver_version", "engine_kind", "engine_version", "image", "collector_version",
         "plan_digest")  # fmt: skip
#: Facts that host.json states too.
SAID = ("gpu_model", "gpu_count", "cpu_model", "driver_version")
TYPES = {".csv": "text/csv", ".json": "application/json", ".yaml": "application/yaml"}
#: A host states more than fits a page only by mistake or malice; host.json has it all.
HOST_LIMIT = 40


def data_page(study: Study, words: Words, environment: Environment, charts: Iterable[str]) -> str:
    """Return the page as Markdown. `charts` are the paths of the charts' files within the study's folder."""
    return environment.get_template("data.md.j2").render(
        study=study,
        facts=[one for one in facts(study.records) if one[0] in FACTS],
        host=_host(study.host_text),
        charts=_charts(charts),
        evidence={name: sum(one.startswith(f"{name}/") for one in study.files) for name in FOLDERS},
        added=added(study),
        types=TYPES,
        variables=_variables() if study.rows else [],
        schema_version=str(SCHEMA_VERSION),
        emulated="emulated" in study.provenances,
    )


def _variables() -> list[tuple[str, str]]:
    """Return the measured columns with a unit, for search engines of data sets."""
    return [(one.name, one.metadata["unit"]) for one in fields(Row) if one.metadata["unit"]]


def _charts(paths: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return each chart's name with the paths of its files."""
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        if path.startswith(f"{FILES}/charts/"):
            found.setdefault(path.rpartition("/")[2].rpartition(".")[0], []).append(path)
    return list(found.items())


def _host(text: str | None) -> list[tuple[str, str]]:
    """Return what host.json states, in its own words; build has seen that it is JSON."""
    stated: Any = json.loads(text) if text else {}
    items: Sequence[tuple[str, Any]] = list(stated.items()) if isinstance(stated, dict) else []
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in items[:HOST_LIMIT]
        if value not in (None, "", [], {}) and name not in SAID
    ]
