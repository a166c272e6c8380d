"""Every column that says what was measured must be equal on both sides of a ratio, or is named here with its reason."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from collector.analysis.compared import compared
from collector.analysis.pairing import KV_CACHE, NVLINK, SPECULATION, Factor
from collector.analysis.repeats import repeat_errors
from collector.core.rows import Row
from tests.analysis.arms import MTP, arm, study_of

#: What may not differ, with another value for one side.
UNLIKE: dict[str, Any] = {
    "campaign": "another",
    "provenance": "emulated",
    "host_id": "another",
    "gpu_model": "another",
    "gpu_count": 7,
    "driver_version": "999.1",
    "engine_kind": "url",
    "engine_version": "9.9.9",
    "image": "another",
    "image_digest": "sha256:another",
    "attention_backend": "another",
    "tensor_parallel": 7,
    "max_model_len": 7777,
    "max_num_seqs": 7,
    "nvlink": "another",
    "extra_flags": "--another",
    "series": "another",
    "model": "another",
    "model_path": "another",
    "model_revision": "another",
    "model_commit": "another",
    "kv_cache_dtype": "another",
    "speculation": "another",
    "num_speculative_tokens": 7,
    "drafter": "another",
    "drafter_commit": "another",
    "speculative_config": "{}",
    "concurrency": 7,
    "requests": 777,
    "warmup_requests": 77,
    "prompt_set": "another",
    "prompt_set_digest": "another",
    "output_tokens": 7,
    "window_method": "another",
}
#: What may differ: it names the row, follows from a column above, or is measured.
FREE = {
    "names the row": {"schema_version", "row_id", "configuration_id", "repeat", "measured_at", "collector_version"},
    "a plan may be continued by another": {"plan_digest"},
    "of the host or its driver": {"cpu_model", "p2p_driver"},
    "the engine chose it for what differs": {
        "draft_attention_backend", "cudagraph_mode", "all_reduce", "nccl_p2p", "custom_all_reduce", "linear_kernel",
    },
    "measured": {
        "start_s", "model_load_gib", "weights_load_s", "compile_s", "graph_gib", "prompt_tokens_mean",
        "requests_sent", "requests_done", "requests_failed", "window_s", "scrape_s", "samples",
    },
}  # fmt: skip
GROUPS = {"identity", "host", "engine", "model", "speculation", "workload", "stage"}
FACTORS = {
    "speculation": (SPECULATION, [*arm({8: 100.0}), *arm({8: 150.0}, **MTP)]),
    "dtype": (KV_CACHE, [*arm({8: 100.0}, **MTP), *arm({8: 110.0}, kv_cache_dtype="fp8_e5m2", **MTP)]),
    "link": (NVLINK, [*arm({8: 100.0}, nvlink="off", **MTP), *arm({8: 110.0}, nvlink="on", **MTP)]),
}
CASES = [
    pytest.param(column, factor, rows, id=f"{name}-{column}")
    for name, (factor, rows) in FACTORS.items()
    for column in UNLIKE
    if column not in (*factor.way, *factor.follows)
]


def test_every_column_that_is_set_or_found_before_the_load_is_named_here() -> None:
    known = {field.name for field in fields(Row) if field.metadata["group"] in GROUPS}
    free = set().union(*FREE.values())
    assert known == set(UNLIKE) | free
    assert not set(UNLIKE) & free


@pytest.mark.parametrize(("column", "factor", "rows"), CASES)
def test_no_ratio_is_made_of_rows_that_differ_in_anything_else(column: str, factor: Factor, rows: list[Row]) -> None:
    base, other = rows
    assert [len(pair.measured) for pair in compared(factor, rows)] == [1]
    assert getattr(other, column) != UNLIKE[column]
    unlike = replace(other, **{column: UNLIKE[column]})
    assert not any(pair.measured for pair in compared(factor, [base, unlike]))


@pytest.mark.parametrize("column", [name for name in UNLIKE if name not in ("campaign", "series")])
def test_no_repeat_error_is_made_of_series_that_differ_in_anything_else(column: str) -> None:
    rows = [*arm({8: 100.0}, **MTP), *arm({8: 102.0}, series="k3", **MTP)]
    assert len(repeat_errors(study_of(*rows))) == 1
    unlike = replace(rows[1], **{column: UNLIKE[column]})
    assert repeat_errors(study_of(rows[0], unlike)) == {}
