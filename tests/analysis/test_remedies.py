"""What would help against a failure, from its own numbers."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.figures import Labels
from collector.analysis.remedies import Beside, ran_beside, remedy
from collector.analysis.study import PublishedFailure, Study
from collector.core.failure_numbers import MISSING, NUMBERS, numbers_in
from collector.core.failure_words import CATEGORIES
from collector.core.rows import Failure
from collector.report.build import read_campaign
from tests.report.sample import make_failure, make_row

DATA = Path(__file__).resolve().parents[2] / "data"
TRITON = (
    "ValueError: FP8 KV cache is not supported by the Triton attention backend on NVIDIA GeForce RTX 3090 (compute "
    "capability 8.6); native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype bfloat16."
)


def number(name: str, **failure: Any) -> float | None:
    told = remedy(make_failure(**failure)).numbers[name]
    return None if told is None else told.value


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_category_has_a_remedy_of_its_own_kind(category: str) -> None:
    assert remedy(make_failure(category=category)).kind == category


def test_a_category_of_a_newer_collector_is_taken_for_other() -> None:
    assert remedy(make_failure(category="from_the_future")).kind == "other"


def test_numbers_belong_to_known_categories_and_are_columns_or_figures_of_a_cause_line() -> None:
    assert set(NUMBERS) <= set(CATEGORIES)
    columns = {one.name for one in fields(Failure)}
    rest = {name for names in NUMBERS.values() for name in names} - columns
    said = numbers_in(
        [
            "derived max_model_len (max_position_embeddings=32768",
            "World size (4) is larger than the number of available GPUs (2)",
            "Total number of attention heads (30) must be divisible by tensor parallel size (4)",
            "utilization (0.9, 21.2 GiB)",
            "Minimum capability: 89. Current capability: 86",
            "Please lower max_num_seqs to at most 161",
            "address ('0.0.0.0', 8000)",
            "max_num_scheduled_tokens is set to -1792",
            "Free memory on device (6.44/11.63 GiB)",
            "warming up sampler with 1024 dummy requests",
            "out of resource: shared memory, Required: 106496, Hardware limit: 101376",
        ]
    )
    assert rest <= set(said), rest - set(said)


def test_the_missing_kv_memory_is_what_one_request_needs_less_what_there_is() -> None:
    given_numbers = {"kv_gib_needed": 3.05, "kv_gib_available": 2.17, "max_model_len_estimate": 111_456}
    found = remedy(make_failure(category="kv_cache", **given_numbers))
    gap = found.numbers["kv_gib_missing"]
    assert gap is not None
    assert gap.value == pytest.approx(0.88)
    assert gap.of == "kv_gib_needed-kv_gib_available"
    estimate = found.numbers["max_model_len_estimate"]
    assert estimate is not None
    assert estimate.value == 111_456


@given(st.floats(0.001, 100), st.floats(0.001, 100))
def test_nothing_is_missing_where_more_is_free_than_was_asked_for(tried: float, free: float) -> None:
    gap = number("gib_missing", category="oom_graph", gib_tried=tried, gib_free=free)
    assert gap == pytest.approx(tried - free) if tried > free else gap is None


def test_a_number_without_a_column_is_read_from_the_engines_words() -> None:
    words = "OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use"
    assert number("port", category="port_in_use", cause=words) == 8000
    held = "ValueError: Free memory on device cuda:0 (6.44/11.63 GiB) on startup is less than desired GPU memory "
    held += "utilization (0.9, 10.47 GiB)."
    assert number("gib_held", category="gpu_busy", cause=held) == pytest.approx(10.47 - 6.44)


@pytest.mark.parametrize(
    ("category", "cause", "name", "fits"),
    [
        (
            "gpu_busy",
            "Free memory on device cuda:0 (6.44/11.63 GiB) on startup is less than desired",
            "gpu_memory_utilization",
            0.55,  # 6.44 / 11.63 = 0.5537, rounded down: 0.56 would not fit
        ),
        (
            "tensor_parallel",
            "ValueError: Total number of attention heads (30) must be divisible by tensor parallel size (4).",
            "tensor_parallel_size",
            3,
        ),
        (
            "tensor_parallel",
            "ValueError: World size (4) is larger than the number of available GPUs (2) in this node.",
            "tensor_parallel_size",
            2,
        ),
        ("tensor_parallel", "ValueError: something else", "tensor_parallel_size", None),
        ("gpu_busy", "ValueError: no free memory", "gpu_memory_utilization", None),
        ("oom_graph", "Free memory on device cuda:0 (6.44/11.63 GiB)", "gpu_memory_utilization", None),
    ],
)
def test_the_setting_that_would_fit_follows_from_the_numbers_where_they_allow_it(
    category: str, cause: str, name: str, fits: float | None
) -> None:
    assert number(f"fitting_{name}", category=category, cause=cause, gib_free=None) == fits


def test_numbers_of_another_kind_of_failure_are_left_alone() -> None:
    assert number("kv_gib_needed", category="oom_graph", kv_gib_needed=3.0) is None
    assert set(MISSING) <= set(remedy(make_failure()).numbers)


def test_the_dtype_is_the_one_that_the_engine_suggests() -> None:
    assert remedy(make_failure(category="kv_dtype", cause=TRITON)).dtype == "bfloat16"
    assert remedy(make_failure(category="kv_dtype", cause="ValueError: no")).dtype is None
    labels = Labels(model="beta", kv_cache_dtype="fp8_e5m2", speculation="off")
    printed = PublishedFailure(failure_id="P001", labels=labels, category="kv_dtype", message=TRITON)
    assert remedy(printed).dtype == "bfloat16"


def test_what_ran_beside_a_failure_differs_from_it_in_one_setting_only() -> None:
    failed = make_failure(model="alpha-30b", kv_cache_dtype="fp8_e5m2", speculation="mtp", num_speculative_tokens=1)
    rows = (
        make_row(kv_cache_dtype="fp8_e5m2"),  # speculation off
        make_row(kv_cache_dtype="auto", speculation="mtp", num_speculative_tokens=1),
        make_row(kv_cache_dtype="auto"),  # two settings differ
        make_row(model="other", kv_cache_dtype="fp8_e5m2", speculation="mtp", num_speculative_tokens=1),
    )
    assert ran_beside(failed, Study(name="x", rows=rows)) == (
        Beside(column="kv_cache_dtype", values=("auto",)),
        Beside(column="speculation", values=("off",)),
    )


def test_a_setting_that_was_not_varied_does_not_differ() -> None:
    failed = make_failure(model="alpha-30b", kv_cache_dtype="fp8_e5m2", nvlink=None)
    rows = (make_row(kv_cache_dtype="auto", nvlink="on"),)
    assert ran_beside(failed, Study(name="x", rows=rows)) == (Beside(column="kv_cache_dtype", values=("auto",)),)


def test_the_emulated_campaign_says_that_its_failures_are_scripted_and_what_ran_beside_them() -> None:
    study = read_campaign(DATA / "dual-3090")
    assert set(study.scripted) == {one.failure_id for one in study.failures}
    gemma = next(one for one in study.failures if one.category == "kv_dtype")
    assert ran_beside(gemma, study) == (Beside(column="kv_cache_dtype", values=("auto",)),)
