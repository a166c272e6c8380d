"""The cause of a failed start, on recorded logs, on logs built from single messages, and on any text at all."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.core.failure_rules import RULES
from collector.core.failure_words import GPU_OOM, OOM_BY_PHASE, PHASE_FRAMES, PHASE_MARKS
from collector.core.failures import CATEGORIES, PHASES, Verdict, diagnose

DATA = Path(__file__).parent.parent / "data"
LOGS = DATA / "vllm" / "logs"

API = "(APIServer pid=1) "
ENGINE = "(EngineCore pid=22) "
AT = "ERROR 11-29 10:02:00 [multiproc_executor.py:912] "
AT_CORE = "ERROR 11-29 10:02:01 [core.py:1349] "
AT_LLM = "ERROR 11-29 10:02:01 [async_llm.py:724] "
TRACEBACK = "Traceback (most recent call last):"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB."
NCCL = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, remote process exited"


@dataclass(frozen=True)
class Case:
    """One message of the engine, the layer that says it, and what it must be called."""

    name: str
    source: str
    layer: str
    said: list[str]
    expected: dict[str, Any]
    frames: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    flags: dict[str, Any] = field(default_factory=dict)


CASES = [Case(**case) for case in json.loads((DATA / "failure_cases.json").read_text(encoding="utf-8"))]
RECORDED: list[dict[str, Any]] = json.loads((LOGS / "index.json").read_text(encoding="utf-8"))


def traceback(prefix: str, said: Sequence[str], frames: Sequence[str] = ()) -> list[str]:
    """Print a traceback as one process does: every line under its prefix."""
    lines = [TRACEBACK]
    for frame in ("v1/executor/multiproc_executor.py:worker_main", *frames):
        file, _, function = frame.partition(":")
        lines += [
            f'  File "/opt/vllm/lib/site-packages/vllm/{file}", line 7, in {function}',
            "    call()",
            "    ^^^^^^",
        ]
    return [f"{prefix}{line}" for line in (*lines, *said)]


def api_wrapper(core: str = "{}") -> list[str]:
    return traceback(
        API, [f"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {core}"]
    )


def engine_wrapper() -> list[str]:
    said = (
        "Exception: WorkerProc initialization failed due to an exception in a background process. "
        "See stack trace for root cause."
    )
    return [
        f"{ENGINE}{AT_CORE}EngineCore failed to start.",
        *traceback(ENGINE + AT_CORE, [said]),
        f"{ENGINE}Process EngineCore:",
        *traceback(ENGINE, [said]),
        *api_wrapper(),
    ]


def worker(rank: int, said: Sequence[str], frames: Sequence[str] = ()) -> list[str]:
    prefix = f"(Worker_TP{rank} pid={30 + rank}) "
    return [f"{prefix}{AT}WorkerProc failed to start.", *traceback(prefix + AT, said, frames)]


def crash(said: Sequence[str], frames: Sequence[str]) -> list[str]:
    prefix = "(Worker_TP0 pid=30) "
    dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)"
    return [
        f"{prefix}{AT}WorkerProc hit an exception.",
        *traceback(prefix + AT, said, frames),
        f"{ENGINE}{AT_CORE}EngineCore encountered a fatal error.",
        *traceback(
            ENGINE + AT_CORE,
            [f"RuntimeError: Worker failed with error '{said[0]}', please check the stack trace above for the"],
        ),
        f"{API}{AT_LLM}AsyncLLM output_handler failed.",
        *traceback(API + AT_LLM, [dead]),
        f"{API}INFO:     Shutting down",
    ]


def build(case: Case) -> str:
    """Put a message into the layers of processes that repeat it."""
    layers = {
        "plain": case.said,
        "argparse": ["usage: vllm serve [model_tag] [options]", *case.said],
        "api": traceback(API, case.said, case.frames),
        "silent": api_wrapper(),
        "wrappers": engine_wrapper(),
    }
    if case.layer == "worker":
        body = [*worker(0, case.said, case.frames), *engine_wrapper()]
    elif case.layer == "engine":
        once = traceback(ENGINE + AT_CORE, case.said, case.frames)
        again = traceback(ENGINE, case.said, case.frames)
        gone = f"{ENGINE}{AT}Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down executor."
        body = [f"{ENGINE}{AT_CORE}EngineCore failed to start.", *once, gone, *again, *api_wrapper()]
    elif case.layer == "crash":
        body = crash(case.said, case.frames)
    else:
        body = layers[case.layer]
    return "\n".join([*case.before, *body, *case.after]) + "\n"


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: str(recorded["log"]))
def test_a_recorded_log_gets_its_category_and_its_cause(recorded: dict[str, Any]) -> None:
    log = (LOGS / recorded["log"]).read_text(encoding="utf-8")
    with_code = diagnose(log, exit_code=recorded["exit_code"])
    assert with_code.category == recorded["category"]
    assert diagnose(log) == with_code, "the log alone must be enough"
    cause = recorded["root_cause"] or ""
    if not cause.startswith("UNKNOWN"):
        assert with_code.cause.startswith(cause)
        assert bool(with_code.cause) == bool(cause)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
def test_a_message_of_the_engine_gets_its_category(case: Case) -> None:
    verdict = diagnose(build(case), **case.flags)
    expected = case.expected
    assert verdict.category == expected["category"], verdict
    assert verdict.phase == expected.get("phase", verdict.phase)
    assert verdict.retryable is expected.get("retryable", verdict.retryable)
    assert expected.get("cause", "") in verdict.cause
    for name, value in expected.get("numbers", {}).items():
        assert verdict.numbers[name] == pytest.approx(value), name


def test_the_other_ranks_broken_collective_is_not_the_cause() -> None:
    """A rank that was fine reports NCCL or its connection, sooner or later than the one that failed."""
    for first, second in ((0, 1), (1, 0)):
        failed = worker(first, ["ValueError: fp8_e5m2 kv-cache is not supported with fp8 checkpoints."])
        for other in (NCCL, "RuntimeError: NCCL error: unhandled system error", "EOFError"):
            follower = worker(second, [other])
            for log in ([*failed, *follower], [*follower, *failed]):
                assert diagnose("\n".join([*log, *engine_wrapper()])).category == "kv_dtype"


def test_an_unknown_error_before_a_broken_collective_stays_the_cause() -> None:
    log = [*worker(1, ["ValueError: the moon is wrong"]), *worker(0, [NCCL]), *engine_wrapper()]
    verdict = diagnose("\n".join(log))
    assert verdict.category == "other"
    assert verdict.cause == verdict.candidates[0] == "ValueError: the moon is wrong"


def test_two_ranks_that_speak_at_once_are_told_apart() -> None:
    """Lines of several processes alternate; each has its own traceback, frames and message."""
    one = worker(0, [OOM], ["v1/worker/gpu_worker.py:load_model"])
    two = worker(1, [OOM.replace("1.00", "2.00")], ["v1/worker/gpu_worker.py:load_model"])
    log = [line for pair in zip(one, two, strict=True) for line in pair]
    verdict = diagnose("\n".join([*log, *engine_wrapper()]))
    assert (verdict.category, verdict.phase, verdict.numbers) == ("oom_weights", "weights", {"gib_tried": 1.0})


@pytest.mark.parametrize(
    "wrap",
    [
        lambda line: f"vllm-1  | {line}",
        lambda line: f"2026-11-29T10:02:00.123456789Z {line}",
        lambda line: line.replace("(Worker", "\x1b[1;36m(Worker").replace(") ", ")\x1b[0;0m ", 1),
        lambda line: line.replace("(Worker", "[0;36m(Worker").replace(") ", ")[0;0m ", 1),
        lambda line: line + "\r",
        lambda line: line.replace("[multiproc_executor.py:912]", "[v1/executor/multiproc_executor.py:912]"),
        lambda line: line.replace("Worker_TP0 pid=30", "VllmWorker rank=0 pid=30"),
        lambda line: line.replace("(Worker_TP0 pid=30) ERROR 11-29 10:02:00 [multiproc_executor.py:912] ", "[rank0]: "),
    ],
    ids=["compose", "timestamps", "colours", "colours-without-escape", "crlf", "paths", "older-names", "ranks"],
)
def test_prefixes_of_other_versions_and_of_docker_are_taken_off(wrap: Any) -> None:
    said = "RuntimeError: Cannot find any model weights with `/models/none`"
    log = "\n".join(wrap(line) for line in worker(0, [said], ["v1/worker/gpu_worker.py:load_model"]))
    verdict = diagnose(log)
    assert (verdict.category, verdict.phase, verdict.cause) == ("model_files", "weights", said)


def test_what_comes_after_the_collectors_own_stop_does_not_count() -> None:
    start = "(APIServer pid=1) INFO:     Application startup complete.\n"
    noise = "\n".join(crash(["RuntimeError: cancelled"], []))
    assert diagnose(start + noise, exit_code=143).category == "crashed_serving"
    assert diagnose(start + noise, exit_code=143, stopped_at=len(start)).category == "ok"
    assert diagnose(start, exit_code=137, stopped_at=len(start)).category == "ok"


def test_a_failure_before_the_collectors_own_stop_does_count() -> None:
    log = "\n".join([*worker(0, ["RuntimeError: UVA is not available"]), "", "the rest"])
    assert diagnose(log, exit_code=137, stopped_at=len(log) - 3).category == "container"


def test_a_dead_engine_is_found_although_the_server_ended_well() -> None:
    log = (LOGS / "worker_sigkill_while_serving.log").read_text(encoding="utf-8")
    verdict = diagnose(log, exit_code=0)
    assert verdict.category == "crashed_serving"
    assert verdict.cause.startswith("Worker proc VllmWorker-0 died unexpectedly")
    assert verdict.retryable


def test_a_client_that_hangs_up_is_no_crash() -> None:
    log = [
        f"{API}INFO:     Application startup complete.",
        f'{API}INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
        *traceback(API, ["ConnectionResetError: [Errno 104] Connection reset by peer"]),
        *traceback(API, ["ValueError: This model's maximum context length is 4096 tokens."]),
    ]
    assert diagnose("\n".join(log)).category == "ok"


def test_host_memory_is_named_only_where_no_error_says_otherwise() -> None:
    known = "\n".join(worker(0, [OOM], ["v1/worker/gpu_worker.py:load_model"]))
    assert diagnose(known, exit_code=137).category == "oom_weights"
    assert diagnose("\n".join(engine_wrapper()), oom_killed=True).category == "oom_host"
    assert diagnose("\n".join(engine_wrapper()), exit_code=1).category == "worker_died"


def test_the_caller_may_know_better_whether_it_was_ready() -> None:
    died = f"{ENGINE}{AT}Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor."
    assert diagnose(died).category == "worker_died"
    assert diagnose(died, was_ready=True).category == "crashed_serving"
    assert diagnose(died, was_ready=True).numbers == {"exit_code": -9.0}


@pytest.mark.parametrize(
    ("exit_code", "category"),
    [
        (None, "other"),
        (0, "other"),
        (1, "other"),
        (2, "other"),
        (125, "container"),
        (137, "oom_host"),
        (139, "worker_died"),
        (-9, "worker_died"),
        (-11, "worker_died"),
    ],
)
def test_without_a_sign_in_the_log_the_exit_code_decides(exit_code: int | None, category: str) -> None:
    assert diagnose("INFO 11-29 10:00:00 [a.py:1] still fine\n", exit_code=exit_code).category == category


def test_waiting_for_a_rank_is_a_timeout_only_when_nothing_else_happens() -> None:
    waiting = "(EngineCore pid=2) INFO 11-29 10:00:00 [shm_broadcast.py:1] No available shared memory broadcast block\n"
    waiting = waiting.replace("block\n", "block found in 60 seconds.\n")
    assert diagnose(waiting * 2).silent
    assert diagnose(waiting * 9).category == "timeout"
    assert diagnose(waiting * 9 + "INFO 11-29 10:09:00 [monitor.py:1] torch.compile took 530 s in total").silent
    assert diagnose(waiting, exit_code=1).category == "timeout"


@pytest.mark.parametrize("log", sorted(LOGS.glob("ok-*.log")), ids=lambda log: log.stem)
def test_a_healthy_log_cut_anywhere_shows_no_cause_and_is_ok_once_it_was_ready(log: Path) -> None:
    lines = log.read_text(encoding="utf-8").split("\n")
    ready = next(place for place, line in enumerate(lines) if "Application startup complete" in line)
    for step in range(0, len(lines) + 1, 1 if len(lines) < 300 else 7):
        verdict = diagnose("\n".join(lines[:step]))
        assert verdict.silent, step
        assert verdict.category == ("ok" if step > ready else "other"), step
        if step <= ready:
            assert verdict.cause in (
                "the log is empty",
                f"the log ends in phase {verdict.phase}, before the engine was ready",
            )


def test_every_rule_names_a_known_category_and_phase() -> None:
    assert {rule.category for rule in RULES} <= {*CATEGORIES, GPU_OOM}
    assert {rule.phase for rule in RULES} <= {*PHASES, ""}
    assert tuple(OOM_BY_PHASE) == PHASES
    assert {*OOM_BY_PHASE.values()} <= {*CATEGORIES}
    assert {phase for _, phase in PHASE_MARKS} | {*PHASE_FRAMES.values()} <= {*PHASES}


def test_every_category_a_log_can_show_has_a_case() -> None:
    """`host_down` is told by the host's boot id, never by a log."""
    shown = {case.expected["category"] for case in CASES}
    assert shown == {*CATEGORIES} - {"host_down"}


def is_well_formed(verdict: Verdict) -> bool:
    return (
        (verdict.category == "ok" or verdict.category in CATEGORIES)
        and verdict.phase in PHASES
        and "\n" not in verdict.cause
        and len(verdict.cause) <= 2_000
        and len(verdict.candidates) <= 3
        and (verdict.category != "ok" or verdict.cause == "")
        and json.dumps(dict(verdict.numbers), allow_nan=False) != ""
    )


WORDS = st.sampled_from(
    sorted({line for case in CASES for line in (*case.said, *case.before, *build(case).splitlines()[:3])})
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(WORDS, st.text(max_size=30)), max_size=20).map("\n".join))


@settings(max_examples=300, deadline=None)
@given(
    log=TEXTS,
    exit_code=st.none() | st.integers(-64, 255),
    oom_killed=st.booleans(),
    was_ready=st.none() | st.booleans(),
    stopped_at=st.none() | st.integers(-5, 500),
)
def test_any_text_gets_a_known_category(
    log: str, exit_code: int | None, oom_killed: bool, was_ready: bool | None, stopped_at: int | None
) -> None:
    verdict = diagnose(log, exit_code=exit_code, oom_killed=oom_killed, was_ready=was_ready, stopped_at=stopped_at)
    assert is_well_formed(verdict)


def test_a_long_log_is_read_quickly_and_its_first_error_is_kept() -> None:
    """The cause stands between a million lines of requests; only a part of them is looked at."""
    start = "(APIServer pid=1) INFO:     Application startup complete.\n"
    request = '(APIServer pid=1) INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    fall = "\n".join(crash(["AssertionError: Synthetic acceptance not supported with CPU sampling"], [])) + "\n"
    log = start + request * 300_000 + fall.rpartition(f"{API}INFO:     Shutting down")[0] + request * 300_000
    began = time.perf_counter()
    verdict = diagnose(log)
    assert time.perf_counter() - began < 10
    assert (verdict.category, verdict.phase) == ("crashed_serving", "serving")
    assert verdict.cause == "AssertionError: Synthetic acceptance not supported with CPU sampling"


def test_the_largest_recorded_log_takes_a_tenth_of_a_second_at_most() -> None:
    log = max((path.read_text(encoding="utf-8") for path in LOGS.glob("*.log")), key=len)
    began = time.perf_counter()
    diagnose(log)
    assert time.perf_counter() - began < 0.5, "a busy machine may be slow, but not that slow"
