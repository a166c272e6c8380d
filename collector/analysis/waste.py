"""What a drafter makes the target verify in vain."""

from __future__ import annotations

from dataclasses import dataclass

from collector.analysis.drafters import Drafter, in_order, is_of
from collector.analysis.formula import formula_of, printed_formula
from collector.analysis.published import GENERAL
from collector.analysis.quantity import Quantity
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
