"""Break-even acceptance: what a step would have to yield."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from collector.analysis.needed import geometric, loses, needed
from collector.analysis.noise import noise_of
from collector.analysis.pairing import SPECULATION
from collector.core.speculative import check_speculation
from tests.analysis.arms import MTP, arm, pair_of, study_of


@given(st.floats(0.4, 2.5), st.floats(1.5, 5.0), st.floats(0.0, 0.5))
def test_with_as_many_tokens_a_step_as_needed_a_request_takes_as_long_as_without_speculation(
    ratio: float, tokens: float, outside: float
) -> None:
    """A request of the side with speculation: `outside` of its time before the first token, the rest decoding."""
    whole_off, length, lanes = 8.0, 256, 8
    whole_on = whole_off / ratio
    assume(abs(whole_off - outside * whole_on) > 1e-6)
    step = whole_on * (1 - outside) * tokens / (length - 1)
    off = arm({lanes: lanes * length / whole_off})
    on = arm({lanes: lanes * length / whole_on}, step_time_mean_s=step, **(MTP | {"tokens_per_step": tokens}))
    study = study_of(*off, *on)
    (pair,) = study.pairs(SPECULATION)
    found = needed(pair, study.rows)
    if whole_off <= outside * whole_on:
        assert found is None, "the wait alone takes longer: no acceptance is enough"
        return
    assert found
    (at,) = found.stages
    assert outside * whole_on + (length - 1) * step / at.needed.value == pytest.approx(whole_off)
    assert (at.needed.value < tokens) == (ratio > 1) or ratio == pytest.approx(1)
    assert at.acceptance
    assert at.acceptance.value == pytest.approx((at.needed.value - 1) / 4)


@given(st.integers(2, 64), st.floats(0.05, 0.5), st.floats(1.2, 6.0), st.floats(1.2, 6.0), st.floats(0.5, 2.0))
def test_where_prompts_take_turns_with_decoding_the_figure_is_the_crossing_itself(
    lanes: int, prefill: float, delivered: float, crossing: float, decodes_off: float
) -> None:
    """T = lanes × prefill + steps ÷ tokens on both sides. Step times hold prefill, and must not matter."""
    length = 256

    def took(tokens: float, at: int) -> float:
        return at * prefill + decodes_off * crossing / tokens  # at `crossing` tokens as long as without speculation

    off = arm({at: at * length / (at * prefill + decodes_off) for at in (1, lanes)}, prefill_mean_s=prefill)
    on = arm(
        {at: at * length / took(delivered, at) for at in (1, lanes)},
        step_time_mean_s=0.123,
        prefill_mean_s=prefill,
        **(MTP | {"tokens_per_step": delivered}),
    )
    waits = [replace(row, prefill_mean_s=lanes * prefill) if row.concurrency > 1 else row for row in (*off, *on)]
    study = study_of(*waits)
    (pair,) = study.pairs(SPECULATION)
    found = needed(pair, study.rows)
    assert found
    assert [one.bound for one in found.stages] == [False, False]
    for at in found.stages:
        assert at.needed.value == pytest.approx(crossing)
        point = pair.at(at.concurrency)
        assert point
        assert point.ratio
        # Where what is delivered is just what is needed, rounding decides the side.
        assert (at.needed.value < delivered) == (point.ratio > 1) or point.ratio == pytest.approx(1)
    # A row of the other window method neither gives the prompt's time nor what prompts deliver.
    other = [replace(row, row_id=f"s{row.row_id}", window_method="steady", prefill_mean_s=9.0, tokens_per_step=99.0)
             for row in on]  # fmt: skip
    assert needed(pair, (*study.rows, *other)) == found


@given(st.floats(0.01, 14.9), st.just(15))
def test_the_rates_asked_of_the_engine_add_up_and_fall(accepted: float, k: int) -> None:
    rates = geometric(accepted, k)
    assert sum(rates) == pytest.approx(accepted, abs=0.01)
    config = {"num_speculative_tokens": k, "rejection_sample_method": "synthetic", "synthetic_acceptance_rates": rates}
    assert check_speculation(config | {"method": "dflash"}) is None


def test_prompts_that_deliver_enough_are_named_and_what_no_acceptance_reaches_is_impossible() -> None:
    rows = pair_of({1: 1.5, 8: 0.8, 32: 0.5})
    code = arm({1: 90.0}, speculation="mtp", num_speculative_tokens=4, tokens_per_step=4.5, prompt_set="general/code")
    study = study_of(*rows, *code)
    pair = next(pair for pair in study.pairs(SPECULATION) if pair["prompt_set"] == "synthetic")
    found = needed(pair, study.rows)
    assert found
    assert [one.pays for one in found.stages] == [("general/code", "synthetic"), ("general/code",), ()]
    assert [one.possible for one in found.stages] == [True, True, False], "3.4 ÷ 0.5 is more than k + 1"
    assert set(found.ids) >= {row.row_id for row in rows}
    assert loses(pair, noise_of(study))


def test_a_row_with_a_failed_check_feeds_nothing() -> None:
    rows = pair_of({8: 0.8}, checks="client_bound")
    study = study_of(*rows)
    assert [needed(pair, study.rows) for pair in study.pairs(SPECULATION)] == [None]


def test_what_another_commit_of_the_drafter_delivers_is_not_this_drafters() -> None:
    measured = [*arm({8: 100.0}), *arm({8: 90.0}, drafter_commit="1a2b", **MTP)]
    other = arm({8: 95.0}, drafter_commit="3c4d", prompt_set="general/code", **MTP)
    study = study_of(*measured, *other)
    (pair,) = [one for one in study.pairs(SPECULATION) if one.measured]
    found = needed(pair, study.rows)
    assert found
    assert list(found.kinds) == ["synthetic"]
