"""What went wrong with an engine, from what the sweep saw and what the log says, as a line of failures.csv."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from collector.core.configuration import Run, content_id
from collector.core.due import HOST_DOWN
from collector.core.failures import Verdict, diagnose
from collector.core.rows import SCHEMA_VERSION, Failure
from collector.core.secrets import redact
from collector.measure.engines.interface import End
from collector.measure.failed import CellRefusedError, MeasurementError

#: Verdicts of a log that say less than what the sweep itself saw.
_SAYS_NOTHING = ("ok", "other")
#: What the sweep saw for itself, whatever the log says.
_SEEN = ("environment", "port_in_use", "container", HOST_DOWN)
#: The engine was ready and then failed: that wins over the kind of its last error.
_SERVING = "crashed_serving"


def failure_of(
    error: MeasurementError,
    run: Run,
    *,
    stored_log: tuple[str, str | None],
    secrets: Sequence[str],
    end: End,
    stopped_at: int | None,
    was_ready: bool,
    **columns: Any,
) -> Failure:
    """Return the failure. `columns`: those of Failure that the caller knows as they are."""
    log_text, log_name = stored_log
    log = diagnose(
        log_text,
        exit_code=end.exit_code,
        oom_killed=bool(end.oom_killed),
        was_ready=was_ready,
        stopped_at=stopped_at,
    )
    verdict = _weigh(error, log, was_ready=was_ready, end=end)
    refused = isinstance(error, CellRefusedError)
    if columns["row_id"] and not refused:  # the sweep knows that a stage was under way, whatever the log's last word
        verdict = replace(verdict, phase="serving")
    c, numbers = run.configuration, verdict.numbers
    estimate = numbers.get("max_model_len_estimate")
    identity = {"configuration": c.configuration_id, "repeat": run.repeat, "attempt": columns["attempt"]}
    identity |= {"row": columns["row_id"]} if refused else {}  # of which one attempt may have several
    return Failure(
        schema_version=SCHEMA_VERSION,
        failure_id=content_id(identity),
        configuration_id=c.configuration_id,
        repeat=run.repeat,
        series=c.series,
        model=c.model,
        kv_cache_dtype=c.kv_cache_dtype,
        speculation=c.speculation,
        num_speculative_tokens=c.num_speculative_tokens,
        nvlink=c.nvlink,
        category=verdict.category,
        phase=verdict.phase,
        # Where nothing is known for sure, the likeliest lines are kept and none is picked.
        cause=redact(" ".join(" || ".join(verdict.candidates or (verdict.cause,)).split()), secrets),
        kv_gib_needed=numbers.get("kv_gib_needed"),
        kv_gib_available=numbers.get("kv_gib_available"),
        gib_tried=numbers.get("gib_tried"),
        gib_free=numbers.get("gib_free"),
        max_model_len_estimate=round(estimate) if estimate is not None else None,
        exit_code=end.exit_code,
        exit_signal=end.exit_signal,
        oom_killed=end.oom_killed,
        retryable=verdict.retryable,
        log=log_name,
        **columns,
    )


def _weigh(error: MeasurementError, log: Verdict, *, was_ready: bool, end: End) -> Verdict:
    """Let the log name the cause where it does; keep what the sweep saw where the log is silent."""
    silent = log.category in _SAYS_NOTHING
    if error.category is None:
        # SIGKILL without a word suggests the host's memory only while starting, or where the runtime says so.
        guessed = log.category == "oom_host" and was_ready and not end.oom_killed
        if not log.silent and not guessed:
            return log
        how = f"signal {end.exit_signal}" if end.exit_signal else f"exit code {end.exit_code}"
        category = _SERVING if was_ready else "worker_died"
        phase = "serving" if was_ready else log.phase
        return _own(category, phase, f"the engine ended with {how} and no word of its own", retryable=True)
    if silent or error.category in _SEEN or isinstance(error, CellRefusedError):
        return _own(error.category, error.phase or log.phase, error.cause, retryable=error.retryable)
    category = _SERVING if error.category == _SERVING else log.category
    return _own(category, error.phase or log.phase, log.cause, retryable=log.retryable, log=log)


def _own(category: str, phase: str, cause: str, *, retryable: bool, log: Verdict | None = None) -> Verdict:
    numbers = log.numbers if log else {}
    return Verdict(category=category, phase=phase, cause=cause, numbers=numbers, retryable=retryable, candidates=())
