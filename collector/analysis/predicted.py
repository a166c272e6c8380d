"""What the roofline predicts for a step beside what it took, and how much of what speculation adds is arithmetic.

Only for emulated rows whose profile gives the model's dimensions: of a real host nobody has fitted them. The load is a
full batch in the middle of its answers, without prefill, so what was counted lies above by what prefills cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from collector.analysis.left_open import EMULATED
from collector.analysis.quantity import By, Quantity
from collector.analysis.step_time import Part
from collector.core.hardware import configured
from collector.core.roofline import StepBreakdown
from collector.core.rows import Row
from collector.core.speculative import is_plain
from collector.core.step import StepLoad

#: Why there is no prediction: nobody fitted the hardware that was measured, the profile knows no dimensions for this
#: configuration, k changes from step to step, or by the roofline speculation adds nothing to a step.
WhyNot = Literal["measured", "unknown", "varies", "nothing_added"]

#: A whole step in seconds; of what speculation adds to it, the share of verifying and that of the drafter.
STEP: By = "predicted"
SHARE: By = "predicted_share"


@dataclass(frozen=True, kw_only=True, slots=True)
class Predicted:
    """A pair at one concurrency. `verification`, `drafter`: shares of the time that speculation adds to a step."""

    on: Quantity  # s
    off: Quantity
    verification: Quantity
    drafter: Quantity


def predicted(part: Part, profile: Mapping[str, Any] | None) -> Predicted | None:
    """Return what the profile's roofline predicts; None where it knows no dimensions, or the rows are no emulation."""
    if not part.rows_on or not part.rows_off or profile is None:
        return None
    on, off = part.rows_on[0], part.rows_off[0]
    over, under = breakdown(on, profile), breakdown(off, profile)
    if over is None or under is None or over.total <= under.total:
        return None
    added = over.total - under.total
    computed = over.weights + over.head - under.weights - under.head
    ids, base = (on.row_id,), (off.row_id,)
    return Predicted(
        on=Quantity(value=over.total, by=STEP, of="total", ids=ids),
        off=Quantity(value=under.total, by=STEP, of="total", ids=base),
        verification=Quantity(value=computed / added, by=SHARE, of="weights+head", ids=ids, base=base),
        drafter=Quantity(value=(over.drafter - under.drafter) / added, by=SHARE, of="drafter", ids=ids, base=base),
    )


def why_not(part: Part, profile: Mapping[str, Any] | None) -> WhyNot:
    """Return why a part has no prediction."""
    rows = (*part.rows_on[:1], *part.rows_off[:1])
    if any(row.provenance != EMULATED for row in rows):
        return "measured"
    if not all(is_plain(row.speculative_config) for row in rows):
        return "varies"
    known = profile is not None and len(rows) == 2 and all(breakdown(row, profile) for row in rows)
    return "nothing_added" if known else "unknown"


def breakdown(row: Row, profile: Mapping[str, Any]) -> StepBreakdown | None:
    """Return the seconds of one decode step of a row's full batch, by what they are spent on."""
    dimensions = profile.get("models", {}).get(row.model, {}).get("dimensions")
    known = row.provenance == EMULATED and row.prompt_tokens_mean is not None and is_plain(row.speculative_config)
    if not dimensions or not known or "hardware" not in profile:
        return None
    try:
        model = configured(
            profile["hardware"],
            dimensions,
            kv_dtype=row.kv_cache_dtype,
            method=row.speculation,
            nvlink=row.nvlink,
            tensor_parallel=row.tensor_parallel,
        )
    except KeyError:  # a dtype, method or backend that the profile says nothing of
        return None
    k, batch = row.num_speculative_tokens or 0, row.concurrency
    context = round(batch * ((row.prompt_tokens_mean or 0.0) + row.output_tokens / 2))
    return model.step_time(
        StepLoad(
            prefill_positions=0,
            decode_positions=batch * (k + 1),
            requests=batch,
            decoding=batch,
            kv_read_tokens=context,
            kv_read_tokens_sliding=context,
            drafted_per_request=k,
            drafting=batch if k else 0,
            sampled=batch * (k + 1),
        )
    )
