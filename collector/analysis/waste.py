"""What a drafter costs besides its time: weights on each card, positions to verify, and those verified in vain."""

from __future__ import annotations

from dataclasses import dataclass

from collector.analysis.drafters import Drafter, in_order, is_of
from collector.analysis.formula import formula_of, printed_formula
from collector.analysis.pairing import SPECULATING, SPECULATION
from collector.analysis.published import GENERAL
from collector.analysis.quantity import Quantity, difference_of, usable
from collector.analysis.step_time import POSITIONS as WIDTH
from collector.analysis.study import Study

#: Share of the drafted tokens that were not accepted.
WASTE = "(draft_tokens-accepted_tokens)/draft_tokens"
#: Positions that the target verified for each token that came of them: a draft's, and the one after it.
POSITIONS = "(draft_tokens+drafts)/(accepted_tokens+drafts)"
#: The same two of a printed acceptance, where every draft is as long as k.
PRINTED_WASTE = "1-acceptance_rate"
PRINTED_POSITIONS = "(num_speculative_tokens+1)/(num_speculative_tokens*acceptance_rate+1)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Waste:
    """The waste of a drafter: on the general prompts where they are known, else on others."""

    prompts: str
    share: Quantity  # of the drafted tokens
    per_token: Quantity | None  # positions


def waste_of(study: Study, drafter: Drafter) -> Waste | None:
    """Return the waste of a drafter; None where no acceptance is known."""
    for prompts in (GENERAL, *in_order(drafter.rate)):
        if prompts not in drafter.rate:
            continue
        rows = [row for row in drafter.rows if is_of(row, prompts)]
        share, per_token = formula_of(rows, WASTE), formula_of(rows, POSITIONS)
        if study.is_published:
            figures = [one for one in study.figures if one.figure_id in drafter.rate[prompts].ids]
            share, per_token = printed_formula(figures, PRINTED_WASTE), printed_formula(figures, PRINTED_POSITIONS)
        if share:
            return Waste(prompts=prompts, share=share, per_token=per_token)
    return None


def width_of(study: Study, drafter: Drafter) -> Quantity | None:
    """Return the positions that the target verifies for a request in a step, at most: k + 1."""
    if study.is_published:
        return printed_formula([one for one in study.figures if one.figure_id in drafter.ids[:1]], WIDTH)
    return formula_of(drafter.rows[:1], WIDTH)


def loaded_of(study: Study, drafter: Drafter) -> Quantity | None:
    """Return the drafter's weights on each card, GiB: what the engine loaded with it less what it loaded without.

    One row of each side says it: what is loaded does not depend on the load. None where the logs do not.
    """
    rows = {row.row_id: row for row in study.rows}
    for pair in study.pairs(SPECULATION):
        if all(pair.get(name) == drafter[name] for name in ("model", *SPECULATING)):
            for point in pair.measured:
                sides = ([rows[one] for one in ids if one in rows] for ids in (point.row_ids_on, point.row_ids_off))
                on, off = (usable(side, "model_load_gib")[:1] for side in sides)
                if found := difference_of(on, off, "model_load_gib"):
                    return found
    return None
