"""A gain of a dtype or a link that is made of luckier drafts is no gain of it, and feeds no verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.analysis.mixed import MIXED_FROM_PERCENT, drafting, mixed_at
from collector.analysis.noise import noise_of
from collector.analysis.pairing import KV_CACHE, NVLINK, Factor
from collector.analysis.recommend import advice
from collector.analysis.study import PUBLISHED, Study
from collector.core.rows import Row
from collector.report.build import read_published
from tests.analysis.arms import MTP, arm, study_of

DATA = Path(__file__).resolve().parents[2] / "data"
BASE: dict[str, dict[str, Any]] = {"kv_cache_dtype": {"kv_cache_dtype": "auto"}, "nvlink": {"nvlink": "off"}}
WITH: dict[str, dict[str, Any]] = {"kv_cache_dtype": {"kv_cache_dtype": "fp8_e5m2"}, "nvlink": {"nvlink": "on"}}
#: Another model whose repeats tell a noise floor of one per cent with speculation, so that 2 % must be exceeded.
CALM = [
    *arm({1: 100.0}, model="calm", **MTP),
    *arm({1: 101.0}, model="calm", repeat=2, **MTP),
]
TOKENS = 3.0


def sides(factor: Factor, gain: float, tokens: float, at: int = 8, **changes: Any) -> list[Row]:
    """Return a speculating pair whose ratio is `gain` and whose tokens per step stand like `tokens` to 1."""
    way = MTP | {"tokens_per_step": TOKENS} | changes
    luck = way | {"tokens_per_step": TOKENS * tokens}
    return [
        *arm({at: 100.0}, **(way | BASE[factor.name])),
        *arm({at: 100.0 * gain}, **(luck | WITH[factor.name])),
    ]


def mixed(factor: Factor, study: Study) -> list[tuple[int, ...]]:
    noise = noise_of(study)
    return [mixed_at(pair, drafting(study, pair, noise)) for pair in study.pairs(factor) if pair.measured]


@pytest.mark.parametrize("factor", [KV_CACHE, NVLINK], ids=lambda factor: factor.name)
@pytest.mark.parametrize(
    ("gain", "tokens", "expected"),
    [
        (1.034, 1.037, True),  # all of it is acceptance
        (1.034, 1.000, False),
        (1.034, 1.010, False),  # a gain without the luck as well
        (1.010, 0.970, True),  # a gain that bad luck hides
        (0.970, 0.975, True),
        (1.200, 1.040, False),
        (1.200, 1.01 + MIXED_FROM_PERCENT / 100, True),  # whatever the side
        (1.200, 1 / (1.01 + MIXED_FROM_PERCENT / 100), True),
    ],
)
def test_a_ratio_is_mixed_where_drafting_luck_is_large_or_decides_its_side(
    factor: Factor, gain: float, tokens: float, expected: bool
) -> None:
    assert mixed(factor, study_of(*CALM, *sides(factor, gain, tokens))) == [(8,) if expected else ()]


@pytest.mark.parametrize("factor", [KV_CACHE, NVLINK], ids=lambda factor: factor.name)
def test_no_verdict_on_a_dtype_or_a_link_rests_on_a_mixed_ratio(factor: Factor) -> None:
    rows = [*sides(factor, 1.2, 1.0), *sides(factor, 1.3, 1.4, at=1), *sides(factor, 1.034, 1.037, at=16)]
    _, found = advice(study_of(*CALM, *rows))
    (one,) = [one for of in found for one in of.judged if one.pair.factor is factor]
    assert (one.verdict, one.evidence.gains, one.evidence.mixed) == ("use", (8,), (1, 16))
    assert set(one.ids) == {row.row_id for row in rows if row.concurrency == 8}
    assert [one.least.value, one.most.value] == pytest.approx([1.2, 1.2])


@pytest.mark.parametrize("factor", [KV_CACHE, NVLINK], ids=lambda factor: factor.name)
def test_without_speculation_nothing_is_mixed(factor: Factor) -> None:
    plain = {"speculation": "off", "num_speculative_tokens": None, "tokens_per_step": 1.0}
    rows = [*arm({8: 100.0}, **(plain | BASE[factor.name])), *arm({8: 103.0}, **(plain | WITH[factor.name]))]
    assert mixed(factor, study_of(*rows)) == [()]


@pytest.mark.parametrize("factor", [KV_CACHE, NVLINK], ids=lambda factor: factor.name)
def test_where_acceptance_is_not_known_a_pair_that_is_mixed_elsewhere_counts_as_mixed(factor: Factor) -> None:
    silent = {"accepted_tokens": None, "draft_tokens": None}
    known, unknown = sides(factor, 1.2, 1.0, at=1), sides(factor, 1.2, 1.0, at=8, **silent)
    assert mixed(factor, study_of(*known, *unknown)) == [()]
    assert mixed(factor, study_of(*sides(factor, 1.2, 1.4, at=1), *unknown)) == [(1, 8)]


def test_the_published_link_whose_acceptance_is_known_to_differ_at_one_concurrency_alone_feeds_no_verdict() -> None:
    """0.61 with NVLink and 0.85 without it at 1; at 32, where its gain was printed, nothing is known."""
    published = read_published(DATA / PUBLISHED)
    assert published is not None
    study = Study(name=PUBLISHED, figures=published.figures)
    noise = noise_of(study)
    found = {
        (pair["model"], pair.get("num_speculative_tokens")): mixed_at(pair, drafting(study, pair, noise))
        for pair in study.pairs(NVLINK)
        if pair.speculation != "off"
    }
    assert {key for key, at in found.items() if at} == {("gemma-4-31b", 4)}
    assert found["gemma-4-31b", 4] == (32,)
    proof = {name for one in advice(study)[1] for judged in one.nvlink for name in judged.ids}
    printed = {one.figure_id: one.labels for one in study.figures if one.metric == "nvlink_gain"}
    left_out = set(printed) - proof
    assert {(printed[one].model, printed[one].speculation) for one in left_out} == {("gemma-4-31b", "mtp")}
