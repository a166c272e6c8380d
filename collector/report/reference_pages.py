"""The pages around the articles: method, glossary, what was not measured, and the source of published figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jinja2 import Environment

from collector.analysis.brackets import Bracket
from collector.analysis.figures import Figure, recomputed
from collector.analysis.noise import ERROR_SHARE, LEAST_EFFECT, LEAST_REPEATS, NOISE_MULTIPLE, UNKNOWN_ERROR
from collector.analysis.pairing import OFF
from collector.analysis.scope import Open, cells_of, left_open
from collector.analysis.study import Study
from collector.core.checks import CHECKS, HELD_LIMIT, OCCUPANCY_LIMIT, PREFIX_HIT_LIMIT
from collector.core.gpu_figures import NVLINK_BYTES_PER_TOKEN
from collector.core.prompt_names import PROMPT_SETS
from collector.report.published_files import Published
from collector.report.words import Words

#: The printed figure that says how far off a count of chunks is.
CHUNK_ERROR = "chunk_counting_error"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unmeasured:
    """What a campaign's rows leave open. Counts are of cells, rows or configurations, as named."""

    study: Study
    left: Open
    brackets: tuple[tuple[Bracket, tuple[tuple[str, str], ...]], ...]  # (model, prompt set) of each
    cells: int
    gpus: tuple[str, ...]
    engines: tuple[str, ...]
    concurrencies: tuple[int, ...]
    not_run: tuple[str, ...]  # checks that could not run in some row
    never_ran: int
    without_power: bool
    without_preemption: bool  # the counter was there and never moved


@dataclass(frozen=True, kw_only=True, slots=True)
class Disagreement:
    """A printed figure that its own printed throughputs do not give, with these throughputs."""

    figure: Figure
    over: Figure | None  # None for what is no ratio of speculation on and off
    under: Figure | None


def reference_pages(
    studies: Sequence[Study], published: Published | None, words: Words, environment: Environment
) -> dict[str, str]:
    """Return the pages as Markdown, by path."""
    shown: dict[str, dict[str, Any]] = {
        "method.md": _method(published),
        "glossary.md": {},
        "not-measured.md": {"entries": [_unmeasured(study) for study in studies], "published": published},
        "source.md": _source(published),
    }
    return {path: environment.get_template(f"{path}.j2").render(**context) for path, context in shown.items()}


def _method(published: Published | None) -> dict[str, Any]:
    figures = published.figures if published else ()
    return {
        "checks": tuple(CHECKS),
        "prompt_sets": PROMPT_SETS,
        "chunks": next((replace(one, unit="") for one in figures if one.metric == CHUNK_ERROR), None),
        "published": published,
        "PREFIX_HIT_LIMIT": PREFIX_HIT_LIMIT,
        "OCCUPANCY_LIMIT": OCCUPANCY_LIMIT,
        "HELD_LIMIT": HELD_LIMIT,
        "NVLINK_BYTES_PER_TOKEN": NVLINK_BYTES_PER_TOKEN,
        "NOISE_MULTIPLE": NOISE_MULTIPLE,
        "ERROR_SHARE": ERROR_SHARE,
        "LEAST_EFFECT": LEAST_EFFECT,
        "LEAST_REPEATS": LEAST_REPEATS,
        "UNKNOWN_ERROR": UNKNOWN_ERROR,
    }


def _unmeasured(study: Study) -> Unmeasured:
    rows = study.rows
    cells = cells_of(rows)
    left = left_open(study)
    preemptions = [row.preemptions for row in rows if row.preemptions is not None]
    return Unmeasured(
        study=study,
        left=left,
        brackets=_brackets(left),
        cells=len(cells),
        gpus=tuple(sorted({row.gpu_model for row in rows if row.gpu_model})),
        engines=tuple(sorted({row.engine_version for row in rows if row.engine_version})),
        concurrencies=tuple(sorted({row.concurrency for row in rows})),
        not_run=tuple(sorted({name for row in rows for name in row.checks_not_run.split()})),
        never_ran=len({one.configuration_id for one in study.failures} - {row.configuration_id for row in rows}),
        without_power=all(row.power_mean_w is None for row in rows),
        without_preemption=bool(preemptions) and not any(preemptions),
    )


def _brackets(left: Open) -> tuple[tuple[Bracket, tuple[tuple[str, str], ...]], ...]:
    """Put together what changes its sign in the same bracket."""
    found: dict[Bracket, dict[tuple[str, str], None]] = {}
    for one in left.brackets:
        named = (str(one.pair["model"]), str(one.pair.get("prompt_set") or ""))
        found.setdefault(one.bracket, {})[named] = None
    return tuple((ends, tuple(sorted(found[ends]))) for ends in sorted(found, key=lambda one: (one.low, one.high)))


def _source(published: Published | None) -> dict[str, Any]:
    figures = published.figures if published else ()
    found = recomputed(figures)
    return {
        "published": published,
        "checked": found,
        "disagreeing": [_disagreement(one.figure, figures) for one in found if not one.agrees],
    }


def _disagreement(figure: Figure, figures: Sequence[Figure]) -> Disagreement:
    throughputs = {one.labels: one for one in figures if one.metric == "system_throughput"}
    if figure.metric != "speculation_ratio":
        return Disagreement(figure=figure, over=None, under=None)
    off = replace(figure.labels, speculation=OFF, num_speculative_tokens=None)
    return Disagreement(figure=figure, over=throughputs.get(figure.labels), under=throughputs.get(off))
