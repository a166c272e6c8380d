"""How many draft tokens a way of speculating got accepted, on the prompts of a pair and on others."""

from __future__ import annotations

from collections.abc import Iterable

from collector.analysis.compared import Pair
from collector.analysis.figures import Figure
from collector.analysis.quantity import Quantity, pooled_of, printed
from collector.analysis.study import Study
from collector.core.rows import Row

ACCEPTED, DRAFTED = "accepted_tokens", "draft_tokens"

#: An acceptance at or below this means that drafting was for nothing: the published runs of a drafter without
#: any accepted token showed single samples of up to 0.0069.
ACCEPTS_NOTHING = 0.01


def acceptance(study: Study, pair: Pair) -> Quantity | None:
    """Return the acceptance of a pair's own runs, pooled; None where nothing was drafted or printed."""
    if study.is_published:
        own = [one for one in _printed(study, pair) if one.labels.prompt_set == pair["prompt_set"]]
        same = [one for one in own if one.labels.num_speculative_tokens in (None, pair.num_speculative_tokens)]
        return printed(_widest(same)) if same else None
    ids = {name for point in pair.points for name in point.row_ids_on}
    return pooled_of((row for row in study.rows if row.row_id in ids), ACCEPTED, DRAFTED) if ids else None


def acceptance_elsewhere(study: Study, pair: Pair) -> Quantity | None:
    """Return the acceptance of the same model and method on all other prompts, whatever its k."""
    if study.is_published:
        others = [one for one in _printed(study, pair) if one.labels.prompt_set not in (None, pair["prompt_set"])]
        return printed(_widest(others)) if others else None
    return pooled_of((row for row in study.basis if _is_elsewhere(row, pair)), ACCEPTED, DRAFTED)


def accepts_nothing(found: Quantity | None) -> bool:
    return found is not None and found.value <= ACCEPTS_NOTHING


def _is_elsewhere(row: Row, pair: Pair) -> bool:
    same = ("provenance", "model", "speculation", "window_method")
    return row.prompt_set != pair["prompt_set"] and all(getattr(row, name) == pair[name] for name in same)


def _printed(study: Study, pair: Pair) -> list[Figure]:
    """Return the printed acceptances that speak of no single concurrency."""
    found = study.figures_of("acceptance_rate", model=pair["model"], speculation=pair["speculation"])
    return [one for one in found if one.labels.concurrency is None]


def _widest(figures: Iterable[Figure]) -> Figure:
    """Prefer the figure that pools most: a set before the sets below it."""
    return min(figures, key=lambda one: len(one.labels.prompt_set or ""))
