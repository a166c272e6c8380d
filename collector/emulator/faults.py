"""Faults on request: an engine that fails in a known way, for whoever tests what fails with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collector.core.errors import UserError

Seconds = Annotated[float, Field(ge=0)]
Number = Annotated[int, Field(ge=1)]


class Faults(BaseModel):
    """All off by default. Tokens are those generated since the engine was ready, warm-up included."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    refuse: str | None = Field(None, description="Do not start: fail while loading, with this error in the log")
    refuse_exit_code: int = Field(1, description="Exit code of `refuse`")
    gpu_held_gib: Seconds = Field(0.0, description="Another process holds so much of each GPU when the engine starts")
    slow_start_s: Seconds = Field(0.0, description="Loading takes so much longer, with lines of progress all the while")
    hang_in_load: bool = Field(False, description="Loading never ends and the log falls silent")
    die_after_tokens: Number | None = Field(None, description="A worker dies in the step that reaches so many tokens")
    die_exit_code: int = Field(0, description="Exit code then; vLLM's front end ends with 0")
    die_silently: bool = Field(False, description="Then end as if killed: nothing in the log, connections cut")
    hang_after_tokens: Number | None = Field(None, description="Stop stepping at so many tokens; all routes answer on")
    reset_after_tokens: Number | None = Field(None, description="Set all counters back to 0 at so many tokens, once")
    drop_series: tuple[str, ...] = Field((), description="Leave these families out of /metrics; `vllm:` may be omitted")
    fail_every: Number | None = Field(None, description="Answer every n-th completion with status 500")
    answer_delay_s: Seconds = Field(0.0, description="Every route waits so long before it answers")


def parse_faults(faults: Mapping[str, Any]) -> Faults:
    """Read faults by name. Raises UserError for one that does not exist, or a value that does not fit."""
    try:
        return Faults.model_validate(dict(faults))
    except ValidationError as error:
        first = error.errors()[0]
        known = ", ".join(Faults.model_fields)
        raise UserError(f"fault {'.'.join(map(str, first['loc']))}: {first['msg']}; the faults are {known}") from error
