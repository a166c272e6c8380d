"""What a target for the first token allows, and what the last step of concurrency brings and costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.batching import TTFT_TARGETS_S
from collector.analysis.curves import curves
from collector.analysis.latency import Waits, printed_changes, range_of, waits_of
from collector.analysis.study import PUBLISHED, Study
from collector.core.rows import Row
from collector.report.build import read_published
from tests.report.sample import make_row

DATA = Path(__file__).resolve().parents[2] / "data"


def line(waits: dict[int, float | None], **changes: object) -> list[Row]:
    return [
        make_row(concurrency=at, requests=2 * at, system_throughput_tok_s=50.0 * at, ttft_mean_s=wait, **changes)
        for at, wait in waits.items()
    ]


def only(rows: list[Row]) -> Waits:
    (curve,) = curves(rows)
    return waits_of(curve)


def bounds(waits: Waits) -> tuple[float, float | None]:
    bucket = waits.waits[0].bucket
    assert bucket is not None
    return bucket.low.value, bucket.high.value if bucket.high else None


def within(waits: Waits) -> list[tuple[int | None, bool]]:
    return [(one.wait.concurrency if one.wait else None, one.last) for one in waits.within]


def test_a_target_allows_the_highest_concurrency_before_the_mean_exceeds_it() -> None:
    assert TTFT_TARGETS_S == (1, 2, 5)
    assert within(only(line({1: 0.4, 8: 1.5, 32: 4.0}))) == [(1, False), (8, False), (32, True)]


def test_a_target_below_every_wait_allows_none() -> None:
    assert within(only(line({1: 7.0, 8: 9.0}))) == [(None, False)] * 3


def test_nothing_is_claimed_across_a_wait_that_is_not_known() -> None:
    rows = [*line({1: 0.4}), *line({8: None}), *line({32: 0.9})]
    assert within(only(rows))[0] == (1, False)
    failed = [*line({1: 0.4}), *line({8: 0.5}, checks="throttled"), *line({32: 0.9})]
    assert within(only(failed))[0] == (1, False)


@given(st.lists(st.floats(0.01, 20), min_size=1, max_size=6))
def test_every_concurrency_up_to_the_allowed_one_keeps_the_target(waits: list[float]) -> None:
    found = only(line({2**place: wait for place, wait in enumerate(waits)}))
    for one in found.within:
        held = [
            wait.mean.value
            for wait in found.waits
            if one.wait and wait.concurrency <= one.wait.concurrency and wait.mean
        ]
        assert all(value <= one.target_s for value in held)
        assert one.last == (len(held) == len(waits))


def test_the_last_step_is_the_change_of_throughput_and_the_growth_of_the_wait() -> None:
    rows = [make_row(concurrency=at, requests=2 * at, system_throughput_tok_s=speed, ttft_mean_s=wait)
            for at, speed, wait in ((1, 50.0, 0.3), (16, 400.0, 2.0), (32, 420.0, 3.5))]  # fmt: skip
    found = only(rows)
    assert found.step == (16, 32)
    assert found.change is not None
    assert found.growth is not None
    assert found.change.value == pytest.approx(5.0)
    assert found.growth.value == pytest.approx(1.75)


def test_a_single_concurrency_has_no_last_step() -> None:
    found = only(line({8: 1.0}))
    assert (found.step, found.change, found.growth) == (None, None, None)


def test_the_bucket_of_p95_holds_those_of_all_repeats_and_is_open_above_the_last_bound() -> None:
    first = replace(make_row(), ttft_p95_s=3.0, ttft_p95_low_s=2.5, ttft_p95_high_s=5.0)
    second = replace(make_row(repeat=2), ttft_p95_s=6.0, ttft_p95_low_s=5.0, ttft_p95_high_s=7.5)
    above = replace(make_row(repeat=3), ttft_p95_low_s=7.5)
    assert bounds(only([first, second])) == (2.5, 7.5)
    assert bounds(only([first, above])) == (2.5, None)
    assert only([make_row()]).waits[0].bucket is None


def test_the_range_spans_all_configurations_at_the_highest_concurrency_and_names_the_rows_at_its_ends() -> None:
    rows = [*line({1: 0.1, 32: 4.0}), *line({32: 6.0}, model="beta"), *line({32: 9.0}, model="bad", checks="throttled")]
    found = range_of(curves(rows))
    assert found is not None
    assert (found.concurrency, found.least.value, found.most.value, found.configurations) == (32, 4.0, 6.0, 2)
    assert (found.least.ids, found.most.ids) == ((rows[1].row_id,), (rows[2].row_id,))
    assert range_of(curves(line({1: None}))) is None


def test_printed_changes_name_their_concurrencies() -> None:
    published = read_published(DATA / "published")
    assert published is not None
    found = printed_changes(Study(name=PUBLISHED, figures=published.figures))
    assert [(one.figure.figure_id, one.low, one.high) for one in found] == [
        ("F039", 8, 32),
        ("F153", 16, 32),
        ("F154", 16, 32),
        ("F155", 16, 32),
    ]
