"""Each check: a window for which all hold, then one thing broken at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from collector.core import series
from collector.core.checks import (
    CHECKS,
    OCCUPANCY_LIMIT,
    PREFIX_HIT_LIMIT,
    Evidence,
    lane_seconds,
    run_checks,
)
from collector.core.configuration import Stage
from collector.core.counters import deltas, stage_result
from collector.core.series import LabelSet, Samples
from collector.core.window import Request, Window
from tests.data_files import BUSY, PAIRS, Pair, pair, window_of

SPEC = "metrics/vllm-0.27.0-spec"
NOSPEC = "metrics/vllm-0.27.0-nospec"
DRAFTING = tuple(name for name in pair(SPEC).samples("after") if name.startswith("vllm:spec_decode"))

Changeable = dict[str, Mapping[LabelSet, float]]


def evidence(window: Window, recorded: Pair, *, speculation: bool | None = None, k: int | None = 4) -> Evidence:
    """Return what the checks see of a window, from the same computations as a row's."""
    d = deltas(window.before, window.after)
    first = window_of(recorded).requests[0]
    stage = Stage(
        concurrency=recorded.truth.get("concurrency", 2),
        requests=recorded.truth["requests"],
        prompt_set="synthetic",
        prompt_tokens=50,
        output_tokens=first.completion_tokens or 0,
        warmup_requests=1,
        warmup_output_tokens=8,
    )
    speculates = recorded.speculation if speculation is None else speculation
    return Evidence(
        window=window,
        deltas=d,
        whole=d if window.idle is None else deltas(window.idle, window.confirm),
        after_window=deltas(window.after, window.confirm),
        stage=stage,
        speculation=speculates,
        k=k if speculates else None,
        occupancy=stage_result(window, d, lane_s=lane_seconds(window)).occupancy,
    )


def verdict(window: Window, label: str = SPEC, *, speculation: bool | None = None, k: int | None = 4) -> set[str]:
    """Return the failed checks, and with a leading ~ those that could not run."""
    failed, not_run = run_checks(evidence(window, pair(label), speculation=speculation, k=k))
    return {*failed, *(f"~{name}" for name in not_run)}


def healthy(label: str = SPEC) -> Window:
    return window_of(pair(label))


def scraped(window: Window, *when: str, change: Callable[[Changeable], None]) -> Window:
    """Return the window with some of its scrapes changed."""
    changed: dict[str, Samples] = {}
    for name in when:
        copy: Changeable = dict(getattr(window, name))
        change(copy)
        changed[name] = copy
    return replace(window, **changed)  # type: ignore[arg-type]  # scrapes by their names


def add(name: str, by: float) -> Callable[[Changeable], None]:
    def change(samples: Changeable) -> None:
        (labels, value), *others = samples[name].items()
        samples[name] = {labels: value + by, **dict(others)}

    return change


def drop(*names: str) -> Callable[[Changeable], None]:
    def change(samples: Changeable) -> None:
        for name in names:
            del samples[name]

    return change


def both(*changes: Callable[[Changeable], None]) -> Callable[[Changeable], None]:
    def change(samples: Changeable) -> None:
        for one in changes:
            one(samples)

    return change


def requests(window: Window, index: int, **changes: object) -> Window:
    """Return the window with one request changed."""
    changed = list(window.requests)
    changed[index] = replace(changed[index], **changes)  # type: ignore[arg-type]
    return replace(window, requests=tuple(changed))


def slower(window: Window, factor: float) -> Window:
    stretched = (replace(one, sent_s=one.sent_s * factor, ended_s=one.ended_s * factor) for one in window.requests)
    return replace(window, requests=tuple(stretched))


# --- what is healthy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", PAIRS, ids=lambda one: one.label)
def test_all_checks_hold_on_every_recorded_pair(recorded: Pair) -> None:
    """With several API servers the gauges show only after the first request, which a warm-up sends."""
    untouched = recorded.name == "vllm-0.27.0-nospec-dp2"
    assert run_checks(evidence(window_of(recorded), recorded)) == ((), ("engine_busy",) if untouched else ())


def test_preemption_is_no_fault() -> None:
    assert verdict(healthy("metrics/vllm-0.27.0-nospec-preempt"), "metrics/vllm-0.27.0-nospec-preempt") == set()


# --- one thing broken --------------------------------------------------------------------------------------

GENERATED, PROMPTS = "vllm:generation_tokens_total", "vllm:prompt_tokens_total"
TTFT, ITL = "vllm:time_to_first_token_seconds_count", "vllm:inter_token_latency_seconds_count"
ACCEPTED, DRAFTS = "vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_drafts_total"
POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
SUCCESS, HITS, QUERIES = (
    "vllm:request_success_total",
    "vllm:prefix_cache_hits_total",
    "vllm:prefix_cache_queries_total",
)

#: Checks that cannot run where no difference of counters is known.
UNCOUNTED = (
    "~token_mismatch",
    "~prompt_mismatch",
    "~request_mismatch",
    "~first_token_mismatch",
    "~trimmed_tokens",
    "~position_sum",
    "~prefix_hits",
    "~client_bound",
)

AFTER = ("after", "confirm")
ALL = ("before", "after", "confirm")

#: name of the case: (how the window is broken, what then fails; ~ marks what cannot run)
BROKEN: dict[str, tuple[Callable[[Window], Window], set[str]]] = {
    "a series of the scrape before is gone": (
        lambda w: scraped(w, "before", change=drop(SUCCESS)),
        {"missing_series", "~request_mismatch"},
    ),
    "the tokens are gone": (
        lambda w: scraped(w, *ALL, change=drop(GENERATED)),
        {"missing_series", "~token_mismatch", "~trimmed_tokens"},
    ),
    "a required histogram is gone": (
        lambda w: scraped(w, *ALL, change=drop(TTFT)),
        {"missing_series", "~first_token_mismatch", "~trimmed_tokens", "~client_bound"},
    ),
    "everything is gone": (
        lambda w: replace(w, before={}, after={}, confirm={}),
        {
            "missing_series",
            "speculation_mismatch",
            "~engine_busy",
            "~late_counters",
            *UNCOUNTED,
        },
    ),
    "the engine was started anew inside the window": (
        lambda w: scraped(w, *AFTER, change=add(series.PROCESS_START, 60)),
        {
            "counter_reset",
            *UNCOUNTED,
        },
    ),
    "a counter fell between the closing scrape and its confirmation": (
        lambda w: scraped(w, "confirm", change=add(GENERATED, -1)),
        {"counter_reset", "~late_counters"},
    ),
    "the tokens fell between two samples": (
        lambda w: replace(w, samples=w.samples[::-1]),
        {"counter_reset"},
    ),
    "somebody's request was running when the window began": (
        lambda w: scraped(w, "before", change=add("vllm:num_requests_running", 1)),
        {"engine_busy"},
    ),
    "somebody's request was waiting when the window began": (
        lambda w: scraped(w, "before", change=add("vllm:num_requests_waiting", 1)),
        {"engine_busy"},
    ),
    "the gauges are gone": (
        lambda w: scraped(w, "before", change=drop("vllm:num_requests_waiting")),
        {"~engine_busy"},
    ),
    "a response was an error that cost no tokens": (
        lambda w: requests(w, 1, status=500, completion_tokens=None, prompt_tokens=None, finish_reason=None),
        {"request_failed", "token_mismatch", "prompt_mismatch", "request_mismatch", "first_token_mismatch"},
    ),
    "a request was never answered": (
        lambda w: replace(w, requests_sent=w.requests_sent + 1),
        {"request_failed"},
    ),
    "a response was of status 200 and had no usage": (
        lambda w: requests(w, 0, completion_tokens=None),
        {"request_failed", "token_mismatch", "request_mismatch", "first_token_mismatch"},
    ),
    "an answer ended by itself": (
        lambda w: requests(w, 2, finish_reason="stop"),
        {"short_output"},
    ),
    "an answer was shorter than asked for, and another longer": (
        lambda w: requests(requests(w, 0, completion_tokens=63), 1, completion_tokens=65),
        {"short_output"},
    ),
    "the engine counted a token more than the responses": (
        lambda w: scraped(w, *AFTER, change=add(GENERATED, 1)),
        {"token_mismatch"},
    ),
    "the engine counted a prompt token more": (
        lambda w: scraped(w, *AFTER, change=add(PROMPTS, 1)),
        {"prompt_mismatch"},
    ),
    "the engine's tokenizer counts a prompt otherwise": (
        lambda w: replace(w, tokenized=(*(w.tokenized or ())[:-1], 7)),
        {"prompt_length"},
    ),
    "the engine has no route that counts tokens": (
        lambda w: replace(w, tokenized=None),
        {"~prompt_length"},
    ),
    "the engine finished a request more": (
        lambda w: scraped(w, *AFTER, change=add(SUCCESS, 1)),
        {"request_mismatch"},
    ),
    "the engine began a request more": (
        lambda w: scraped(w, *AFTER, change=add(TTFT, 1)),
        {"first_token_mismatch"},
    ),
    "tokens came after the closing scrape": (
        lambda w: scraped(w, "confirm", change=add(GENERATED, 1)),
        {"late_counters"},
    ),
    "a preemption came after the closing scrape": (
        lambda w: scraped(w, "confirm", change=add("vllm:num_preemptions_total", 1)),
        {"late_counters"},
    ),
    "the speculation series are gone": (
        lambda w: scraped(w, *ALL, change=drop(*DRAFTING)),
        {"speculation_mismatch", "trimmed_tokens", "~position_sum"},
    ),
    "fewer tokens were accepted than given out": (
        lambda w: scraped(w, *AFTER, change=both(add(ACCEPTED, -9), add(POSITIONS, -9))),
        {"trimmed_tokens"},
    ),
    "more tokens were cut off than can be": (
        lambda w: scraped(w, *AFTER, change=both(add(ACCEPTED, 9), add(POSITIONS, 9))),
        {"trimmed_tokens"},
    ),
    "the accepted tokens are gone": (
        lambda w: scraped(w, *ALL, change=drop(ACCEPTED)),
        {"~trimmed_tokens", "~position_sum"},
    ),
    "the positions do not add up": (
        lambda w: scraped(w, *AFTER, change=add(POSITIONS, 1)),
        {"position_sum"},
    ),
    "the positions are gone": (
        lambda w: scraped(w, *ALL, change=drop(POSITIONS)),
        {"~position_sum"},
    ),
    "prompts were found in the prefix cache": (
        lambda w: scraped(w, *AFTER, change=add(HITS, 16)),
        {"prefix_hits"},
    ),
    "hits were counted without a query": (
        lambda w: scraped(w, *AFTER, change=both(add(HITS, 1), add(QUERIES, -197))),
        {"prefix_hits"},
    ),
    "the prefix cache is not counted": (
        lambda w: scraped(w, *ALL, change=drop(HITS, QUERIES)),
        {"~prefix_hits"},
    ),
    "the client left the engine idle": (lambda w: slower(w, 1.1), {"client_bound"}),
    "no time passed between request and response": (lambda w: slower(w, 0), {"~client_bound"}),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_fails_its_own_check_and_no_other(case: str) -> None:
    breaking, expected = BROKEN[case]
    assert verdict(breaking(healthy())) == expected


def test_without_speculation_a_step_of_two_tokens_is_an_error() -> None:
    broken = scraped(healthy(NOSPEC), *AFTER, change=add(ITL, -1))
    assert verdict(broken, NOSPEC) == {"tokens_per_step", "trimmed_tokens"}


def test_without_the_step_histogram_tokens_per_step_is_not_known() -> None:
    broken = scraped(healthy(NOSPEC), *ALL, change=drop(ITL))
    assert verdict(broken, NOSPEC) == {"missing_series", "~tokens_per_step", "~trimmed_tokens", "~client_bound"}


def test_an_engine_that_speculates_uninvited_is_named() -> None:
    """The counters of a speculating engine against a plan that says off."""
    assert verdict(healthy(), speculation=False) == {"speculation_mismatch", "tokens_per_step", "trimmed_tokens"}


def test_an_engine_that_does_not_speculate_when_told_to_is_named() -> None:
    assert verdict(healthy(NOSPEC), NOSPEC, speculation=True) == {"speculation_mismatch", "~position_sum"}


#: Broken one by one in test_gpu_figures.py.
OF_GPUS = {"gpu_lost", "throttled", "link_width_changed", "foreign_gpu_process", "nvlink_traffic"}


def test_every_check_fails_somewhere_above() -> None:
    failing = {name for _, expected in BROKEN.values() for name in expected if not name.startswith("~")}
    elsewhere = {"tokens_per_step", "not_steady"}  # the latter in tests/measure/test_steady.py
    assert failing | elsewhere | OF_GPUS == set(CHECKS)


def test_every_check_that_reads_a_series_has_a_case_in_which_it_cannot_run() -> None:
    """The others judge the client's own records, or the absence of series itself."""
    silent = {name[1:] for _, expected in BROKEN.values() for name in expected if name.startswith("~")}
    always = {"missing_series", "counter_reset", "request_failed", "short_output", "speculation_mismatch", "not_steady"}
    assert silent | {"tokens_per_step"} | OF_GPUS == set(CHECKS) - always


# --- thresholds at their edge ------------------------------------------------------------------------------


def test_prefix_hits_fail_from_one_percent_of_the_queries() -> None:
    """1,000 tokens asked for: nine found are a chat template's shared head, ten are too many."""

    def asked(hits: float) -> Window:
        return scraped(healthy(), *AFTER, change=both(add(QUERIES, 1000 - 197), add(HITS, hits)))

    assert PREFIX_HIT_LIMIT == 0.01
    assert verdict(asked(9)) == set()
    assert verdict(asked(10)) == {"prefix_hits"}


def test_an_engine_without_prefix_cache_has_no_hits_to_check() -> None:
    def off(samples: Changeable) -> None:
        samples[series.CACHE_INFO] = {(("enable_prefix_caching", "False"),): 1.0}
        del samples[HITS]

    assert verdict(scraped(healthy(), *ALL, change=off)) == set()


def test_nothing_asked_of_the_prefix_cache_holds_as_long_as_nothing_was_found() -> None:
    assert verdict(scraped(healthy(), *AFTER, change=add(QUERIES, -197))) == set()


def test_occupancy_holds_from_its_limit_on() -> None:
    """The healthy window is busy for 99 % of its lanes' time."""
    assert verdict(slower(healthy(), BUSY / OCCUPANCY_LIMIT * 0.9999)) == set()
    assert verdict(slower(healthy(), BUSY / OCCUPANCY_LIMIT * 1.0001)) == {"client_bound"}


def test_the_loaded_time_of_a_lane_ends_with_its_own_last_response() -> None:
    def sent(lane: int, sent_s: float, ended_s: float) -> Request:
        return replace(healthy().requests[0], lane=lane, sent_s=sent_s, ended_s=ended_s)

    some = (sent(0, 0.5, 1.0), sent(0, 1.0, 3.0), sent(1, 0.5, 1.25))
    assert lane_seconds(replace(healthy(), requests=some)) == 2.5 + 0.75
    assert lane_seconds(replace(healthy(), requests=some[::-1])) == 2.5 + 0.75
    assert lane_seconds(replace(healthy(), requests=())) is None


@pytest.mark.parametrize(
    ("more", "failed"), [(-8, set()), (-9, {"trimmed_tokens"}), (8, set()), (9, {"trimmed_tokens"})]
)
def test_up_to_k_tokens_a_request_are_cut_off(more: float, failed: set[str]) -> None:
    """Recorded are 8 of the 16 that four requests with k=4 allow."""
    broken = scraped(healthy(), *AFTER, change=both(add(ACCEPTED, more), add(POSITIONS, more)))
    assert verdict(broken) == failed


def test_without_a_k_any_number_may_be_cut_off_but_not_fewer_than_none() -> None:
    more, fewer = (scraped(healthy(), *AFTER, change=both(add(ACCEPTED, by), add(POSITIONS, by))) for by in (500, -9))
    assert verdict(more, k=None) == set()
    assert verdict(fewer, k=None) == {"trimmed_tokens"}


def test_no_request_at_all_is_a_failed_stage() -> None:
    failed, _ = run_checks(evidence(replace(healthy(), requests=(), requests_sent=0), pair(SPEC)))
    assert set(failed) >= {"request_failed", "token_mismatch", "request_mismatch"}


def test_checks_are_told_in_the_order_of_their_table() -> None:
    failed, not_run = run_checks(evidence(replace(healthy(), before={}, after={}, confirm={}), pair(SPEC)))
    order = list(CHECKS)
    assert list(failed) == sorted(failed, key=order.index)
    assert list(not_run) == sorted(not_run, key=order.index)
