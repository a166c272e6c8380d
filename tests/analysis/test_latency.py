"""What a target for the first token allows, and what the last step of concurrency brings and costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.curves import curves
from collector.analysis.latency import TTFT_TARGETS_S, Waits, printed_changes, range_of, waits_of
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


def bucketed(buckets: dict[int, tuple[float | None, float | None]], **changes: object) -> list[Row]:
    """Rows whose p95 lies in these buckets by concurrency."""
    return [
        replace(*line({at: 0.3}, **changes), ttft_p95_low_s=low, ttft_p95_high_s=high)
        for at, (low, high) in buckets.items()
    ]


def within(waits: Waits) -> list[tuple[int | None, int | None, bool]]:
    return [(one.concurrency, one.undecided, one.last) for one in waits.within]


def test_a_target_allows_the_highest_concurrency_whose_bucket_ends_within_it() -> None:
    assert TTFT_TARGETS_S == (1, 2.5, 5)
    found = only(bucketed({1: (0.25, 0.5), 8: (1, 2.5), 32: (2.5, 5)}))
    assert within(found) == [(1, None, False), (8, None, False), (32, None, True)]


def test_a_bucket_on_both_sides_of_a_target_leaves_its_concurrency_undecided() -> None:
    found = only(bucketed({1: (0.25, 0.5), 8: (0.5, 2.5), 32: (2.5, None)}))
    assert within(found) == [(1, 8, False), (8, None, False), (8, 32, False)]


def test_a_mean_within_a_target_allows_nothing_where_p95_is_beyond_it() -> None:
    rows = [replace(row, ttft_mean_s=0.1) for row in bucketed({1: (7.5, 10), 8: (7.5, 10)})]
    assert within(only(rows)) == [(None, None, False)] * 3


def test_of_repeats_the_one_that_waits_longest_decides() -> None:
    rows = [*bucketed({8: (0.25, 0.5)}), *bucketed({8: (0.75, 2.5)}, repeat=2)]
    assert within(only(rows))[:2] == [(None, 8, False), (8, None, True)]


def test_nothing_is_claimed_across_a_bucket_that_is_not_known() -> None:
    rows = bucketed({1: (0.25, 0.5), 8: (None, None), 32: (0.5, 1)})
    assert within(only(rows))[0] == (1, None, False)
    failed = [*bucketed({1: (0.25, 0.5)}), *bucketed({8: (0.25, 0.5)}, checks="throttled"), *bucketed({32: (0.5, 1)})]
    assert within(only(failed))[0] == (1, None, False)


@given(st.lists(st.tuples(st.floats(0.01, 20), st.none() | st.floats(0.01, 20)), min_size=1, max_size=6))
def test_p95_lies_within_the_target_up_to_the_allowed_concurrency_wherever_in_its_bucket_it_is(
    ends: list[tuple[float, float | None]],
) -> None:
    buckets = [(low, None if width is None else low + width) for low, width in ends]
    found = only(bucketed({2**place: bucket for place, bucket in enumerate(buckets)}))
    for one in found.within:
        held = [high for at, (_, high) in enumerate(buckets) if one.concurrency and 2**at <= one.concurrency]
        assert all(high is not None and high <= one.target_s for high in held)
        assert one.last == (len(held) == len(buckets))
        if one.undecided:
            low, high = buckets[one.undecided.bit_length() - 1]
            assert low < one.target_s
            assert high is None or high > one.target_s


def test_the_last_step_is_the_change_of_throughput_and_the_growth_of_the_wait() -> None:
    rows = [make_row(concurrency=at, requests=2 * at, system_throughput_tok_s=speed, ttft_mean_s=wait)
            for at, speed, wait in ((1, 50.0, 0.3), (16, 400.0, 2.0), (32, 420.0, 3.5))]  # fmt: skip
    found = only(rows)
    assert found.step == (16, 32)
    assert found.change is not None
    assert found.growth is not None
    assert found.change.value == pytest.approx(1.05)
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
