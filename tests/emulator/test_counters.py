"""What the embedded engine counts: the identities of the real engine's counters, and its names to the letter."""

from __future__ import annotations

from typing import Any

import pytest

from collector.core.series import Samples
from collector.emulator.exposition import number
from tests.data_files import pair
from tests.emulator.engines import drive, make, samples, scenario, started, total

MTP = {"speculation": "mtp", "num_speculative_tokens": 4}
MTP_SERIES = "vllm:spec_decode_num_accepted_tokens_total"
RECORDED = pair("metrics/vllm-0.27.0-spec")


def drive_once(facts: dict[str, Any], requests: list[tuple[int, int]], concurrency: int, **more: Any) -> Samples:
    """Return the scrape after a load on a new engine."""
    found: list[Samples] = []

    async def work() -> None:
        async with started(make(facts)) as engine:
            await drive(engine, requests, concurrency, **more)
            found.append(samples(engine))

    scenario(work)
    return found[0]


def trimmed(found: Samples) -> float:
    names = ("time_to_first_token_seconds_count", "inter_token_latency_seconds_count")
    accepted = total(found, "spec_decode_num_accepted_tokens_total") if MTP_SERIES in found else 0
    return sum(total(found, name) for name in names) + accepted - total(found, "generation_tokens_total")


def test_without_speculation_every_step_gives_a_request_one_token() -> None:
    found = drive_once({}, [(50, 64)] * 12, 4)
    assert total(found, "generation_tokens_total") == 12 * 64
    assert total(found, "inter_token_latency_seconds_count") == 12 * 63
    assert total(found, "time_to_first_token_seconds_count") == 12
    assert trimmed(found) == 0
    assert not any("spec_decode" in name for name in found)


def test_with_speculation_tokens_are_first_tokens_steps_and_accepted_ones_less_those_cut_off() -> None:
    found = drive_once(MTP, [(50, 65)] * 12, 4)
    assert total(found, "generation_tokens_total") == 12 * 65
    assert 0 <= trimmed(found) <= 4 * 12
    by_position = found["vllm:spec_decode_num_accepted_tokens_per_pos_total"]
    accepted = total(found, "spec_decode_num_accepted_tokens_total")
    assert len(by_position) == 4
    assert sum(by_position.values()) == accepted
    in_order = [by_position[labels] for labels in sorted(by_position, key=lambda one: dict(one)["position"])]
    assert in_order == sorted(in_order, reverse=True)
    # Every step but a request's first verifies a draft, of k tokens unless the step was cut.
    drafts = total(found, "spec_decode_num_drafts_total")
    assert drafts == total(found, "inter_token_latency_seconds_count")
    assert total(found, "spec_decode_num_draft_tokens_total") == 4 * drafts


def test_acceptance_is_that_of_the_table() -> None:
    found = drive_once(MTP, [(50, 256)] * 64, 16)
    drafts = total(found, "spec_decode_num_drafts_total")
    expected = [0.9, 0.9 * 0.8, 0.9 * 0.8 * 0.7, 0.9 * 0.8 * 0.7 * 0.6]
    for position, chance in enumerate(expected):
        accepted = total(found, "spec_decode_num_accepted_tokens_per_pos_total", position=str(position))
        assert accepted / drafts == pytest.approx(chance, abs=0.03)


def test_prompts_are_counted_once_and_exactly() -> None:
    found = drive_once({}, [(size, 8) for size in (1, 15, 16, 17, 640, 1800)], 3)
    assert total(found, "prompt_tokens_total") == sum((1, 15, 16, 17, 640, 1800))
    assert total(found, "request_prompt_tokens_sum") == total(found, "prompt_tokens_total")
    assert total(found, "prompt_tokens_by_source_total", source="local_compute") == total(found, "prompt_tokens_total")
    assert total(found, "prefix_cache_queries_total") == total(found, "prompt_tokens_total")
    assert total(found, "prefix_cache_hits_total") == 0


def test_finished_requests_leave_one_observation_each_and_consistent_times() -> None:
    found = drive_once({"max_num_seqs": 2}, [(50, 20)] * 6, 6)
    assert total(found, "request_success_total") == total(found, "request_success_total", finished_reason="length") == 6
    for name in ("e2e_request_latency", "request_queue_time", "request_prefill_time", "request_decode_time"):
        assert total(found, f"{name}_seconds_count") == 6
    prefill, decode = (total(found, f"request_{one}_time_seconds_sum") for one in ("prefill", "decode"))
    assert total(found, "request_inference_time_seconds_sum") == pytest.approx(prefill + decode)
    assert decode == pytest.approx(total(found, "inter_token_latency_seconds_sum"))
    assert total(found, "request_time_per_output_token_seconds_sum") == pytest.approx(decode / 19)
    queue = total(found, "request_queue_time_seconds_sum")
    assert queue > 0
    e2e = total(found, "e2e_request_latency_seconds_sum")
    assert e2e == pytest.approx(total(found, "time_to_first_token_seconds_sum") + decode)
    assert e2e >= queue + prefill + decode


def test_a_step_is_observed_once_with_the_prompts_that_ended_in_it() -> None:
    found = drive_once({"max_num_batched_tokens": 100}, [(250, 5)], 1)
    assert total(found, "iteration_tokens_total_count") == 5  # the two steps of the prompt's head gave no output
    assert total(found, "iteration_tokens_total_sum") == 250 + 5


def test_an_idle_engine_has_everything_at_its_start() -> None:
    found = drive_once({}, [(50, 5)], 1)
    assert total(found, "num_requests_running") == total(found, "num_requests_waiting") == 0
    assert total(found, "kv_cache_usage_perc") == 0
    info = dict(next(iter(found["vllm:cache_config_info"])))
    assert info["enable_prefix_caching"] == "True"
    assert int(info["kv_cache_size_tokens"]) == int(float(info["kv_cache_max_concurrency"]) * 2048)


def shape(text: str) -> dict[str, tuple[str, ...]]:
    """Return kind and lines' labels of every vllm: family, values and the model's name left out."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE vllm:"):
            name, kind = line.split()[2:4]
            found[name] = [kind]
        elif line.startswith("vllm:") and "cache_config_info" not in line:
            found[name].append(line.rpartition(" ")[0].replace('model_name="plain"', 'model_name="tiny"'))
    return {name: tuple(lines) for name, lines in found.items()}


def test_names_types_labels_and_buckets_are_those_of_the_recorded_engine() -> None:
    texts: list[str] = []

    async def work() -> None:
        async with started(make(MTP)) as engine:
            texts.append(engine.metrics.text())

    scenario(work)
    recorded = RECORDED.text("after")
    assert shape(texts[0]) == shape(recorded)
    assert list(shape(texts[0])) == list(shape(recorded))
    info = next(iter(drive_once({}, [(5, 1)], 1)["vllm:cache_config_info"]))
    theirs = next(iter(RECORDED.samples("after")["vllm:cache_config_info"]))
    assert [name for name, _ in info] == [name for name, _ in theirs]


def test_numbers_are_written_as_the_recorded_engine_writes_them() -> None:
    for line in RECORDED.text("after").splitlines():
        if not line.startswith("#") and "NaN" not in line:
            written = line.rpartition(" ")[2]
            assert number(float(written)) == written
