"""What NVLink gains, whether traffic explains it, and which gains mix the link with the drafts."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from collector.analysis.interconnect import (
    EXPLAINS_FROM_PERCENT,
    FEWEST_IN_ORDER,
    links,
    multiples,
    order,
    stage_of,
    unpaired,
    without_ratio,
)
from collector.analysis.mixed import MIXED_FROM_PERCENT
from collector.analysis.pairing import NVLINK
from collector.analysis.study import PUBLISHED, Study
from collector.core.rows import Row
from collector.report.build import read_campaign, read_published
from tests.report.sample import make_failure, make_row

DATA = Path(__file__).resolve().parents[2] / "data"
GIB = 2**30
MTP: dict[str, Any] = {"speculation": "mtp", "num_speculative_tokens": 4}


def link(gain: float, traffic: float | None = 100.0, concurrency: int = 32, **changes: Any) -> list[Row]:
    """Return both sides at one concurrency; without NVLink it makes 100 tok/s."""
    stage = {"concurrency": concurrency, "requests": 64, "tokens_per_step": 2.0} | changes
    on = None if traffic is None else int(traffic * GIB)
    return [
        make_row(system_throughput_tok_s=100.0 + gain, nvlink_bytes=on, **stage),
        make_row(system_throughput_tok_s=100.0, nvlink_bytes=0, nvlink="off", extra_flags="--flag", **stage),
    ]


def study(*rows: Row, **changes: Any) -> Study:
    return Study(name="sample-dual", rows=rows, **changes)


def published() -> Study:
    found = read_published(DATA / PUBLISHED)
    assert found is not None
    return Study(name=PUBLISHED, figures=found.figures, published_failures=found.failures)


def test_gains_come_largest_first_with_the_traffic_of_both_sides() -> None:
    found = links(study(*link(9, model="a"), *link(28, 800.0, model="b"), *link(17, None, model="c")), 32)
    assert [(one.pair["model"], round(one.gain.value, 6)) for one in found] == [("b", 28), ("c", 17), ("a", 9)]
    assert found[0].on is not None
    assert found[0].off is not None
    assert (found[0].on.value, found[0].off.value) == (800 * GIB, 0)
    assert found[1].on is None


def test_links_are_compared_at_the_highest_concurrency_that_most_of_them_have() -> None:
    def stage(*rows: Row) -> int | None:
        return stage_of(study(*rows).pairs(NVLINK))

    both = [*link(9, concurrency=8, model="a"), *link(9, concurrency=8, model="b"), *link(9, model="a")]
    assert stage(*both) == 32
    assert stage(*both, *link(9, concurrency=8, model="c")) == 8
    assert stage(make_row()) is None


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=FEWEST_IN_ORDER, max_size=9))
def test_the_share_in_the_same_order_is_kendalls_rank_correlation(values: list[tuple[int, int]]) -> None:
    rows = [row for n, (gain, traffic) in enumerate(values) for row in link(gain, traffic, model=f"m{n}")]
    found = order(links(study(*rows), 32))
    untied = [(a, b) for a, b in combinations(values, 2) if a[0] != b[0] and a[1] != b[1]]
    if not untied:
        assert found is None
        return
    assert found is not None
    assert found.couples == len(untied)
    assert found.same == sum((a[0] < b[0]) == (a[1] < b[1]) for a, b in untied)
    if len(untied) == len(list(combinations(values, 2))):
        tau = kendalltau([gain for gain, _ in values], [traffic for _, traffic in values]).statistic
        assert found.same / found.couples == pytest.approx((1 + tau) / 2)


def test_traffic_explains_the_order_only_where_nearly_all_couples_agree() -> None:
    same = [row for n in range(5) for row in link(n + 1, n + 1, model=f"m{n}")]
    found = order(links(study(*same), 32))
    assert found is not None
    assert found.explained
    one_out = order(links(study(*same, *link(0.5, 9, model="out")), 32))
    assert one_out is not None
    assert 100 * one_out.same / one_out.couples < EXPLAINS_FROM_PERCENT
    assert not one_out.explained


def test_too_few_links_have_no_order() -> None:
    few = [row for n in range(FEWEST_IN_ORDER - 1) for row in link(n + 1, n + 1, model=f"m{n}")]
    unknown = [row for n in range(5) for row in link(n + 1, None, model=f"m{n}")]
    assert order(links(study(*few), 32)) is order(links(study(*unknown), 32)) is None


@pytest.mark.parametrize(("share", "mixed"), [(0.99, False), (1.01, True)])
def test_a_gain_is_mixed_where_tokens_per_forward_differ_beyond_the_threshold(share: float, mixed: bool) -> None:
    on, off = link(17, **MTP)
    more = 1 + share * MIXED_FROM_PERCENT / 100
    drafts = 10_000
    counts = {"drafts": drafts, "draft_tokens": 4 * drafts}
    sides = [
        make_row(
            **(MTP | {"nvlink": one.nvlink, "extra_flags": one.extra_flags, "concurrency": 32, "requests": 64}),
            **counts,
            accepted_tokens=round(drafts * (tokens - 1)),
        )
        for one, tokens in ((on, 3.0 * more), (off, 3.0))
    ]
    (found,) = links(study(*sides), 32)
    assert found.mixed is mixed


def test_a_gain_mixed_at_another_concurrency_is_told_apart_from_one_mixed_here() -> None:
    on, off = link(17, concurrency=1, **MTP)
    apart = study(*link(17, **MTP), on, replace(off, accepted_tokens=2 * (off.accepted_tokens or 0)))
    (found,) = links(apart, 32)
    assert not found.mixed
    assert found.stirred is not None
    assert found.stirred.concurrency == 1
    (here,) = links(apart, 1)
    assert here.mixed
    assert here.stirred is None


def test_without_speculation_there_is_nothing_to_mix() -> None:
    (found,) = links(study(*link(17)), 32)
    assert (found.here, found.mixed) == (None, False)


def test_speculation_multiplies_the_traffic_of_the_same_setting() -> None:
    rows = [*link(27, 300.0), *link(28, 780.0, **MTP), *link(9, 300.0, model="beta", kv_cache_dtype="fp8_e5m2")]
    found = links(study(*rows), 32)
    (one,) = multiples(study(*rows), found, 32)
    assert one.traffic.value == pytest.approx(2.6)
    assert one.gain is not None
    assert one.gain_without is not None
    assert [one.gain.value, one.gain_without.value] == pytest.approx([1.28, 1.27])


def test_a_multiple_is_known_even_where_the_link_has_no_partner() -> None:
    rows = [*link(27, 300.0), link(28, 780.0, **MTP)[0]]
    (one,) = multiples(study(*rows), links(study(*rows), 32), 32)
    assert one.gain is None
    assert one.gain_without is not None


def test_a_side_that_did_not_start_is_listed_once_with_its_words() -> None:
    failures = tuple(make_failure(nvlink=side, speculation="mtp") for side in ("on", "off"))
    found = unpaired(study(failures=(*failures, make_failure(nvlink=None))))
    assert [(one.model, one.links, one.words) for one in found] == [
        ("gamma-33b", ("on", "off"), "torch.OutOfMemoryError: CUDA out of memory.")
    ]


def test_what_was_measured_on_one_side_only_is_told_with_its_reason() -> None:
    alone, _ = link(9, model="alone")
    bad = link(9, model="bad", checks="throttled")
    found = without_ratio(study(alone, *bad), 32)
    assert [(pair["model"], point.reason and point.reason.kind) for pair, point in found] == [
        ("alone", "missing"),
        ("bad", "checks"),
    ]


def test_the_published_links_are_ten_and_the_drafts_of_one_differ() -> None:
    found = links(published(), 32)
    assert len(found) == 10
    assert [one.pair["model"] for one in found if one.mixed] == ["gemma-4-31b"]
    here = next(one.here for one in found if one.here)
    assert (here.concurrency, here.on.value, here.off.value) == (1, 0.61, 0.85)
    told = order(found)
    assert told is not None
    assert not told.explained
    (one,) = multiples(published(), found, 32)
    assert (one.pair["model"], one.traffic.value) == ("muse-glimmer-30b", 2.6)


def test_the_emulated_gains_come_near_the_published_ones() -> None:
    def gains(of: Study) -> dict[tuple[Any, ...], float]:
        names = ("model", "series", "kv_cache_dtype", "speculation")
        return {tuple(one.pair[name] for name in names): one.gain.value for one in links(of, 32)}

    printed, emulated = gains(published()), gains(read_campaign(DATA / "dual-3090"))
    assert set(printed) == set(emulated)
    for key, value in printed.items():
        assert emulated[key] == pytest.approx(value, abs=3), key
