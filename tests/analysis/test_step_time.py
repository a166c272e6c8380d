"""A ratio of throughputs is exactly what a step yields ÷ what it costs x how many requests were decoding."""

from __future__ import annotations

from dataclasses import replace
from math import log
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from collector.analysis.noise import noise_among
from collector.analysis.printed_steps import printed_cases
from collector.analysis.quantity import Quantity
from collector.analysis.step_time import Case, Part, cases_of, decode_bracket, leading, moved
from collector.analysis.study import PUBLISHED, Study
from collector.core.rows import Row
from collector.report.build import read_campaign, read_published
from tests.report.sample import make_row

DATA = Path(__file__).resolve().parents[2] / "data"
DFLASH = {"speculation": "dflash", "num_speculative_tokens": 15, "tokens_per_step": 3.0}
OUTPUT = 256


def value(quantity: Quantity | None) -> float:
    assert quantity is not None
    return quantity.value


@st.composite
def counted(draw: st.DrawFn, *, speculating: bool, repeat: int) -> Row:
    """A row whose columns come from counters by their definitions, as core/counters.py makes them."""
    requests = draw(st.integers(1, 64))
    observed = draw(st.integers(requests, requests * (OUTPUT - 1)))  # N: steps of requests after their first token
    waited = draw(st.floats(0.1, 1e4))  # I: the sum of times between steps, s
    window = draw(st.floats(1.0, 1e4))
    generated, after_first = requests * OUTPUT, requests * (OUTPUT - 1)
    row = make_row(**(DFLASH if speculating else {}), concurrency=8, requests=32, repeat=repeat)
    return replace(
        row,
        system_throughput_tok_s=generated / window,
        tokens_per_step=after_first / observed,
        step_time_mean_s=waited / observed,
        tpot_mean_s=waited / after_first,
        request_decode_rate_tok_s=after_first / waited,
    )


@st.composite
def arms(draw: st.DrawFn, most: int = 3) -> tuple[list[Row], list[Row]]:
    def arm(speculating: bool) -> list[Row]:
        repeats = draw(st.integers(1, most))
        return [draw(counted(speculating=speculating, repeat=repeat + 1)) for repeat in range(repeats)]

    return arm(True), arm(False)


def part_of(rows: list[Row]) -> Part:
    (case,) = cases_of(rows)
    (part,) = case.parts
    return part


@given(arms())
def test_the_factors_multiply_to_the_ratio_exactly_over_any_number_of_repeats(
    rows: tuple[list[Row], list[Row]],
) -> None:
    on, off = rows
    part = part_of(on + off)
    product = value(part.tokens) / value(part.step) * value(part.rest)
    assert product == pytest.approx(value(part.system), rel=1e-12)
    assert value(part.decode) == pytest.approx(value(part.tokens) / value(part.step), rel=1e-12)
    assert value(part.system) == pytest.approx(part.point.ratio, rel=1e-12)


@given(arms(most=1))
def test_of_one_measurement_each_the_first_two_factors_are_the_ratio_of_decode_rates(
    rows: tuple[list[Row], list[Row]],
) -> None:
    (on,), (off,) = rows
    rates = (on.request_decode_rate_tok_s or 0.0) / (off.request_decode_rate_tok_s or 1.0)
    assert value(part_of([on, off]).decode) == pytest.approx(rates, rel=1e-9)


@given(st.floats(0.1, 1e4), st.floats(1.0, 1e4))
def test_requests_decoding_are_the_time_spent_between_steps_over_the_window(waited: float, window: float) -> None:
    requests, observed = 32, 4000
    row = replace(
        make_row(**DFLASH),
        system_throughput_tok_s=requests * OUTPUT / window,
        tokens_per_step=requests * (OUTPUT - 1) / observed,
        step_time_mean_s=waited / observed,
    )
    assert value(part_of([row, make_row()]).on.decoding) == pytest.approx(waited / window)


@given(arms(most=1))
def test_decoding_pays_exactly_where_the_yield_exceeds_the_cost(rows: tuple[list[Row], list[Row]]) -> None:
    part = part_of([*rows[0], *rows[1]])
    assume(value(part.decode) != pytest.approx(1.0))
    assert (value(part.decode) > 1) == (value(part.tokens) > value(part.step))


@pytest.mark.parametrize("column", ["tokens_per_step", "step_time_mean_s"])
def test_without_its_columns_a_ratio_stays_but_is_not_taken_apart(column: str) -> None:
    part = part_of([replace(make_row(**DFLASH), **{column: None}), make_row()])  # type: ignore[arg-type]
    assert part.point.ratio is not None
    assert not part.complete
    assert part.rest is None


def test_a_repeat_that_lacks_a_column_leaves_the_identity_as_it_is() -> None:
    lacking = replace(make_row(**DFLASH, repeat=2, system_throughput_tok_s=500.0), tokens_per_step=None)
    part = part_of([make_row(**DFLASH, system_throughput_tok_s=90.0), lacking, make_row()])
    assert value(part.system) == pytest.approx(90.0 / 60.0)
    assert value(part.tokens) / value(part.step) * value(part.rest) == pytest.approx(value(part.system))


def test_a_row_with_a_failed_check_is_not_taken_apart() -> None:
    (case,) = cases_of([*pair(1, 1.7), *pair(8, 0.5, checks="throttled")])
    assert [part.decode is not None for part in case.parts] == [True, False]
    assert case.parts[1].rows_on == ()


def test_positions_follow_from_k_and_concurrency_and_waste_from_the_counters() -> None:
    on = replace(make_row(**DFLASH, concurrency=8, requests=32), drafts=100, draft_tokens=1500, accepted_tokens=200)
    part = part_of([on, make_row(concurrency=8, requests=32)])
    assert (value(part.positions), value(part.positions_per_step)) == (16, 128)
    assert value(part.rejected) == pytest.approx(1300 / 1600)


def pair(concurrency: int, ratio: float, **changes: object) -> list[Row]:
    stage = {"concurrency": concurrency, "requests": 2 * concurrency} | changes
    return [
        make_row(system_throughput_tok_s=100.0, **stage),
        make_row(system_throughput_tok_s=100.0 * ratio, **(DFLASH | stage)),
    ]


def line(ratios: dict[int, float], **changes: object) -> list[Row]:
    return [row for concurrency, ratio in ratios.items() for row in pair(concurrency, ratio, **changes)]


def test_what_turns_comes_before_what_loses_and_that_before_what_gains() -> None:
    rows = [
        *line({1: 2.0, 8: 1.5}, model="gains"),
        *line({1: 0.3, 8: 0.2}, model="loses"),
        *line({1: 1.7, 8: 0.9}, model="turns"),
        *line({1: 1.7, 8: 0.4}, model="turns more"),
    ]
    found = cases_of(rows)
    assert [case.pair["model"] for case in found] == ["turns more", "turns", "loses", "gains"]
    assert [(case.turns, case.loses) for case in found] == [(True, True), (True, True), (False, True), (False, False)]
    assert [case.telling and case.telling.concurrency for case in found] == [8, 8, 8, 1]


def test_of_several_settings_the_one_with_the_highest_throughput_speaks_for_its_model() -> None:
    slow, fast = line({1: 1.7, 8: 0.4}), line({1: 1.6, 8: 0.5}, kv_cache_dtype="fp8_e5m2")
    fast = [replace(row, system_throughput_tok_s=2 * (row.system_throughput_tok_s or 0.0)) for row in fast]
    (lead,) = leading(cases_of(slow + fast))
    assert lead.pair["kv_cache_dtype"] == "fp8_e5m2"


def test_cases_under_other_loads_each_have_a_leading_one() -> None:
    rows = line({1: 1.7, 8: 0.4}) + line({1: 1.2, 8: 0.6}, prompt_set="general/code")
    assert [case.pair["prompt_set"] for case in leading(cases_of(rows))] == ["synthetic", "general/code"]


def test_the_bracket_holds_the_neighbours_between_which_decoding_turns() -> None:
    curves = ({1: 1.7, 4: 1.2, 8: 0.9, 32: 0.4}, {1: 1.7, 8: 1.2}, {1: 1.7, 4: 1.01, 8: 0.4})
    noise = noise_among([], {}, {})
    found = [decode_bracket(case, noise) for curve in curves for case in cases_of(line(curve))]
    assert found == [(4, 8), None, None], "at 4 of the last one neither side is known"


@given(arms(most=1), arms(most=1))
def test_the_factor_that_moved_most_alone_moves_the_ratio_no_less_than_any_other(
    low: tuple[list[Row], list[Row]], high: tuple[list[Row], list[Row]]
) -> None:
    first = [replace(row, concurrency=1, row_id=f"{row.row_id}1") for side in low for row in side]
    (case,) = cases_of([*first, *(row for side in high for row in side)])
    found = moved(case)
    before, after = case.parts
    shares = {
        "tokens": log(value(after.tokens) / value(before.tokens)),
        "step": -log(value(after.step) / value(before.step)),
        "rest": log(value(after.rest) / value(before.rest)),
    }
    change = log(value(after.system) / value(before.system))
    assert sum(shares.values()) == pytest.approx(change, abs=1e-9)
    if case.telling is before or found is None:
        assert found is None
    else:
        assert all(
            abs(change - shares[found]) <= abs(change - one) + 1e-9 or one * change < shares[found] * change + 1e-9
            for one in shares.values()
        )


def test_of_muse_it_is_the_step_time_that_moved() -> None:
    found = leading(cases_of(read_campaign(DATA / "dual-3090").rows))
    (muse,) = (case for case in found if case.pair["model"] == "muse-glimmer-30b" and case.pair["nvlink"] == "on")
    assert moved(muse) == "step"


def test_nothing_to_compare_is_no_case() -> None:
    assert cases_of([]) == []
    assert cases_of([make_row()]) == []
    assert cases_of([make_row(**DFLASH)]) == []


# --- the committed data ---------------------------------------------------------------------------------------


def muse(found: list[Case]) -> Part:
    settings = {"model": "muse-glimmer-30b", "kv_cache_dtype": "fp8_e5m2", "nvlink": "on", "speculation": "dflash"}
    (case,) = (one for one in found if all(one.pair.get(name) == want for name, want in settings.items()))
    (part,) = (one for one in case.parts if one.concurrency == 32)
    return part


@pytest.fixture(scope="module")
def printed() -> list[Case]:
    published = read_published(DATA / "published")
    assert published is not None
    return printed_cases(Study(name=PUBLISHED, figures=published.figures))


def test_published_decode_rates_and_throughputs_give_the_two_factors_that_were_printed(printed: list[Case]) -> None:
    part = muse(printed)
    assert value(part.decode) == pytest.approx(8.3 / 21.3)
    assert value(part.decode) * value(part.rest) == pytest.approx(219.3 / 497.2)
    assert (value(part.positions), value(part.positions_per_step)) == (16, 512)
    assert (part.tokens, part.step) == (None, None)


def test_what_published_figures_would_mean_for_a_step_is_kept_apart_from_what_was_published(
    printed: list[Case],
) -> None:
    part = muse(printed)
    assert part.implied is not None
    on, off = part.implied
    assert value(on.tokens) == pytest.approx(1 + 15 * 0.1506)
    assert value(on.tokens) / value(on.step) == pytest.approx(8.3)
    assert value(off.step) == pytest.approx(1 / 21.3)
    assert part.on.step is None


def test_a_published_ratio_without_decode_rates_is_not_taken_apart(printed: list[Case]) -> None:
    gemma = next(case for case in printed if case.pair["model"] == "gemma-4-31b")
    assert gemma.telling is None
    assert all(part.system is not None and part.decode is None for part in gemma.parts)


def test_the_emulated_fall_is_made_of_the_same_factors_as_the_published_one(printed: list[Case]) -> None:
    campaign = read_campaign(DATA / "dual-3090")
    emulated, published = muse(cases_of(campaign.rows, campaign.failures)), muse(printed)
    for name in ("decode", "rest", "system"):
        assert value(getattr(emulated, name)) == pytest.approx(value(getattr(published, name)), rel=0.05)
