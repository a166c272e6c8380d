"""Starts that failed, of rows or published ones, told alike; the same words of one setting are told once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from collector.analysis.study import PublishedFailure, Study
from collector.core.rows import Failure


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedStart:
    """What did not start, in the engine's words. `links` are the states of NVLink, none where it was not varied."""

    model: str
    series: str
    dtype: str
    speculation: str
    k: int | None
    links: tuple[str, ...]
    category: str
    words: str
    failure_ids: tuple[str, ...]


def failed_starts(study: Study) -> list[FailedStart]:
    """Return the failures of a study; those that differ only in NVLink or repeat are one."""
    grouped: dict[tuple[str, str, str, str, int | None, str, str], list[tuple[str | None, str]]] = {}
    every: Iterable[Failure | PublishedFailure] = (*study.failures, *study.published_failures)
    for one in every:
        known = one.labels if isinstance(one, PublishedFailure) else one
        words = one.message if isinstance(one, PublishedFailure) else one.cause
        what = (known.model or "", known.series or "", known.kv_cache_dtype or "", known.speculation or "")
        key = (*what, known.num_speculative_tokens, one.category, words)
        grouped.setdefault(key, []).append((known.nvlink, one.failure_id))
    return [
        FailedStart(
            model=model,
            series=series,
            dtype=dtype,
            speculation=speculation,
            k=k,
            links=tuple(sorted({link for link, _ in found if link}, reverse=True)),
            category=category,
            words=words,
            failure_ids=tuple(one for _, one in found),
        )
        for (model, series, dtype, speculation, k, category, words), found in grouped.items()
    ]
