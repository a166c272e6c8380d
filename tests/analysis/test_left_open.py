"""Printed ratios that leave a break-even open, and which pairs may be said to place it more closely."""

from __future__ import annotations

from typing import Any

import pytest

from collector.analysis.figures import Figure, Labels
from collector.analysis.left_open import LeftOpen, left_open
from collector.analysis.speculation import pairs
from collector.core.rows import Row
from tests.report.sample import make_row

MTP = {"speculation": "mtp", "num_speculative_tokens": 4, "tokens_per_step": 3.4}


def printed(ratios: dict[int, float], **labels: Any) -> list[Figure]:
    way: dict[str, Any] = {"model": "alpha-30b", "kv_cache_dtype": "auto", "nvlink": "on", "speculation": "mtp"}
    way |= {"num_speculative_tokens": 4, "prompt_set": "synthetic", "series": "main"} | labels
    return [
        Figure(
            figure_id=f"F{at}",
            section="any",
            labels=Labels(**way, concurrency=at),
            metric="speculation_ratio",
            value=ratio,
            unit="x",
            resolution=0.01,
        )
        for at, ratio in ratios.items()
    ]


def run(ratios: dict[int, float], **changes: Any) -> list[Row]:
    ways: tuple[tuple[float | None, dict[str, Any]], ...] = ((1.0, {}), (None, MTP))
    return [
        make_row(concurrency=at, system_throughput_tok_s=50.0 * (factor or ratio), **(way | changes))
        for at, ratio in ratios.items()
        for factor, way in ways
    ]


OPEN = printed({1: 1.8, 8: 0.7, 32: 0.4})
CLOSER = {1: 1.8, 3: 1.2, 4: 0.9, 8: 0.7}


def only(found: list[LeftOpen]) -> LeftOpen:
    assert len(found) == 1
    return found[0]


def test_a_pair_that_ran_between_the_printed_ends_places_the_break_even() -> None:
    found = only(left_open(OPEN, pairs(run(CLOSER)), None))
    assert (found.crossing.bracket, found.labels.concurrency) == ((1, 8), None)
    (placed,) = found.placed
    assert (placed.campaign, placed.provenance) == ("sample-dual", "measured")
    assert placed.crossing.bracket == (3, 4)


@pytest.mark.parametrize(
    "changes",
    [{"model": "beta"}, {"kv_cache_dtype": "fp8_e5m2"}, {"nvlink": "off"}, {"series": "k3"}, {"prompt_set": "general"}],
)
def test_a_pair_of_another_kind_places_nothing(changes: dict[str, Any]) -> None:
    assert only(left_open(OPEN, pairs(run(CLOSER, **changes)), None)).placed == ()


@pytest.mark.parametrize(
    "ratios",
    [{1: 1.8, 8: 0.7}, {1: 1.8, 16: 0.5}, {8: 1.1, 16: 0.5}, {1: 0.9, 8: 1.2}, {2: 1.5, 4: 1.2}, {2: 0.8, 4: 1.1}],
)
def test_what_is_no_narrower_lies_elsewhere_or_turns_the_other_way_places_nothing(ratios: dict[int, float]) -> None:
    assert only(left_open(OPEN, pairs(run(ratios)), None)).placed == ()


def test_the_narrowest_bracket_comes_first() -> None:
    wide = run({1: 1.8, 2: 1.5, 6: 0.8, 8: 0.7}, campaign="a-wide-one")
    found = only(left_open(OPEN, pairs([*wide, *run(CLOSER)]), None))
    assert [one.crossing.bracket for one in found.placed] == [(3, 4), (2, 6)]


def test_only_emulated_ratios_carry_the_error_of_the_emulation() -> None:
    for provenance, widened in (("emulated", True), ("measured", False)):
        (placed,) = only(left_open(OPEN, pairs(run(CLOSER, provenance=provenance)), 0.1)).placed
        assert (placed.crossing.by_all is not None) == widened


def test_printed_ratios_on_one_side_leave_nothing_open() -> None:
    assert left_open(printed({1: 1.8, 8: 1.2}), pairs(run(CLOSER)), None) == []
