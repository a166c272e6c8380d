"""A line of failures.csv: one line, without secrets, and of the two witnesses the one that knows more."""

from __future__ import annotations

from typing import Any

from collector.core.plan import parse_plan
from collector.core.rows import Failure
from collector.measure.engines.interface import End
from collector.measure.failed import MeasurementError
from collector.measure.verdict import failure_of
from tests.measure.sweeping import PLAN

RUN = parse_plan(PLAN, "plan").runs[0]
LOG = "(APIServer pid=1) INFO:     Application startup complete.\n"


def _failure(error: MeasurementError, log: str = LOG, **changes: Any) -> Failure:
    columns: dict[str, Any] = {
        "stored_log": (log, "logs/x.log"),
        "secrets": ("swordfish-9",),
        "end": End(),
        "stopped_at": len(log),
        "was_ready": True,
        "campaign": "small",
        "provenance": "measured",
        "failed_at": "2026-01-01T00:00:00Z",
        "engine_kind": "process",
        "engine_version": "0.27.0",
        "row_id": None,
        "attempt": 1,
        "alive_s": 1.0,
    }
    return failure_of(error, RUN, **(columns | changes))


def test_a_key_that_the_engine_repeats_is_not_stored_and_a_cause_is_one_line() -> None:
    cause = "every request failed, the first with: 401 {\n 'error': 'Bearer swordfish-9 is wrong'}\n"
    failure = _failure(MeasurementError(category="crashed_serving", phase="serving", cause=cause))
    assert failure.cause == "every request failed, the first with: 401 { 'error': 'Bearer [hidden] is wrong'}"


def test_the_log_names_the_cause_where_the_sweep_saw_only_silence() -> None:
    log = "(EngineCore pid=2) ERROR 11-29 15:00:00 [core.py:1] RuntimeError: NCCL error: unhandled system error\n"
    error = MeasurementError(category="timeout", phase="weights", cause="no new log line", retryable=True)
    assert _failure(error, log, was_ready=False).category == "nccl_p2p"
    assert _failure(error, "", was_ready=False).category == "timeout"


def test_a_kill_while_serving_is_no_guess_about_memory_unless_the_runtime_says_so() -> None:
    error = MeasurementError(category=None, phase="", cause="the engine ended")
    killed = End(exit_code=137, exit_signal=9)
    assert _failure(error, end=killed, stopped_at=None).category == "crashed_serving"
    assert _failure(error, end=killed, stopped_at=None, was_ready=False, stored_log=("", None)).category == "oom_host"


def test_an_unknown_failure_keeps_the_three_likeliest_lines() -> None:
    log = "".join(f"(EngineCore pid=2) ERROR 11-29 15:00:0{i} [core.py:1] odd thing {i}\n" for i in range(4))
    error = MeasurementError(category=None, phase="", cause="the engine ended")
    failure = _failure(error, log, end=End(exit_code=1), stopped_at=None, was_ready=False)
    assert failure.category == "other"
    assert failure.cause.count(" || ") == 2
    assert "odd thing 0" in failure.cause


def test_a_failure_in_a_stage_is_one_while_serving() -> None:
    error = MeasurementError(category="environment", phase="ready", cause="odd")
    assert _failure(error, row_id="abc").phase == "serving"
