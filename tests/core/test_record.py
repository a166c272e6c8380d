"""Rows from recorded windows: every column has its figure, and a missing one stays empty."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from collector.core.codec import cells_of
from collector.core.configuration import row_id
from collector.core.engine_log import EngineFacts
from collector.core.record import Context, make_row
from collector.core.rows import SCHEMA_VERSION, Position, Row, comparable, failed_checks
from collector.core.window import Window
from tests.data_files import CONTEXT, PAIRS, Pair, cell_of, pair, window_of

SPEC, NOSPEC = pair("metrics/vllm-0.27.0-spec"), pair("metrics/vllm-0.27.0-nospec")
TELEMETRY = [item.name for item in fields(Row) if item.metadata["group"] == "telemetry"]


def row_of(recorded: Pair, window: Window | None = None, **context: Any) -> tuple[Row, tuple[Position, ...]]:
    return make_row(replace(CONTEXT, **context), *cell_of(recorded), window or window_of(recorded))


@pytest.mark.parametrize("recorded", PAIRS, ids=lambda one: one.label)
def test_a_healthy_window_makes_a_comparable_row(recorded: Pair) -> None:
    row, positions = row_of(recorded)
    assert row.checks == ""
    assert comparable(row)
    assert failed_checks(row) == ()
    assert row.checks_not_run == ("engine_busy" if recorded.name.endswith("dp2") else "")
    assert row.generation_tokens == recorded.truth["completion_tokens"]
    assert row.system_throughput_tok_s == recorded.truth["completion_tokens"] / recorded.truth["wall_seconds"]
    assert bool(positions) is recorded.speculation


def test_a_row_says_what_was_measured_where_and_how() -> None:
    row, _ = row_of(SPEC)
    configuration, stage = cell_of(SPEC)
    expected = {
        "schema_version": SCHEMA_VERSION,
        "row_id": row_id(configuration, stage, 1),
        "configuration_id": configuration.configuration_id,
        "image": "vllm@sha256:00",
        "attention_backend": "CPU_ATTN",
        "draft_attention_backend": None,
        "cudagraph_mode": "NONE",
        "tensor_parallel": 1,
        "max_model_len": 2048,
        "max_num_seqs": 32,
        "nvlink": "on",
        "extra_flags": "--enforce-eager --seed 1",
        "series": "main",
        "model": "tiny",
        "model_path": "${MODELS}/tiny",
        "model_revision": "abc",
        "kv_cache_dtype": "auto",
        "speculation": "ngram",
        "num_speculative_tokens": 4,
        "drafter": None,
        "speculative_config": '{"method":"ngram","num_speculative_tokens":4}',
        "concurrency": 2,
        "requests": 4,
        "prompt_set": "synthetic",
        "output_tokens": 64,
        "warmup_requests": 2,
        "requests_sent": 4,
        "requests_done": 4,
        "requests_failed": 0,
        "window_method": "whole_stage",
        "window_s": SPEC.truth["wall_seconds"],
        "scrape_s": 0.005,
        "client_cpu_s": 0.02,
        "samples": 2,
        "prompt_tokens_mean": 197 / 4,
        "drafts": 40,
        "draft_tokens": 145,
        "accepted_tokens": 119,
        "trimmed_tokens": 8,
        "kv_usage_peak": 0.5,
        "waiting_peak": 1,
        "running_mean": 2.0,
        "decode_steps": 77,
        "preemptions": 0,
    }
    assert {name: getattr(row, name) for name in expected} == expected
    for item in fields(Context):
        if item.name not in ("facts", "max_model_len"):
            assert getattr(row, item.name) == getattr(CONTEXT, item.name)


def test_a_row_without_speculation_says_nothing_of_drafts() -> None:
    row, positions = row_of(NOSPEC)
    assert (row.speculation, row.drafter, row.speculative_config, row.num_speculative_tokens) == ("off",) + (None,) * 3
    assert (row.drafts, row.acceptance_rate, row.accepted_per_forward) == (None,) * 3
    assert row.tokens_per_step == 1
    assert positions == ()


def test_without_telemetry_its_columns_are_empty() -> None:
    row, _ = row_of(SPEC, replace(window_of(SPEC), gpus=None))
    assert TELEMETRY
    assert {cells_of(row)[name] for name in TELEMETRY} == {""}


def test_percentiles_stand_with_the_bounds_of_their_buckets() -> None:
    row, _ = row_of(NOSPEC)
    for name in (f"{of}_{share}" for of in ("ttft", "queue", "prefill", "tpot") for share in ("p50", "p95")):
        low, value, high = (getattr(row, f"{name}{end}") for end in ("_low_s", "_s", "_high_s"))
        assert low <= value <= high


def test_positions_count_from_one_and_know_the_one_before() -> None:
    row, positions = row_of(SPEC)
    assert [one.position for one in positions] == [1, 2, 3, 4]
    accepted = [one.accepted_tokens for one in positions]
    assert sum(accepted) == row.accepted_tokens
    assert [one.acceptance_rate for one in positions] == [count / 40 for count in accepted]
    before = [40, *accepted[:-1]]
    assert [one.conditional_rate for one in positions] == [
        now / then for now, then in zip(accepted, before, strict=True)
    ]
    assert {(one.row_id, one.campaign, one.configuration_id, one.drafts) for one in positions} == {
        (row.row_id, row.campaign, row.configuration_id, 40)
    }


def test_a_position_after_one_that_was_never_accepted_has_no_conditional_rate() -> None:
    """The invented figures accept 48 of 48, three times, and then none; a fifth position would follow none."""
    recorded = pair("metrics-synthetic/vllm-0.18.1-spec")
    window = window_of(recorded)
    after = dict(window.after)
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    labels = next(one for one in after[name] if ("position", "3") in one)
    fifth = tuple(("position", "4") if pair_ == ("position", "3") else pair_ for pair_ in labels)
    after[name] = {**after[name], fifth: 0.0}
    _, positions = row_of(recorded, replace(window, after=after))
    assert [one.conditional_rate for one in positions] == [1.0, 1.0, 1.0, 0.0, None]


def test_nothing_drafted_makes_no_positions() -> None:
    window = window_of(SPEC)
    row, positions = row_of(SPEC, replace(window, after=window.before, confirm=window.before))
    assert (row.drafts, row.acceptance_rate) == (0, None)
    assert positions == ()


@pytest.mark.parametrize(
    ("label", "logged", "tokens", "source"),
    [
        ("metrics/vllm-0.27.0-nospec", 77, 1_048_576, "info"),
        ("metrics/vllm-0.27.0-nospec-dp2", None, 2_097_152, "info"),
        ("metrics/vllm-0.18.1-nospec", 77, 77, "log"),
        ("metrics/vllm-0.18.1-nospec", None, 1_048_576, "blocks"),
    ],
)
def test_the_kv_capacity_comes_from_the_best_source_there_is(
    label: str, logged: int | None, tokens: int, source: str
) -> None:
    row, _ = row_of(pair(label), facts=EngineFacts(kv_cache_tokens=logged))
    assert (row.kv_cache_tokens, row.kv_cache_tokens_source) == (tokens, source)


def test_without_any_source_the_kv_capacity_is_empty() -> None:
    window = window_of(NOSPEC)
    after = {name: values for name, values in window.after.items() if name != "vllm:cache_config_info"}
    row, _ = row_of(NOSPEC, replace(window, after=after), facts=EngineFacts())
    assert (row.kv_cache_tokens, row.kv_cache_tokens_source) == (None, None)


def test_a_row_says_which_ways_and_kernels_were_in_use_and_what_the_start_took() -> None:
    said = {
        "nccl_p2p": False,
        "custom_all_reduce": True,
        "linear_kernel": "MarlinLinearKernel",
        "weights_load_s": 41.5,
        "compile_s": 60.0,
        "graph_gib": 0.94,
    }
    known = {"p2p_driver": True, "image_digest": "sha256:1", "model_commit": "a" * 40, "drafter_commit": "b" * 40}
    row, _ = row_of(SPEC, facts=EngineFacts(**said), **known)  # type: ignore[arg-type]  # each has its field's type
    assert {name: getattr(row, name) for name in said | known} == said | known
    silent, _ = row_of(SPEC, facts=EngineFacts())
    assert {getattr(silent, name) for name in said | known} == {None}


def test_what_failed_is_named_and_makes_the_row_incomparable() -> None:
    window = window_of(SPEC)
    first = replace(window.requests[0], status=500, completion_tokens=None, prompt_tokens=None)
    row, _ = row_of(SPEC, replace(window, requests=(first, *window.requests[1:])))
    assert failed_checks(row) == (
        "request_failed",
        "token_mismatch",
        "prompt_mismatch",
        "request_mismatch",
        "first_token_mismatch",
    )
    assert not comparable(row)
    assert (row.requests_sent, row.requests_done, row.requests_failed) == (4, 3, 1)


def test_a_stage_in_which_nothing_was_answered_is_a_row_all_the_same() -> None:
    window = window_of(NOSPEC)
    refused = tuple(replace(one, status=None, completion_tokens=None, prompt_tokens=None) for one in window.requests)
    row, _ = row_of(NOSPEC, replace(window, requests=refused, after=window.before, confirm=window.before))
    assert (row.requests_done, row.requests_failed, row.generation_tokens) == (0, 4, 0)
    assert (row.prompt_tokens_mean, row.client_e2e_mean_s, row.ttft_mean_s) == (None, None, None)
    assert "request_failed" in failed_checks(row)


def test_a_restarted_engine_voids_the_figures_and_keeps_the_row() -> None:
    window = window_of(SPEC)
    row, positions = row_of(SPEC, replace(window, before=window.after, after=window.before, confirm=window.before))
    assert "counter_reset" in failed_checks(row)
    assert (row.generation_tokens, row.system_throughput_tok_s, row.ttft_p50_s, row.drafts) == (None,) * 4
    assert positions == ()
    assert row.window_s == window.window_s


def test_a_secret_in_a_flag_does_not_reach_the_row() -> None:
    configuration, stage = cell_of(NOSPEC)
    flags = (("proxy", "http://me:password@host"),)
    row, _ = make_row(CONTEXT, replace(configuration, flags=flags), stage, window_of(NOSPEC))
    assert row.extra_flags == "--proxy http://[hidden]@host"


def test_no_flags_are_no_text() -> None:
    configuration, stage = cell_of(NOSPEC)
    row, _ = make_row(CONTEXT, replace(configuration, flags=()), stage, window_of(NOSPEC))
    assert row.extra_flags is None
