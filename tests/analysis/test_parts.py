"""What waits are made of, and what a link changes for prefill and for decoding, and sends for a token."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.analysis.parts import link_noises, link_parts, predicted_bytes, waits
from collector.core.rows import Row
from collector.report.build import read_campaign
from tests.analysis.arms import MTP, arm, study_of

DATA = Path(__file__).resolve().parents[2] / "data"


def linked(**on: Any) -> list[Row]:
    """Return a pair whose link makes prefill a half and a step a quarter faster."""
    off = [
        replace(row, prefill_mean_s=0.3, step_time_mean_s=0.05)
        for row in arm({8: 100.0}, nvlink="off", all_reduce="PYNCCL", extra_flags="--disable-custom-all-reduce")
    ]
    with_it = [replace(row, prefill_mean_s=0.2, step_time_mean_s=0.04, **on) for row in arm({8: 130.0}, nvlink="on")]
    return [*off, *with_it]


def test_gains_of_prefill_and_of_decoding_are_told_apart() -> None:
    (one,) = link_parts(study_of(*linked()))
    assert one.prefill is not None
    assert one.decode is not None
    assert (one.system.value, one.prefill.value, one.decode.value) == pytest.approx((1.3, 1.5, 1.25))
    assert one.predicted is None, "of a model whose dimensions nobody knows"


def test_a_prefill_that_took_no_time_is_no_gain_and_no_error() -> None:
    rows = [replace(row, prefill_mean_s=0.0) if row.nvlink == "off" else row for row in linked()]
    found = link_parts(study_of(*rows))
    assert [(one.prefill, one.decode is not None) for one in found] == [(None, True)]
    assert link_noises(study_of(*rows), found).keys() == {"system", "prefill", "decode"}


def test_bytes_per_token_are_those_of_the_side_with_the_link() -> None:
    rows = linked(nvlink_bytes=5_000_000, generation_tokens=1_000)
    (one,) = link_parts(study_of(*rows))
    assert one.per_token is not None
    assert one.per_token.value == 5_000
    assert one.per_token.ids == (rows[-1].row_id,)


def test_a_row_with_a_failed_check_has_no_part() -> None:
    rows = [replace(row, checks="throttled") for row in linked()]
    assert link_parts(study_of(*rows)) == []
    ((_, (stage,)),) = waits(study_of(*[replace(row, checks="throttled") for row in arm({8: 100.0}, **MTP)]))
    assert set(stage.means.values()) == {None}
    assert {bucket for found in stage.percentiles.values() for _, bucket in found.values()} == {None}


def test_each_percentile_stands_with_the_bucket_that_holds_it() -> None:
    (row,) = arm({8: 100.0})
    row = replace(row, tpot_p95_s=0.03, tpot_p95_low_s=0.025, tpot_p95_high_s=0.05, ttft_p50_s=None)
    row = replace(row, ttft_p50_low_s=20.0, ttft_p50_high_s=None)
    ((_, (stage,)),) = waits(study_of(row))
    value, bucket = stage.percentiles["tpot"]["p95"]
    assert value is not None
    assert bucket is not None
    assert bucket.high is not None
    assert (value.value, bucket.low.value, bucket.high.value) == (0.03, 0.025, 0.05)
    value, bucket = stage.percentiles["ttft"]["p50"]
    assert value is None
    assert bucket is not None
    assert (bucket.low.value, bucket.high) == (20.0, None)


def test_queueing_and_prefill_stand_apart_and_below_what_they_add_up_to() -> None:
    """By the engine's clocks a request waits, is computed and has its first token: means add up, and no more."""
    known = 0
    for _, stages in waits(read_campaign(DATA / "dual-3090")):
        for stage in stages:
            queue, prefill, ttft = (stage.means[name] for name in ("queue", "prefill", "ttft"))
            if queue and prefill and ttft:
                known += 1
                assert queue.value + prefill.value <= ttft.value * (1 + 1e-9)
                assert all(bucket for found in stage.percentiles.values() for _, bucket in found.values())
    assert known > 50


def test_traffic_is_what_positions_times_layers_times_hidden_give_but_for_prompts_computed_again() -> None:
    study = read_campaign(DATA / "dual-3090")
    found = link_parts(study)
    assert len(found) == 40
    more = []
    for one in found:
        assert one.predicted is not None
        assert one.per_token is not None
        if one.preempted:
            more.append(one.per_token.value / one.predicted.value)
        else:
            assert one.per_token.value == pytest.approx(one.predicted.value)
    assert len(more) == 2, "Gemma at the highest concurrency, with and without drafts"
    assert all(1.1 < ratio < 1.2 for ratio in more)


def test_of_one_card_of_a_schedule_and_of_an_unknown_method_nothing_is_predicted() -> None:
    study = read_campaign(DATA / "dual-3090")
    row = next(row for row in study.rows if row.speculation != "off")
    assert predicted_bytes(row, study.profile) is not None
    schedule = '{"num_speculative_tokens_per_batch_size":[[1,32,3]]}'
    for changed in (
        replace(row, tensor_parallel=1),
        replace(row, speculative_config=schedule),
        replace(row, speculation="other"),
    ):
        assert predicted_bytes(changed, study.profile) is None
    assert predicted_bytes(row, None) is None


def drafted(rows: list[Row], accepted: int) -> list[Row]:
    return [
        replace(row, speculation="mtp", num_speculative_tokens=4, draft_tokens=1_000, accepted_tokens=accepted)
        for row in rows
    ]


def test_a_gain_between_arms_that_accept_differently_is_marked_as_mixed() -> None:
    off, on = linked()
    (like,) = link_parts(study_of(*drafted([off, on], 500)))
    (unlike,) = link_parts(study_of(*drafted([off], 400), *drafted([on], 500)))
    assert (like.mixed, unlike.mixed) == (False, True)
