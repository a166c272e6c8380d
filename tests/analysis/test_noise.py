"""What is larger than noise: by intervals where there are repeats, by the noise floor elsewhere, never by hope."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from math import exp, inf, log, sqrt
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.compared import THROUGHPUT
from collector.analysis.formula import formula_ratio
from collector.analysis.moderated import Common
from collector.analysis.noise import (
    ERROR_SHARE,
    LEAST_EFFECT,
    NOISE_MULTIPLE,
    OWN_SHARE,
    UNKNOWN_ERROR,
    Judgement,
    Noise,
    difference,
    interleaved,
    noise_among,
    noise_of,
    student,
)
from collector.analysis.pairing import SPECULATION
from collector.analysis.quantity import Quantity, ratio_of
from collector.analysis.study import Study
from collector.core.rows import Row
from tests.analysis.arms import MTP, arm, study_of

#: Noise-only campaigns of a simulation.
CAMPAIGNS = 120


def ratio(value: float) -> Quantity:
    return Quantity(value=value, by="ratio", of=THROUGHPUT, ids=("a",), base=("b",))


def judged(study: Study, noise: Noise | None = None) -> list[Judgement]:
    known = noise or noise_of(study)
    return [known.judge(point.value) for pair in study.pairs(SPECULATION) for point in pair.measured if point.value]


# --- single measurements ----------------------------------------------------------------------------------


def test_without_any_repeat_the_noise_is_unknown_and_advice_assumes_an_error() -> None:
    noise = noise_of(study_of())
    assert noise.percent_of(ratio(1.1)) == NOISE_MULTIPLE * UNKNOWN_ERROR
    over = 1 + 1.01 * noise.percent_of(ratio(1.1)) / 100
    found = [noise.judge(ratio(one)) for one in (over, 1 / over, 1.01)]
    assert [one.side for one in found] == [1, -1, 0]
    assert {(one.standing, one.multiple, one.interval) for one in found} == {("unknown", None, None)}


@given(st.floats(0.3, 3), st.floats(0, 0.2), st.integers(1, 4))
def test_an_effect_is_above_its_margin_exactly_where_it_is_a_gain_or_a_loss(
    size: float, scatter: float, repeats: int
) -> None:
    rows = [
        row
        for repeat in range(1, repeats + 1)
        for row in (
            *arm({1: 50.0}, repeat=repeat),
            *arm({1: 50.0 * size * (1 + scatter * (repeat % 3 - 1))}, repeat=repeat, **MTP),
        )
    ]
    study = study_of(*rows)
    noise = noise_of(study)
    for one in (point.value for pair in study.pairs(SPECULATION) for point in pair.measured if point.value):
        assert (noise.margin(one) > 1) == (noise.side(one) != 0)


def test_an_effect_of_single_measurements_must_exceed_the_largest_repeat_difference_some_times_over() -> None:
    rows = [*arm({1: 100.0}), *arm({1: 105.0}, repeat=2)]
    noise = noise_of(study_of(*rows))
    assert noise.percent_of(ratio(1.1)) == pytest.approx(NOISE_MULTIPLE * 5.0)
    larger, within = noise.judge(ratio(1.11)), noise.judge(ratio(1.09))
    assert (larger.standing, larger.side, larger.interval) == ("larger", 1, None)
    assert (within.standing, within.side) == ("within", 0)
    assert larger.multiple == pytest.approx(11.0 / 10.0), "of what it must exceed"


def test_a_small_error_never_makes_a_small_effect_count() -> None:
    tiny = noise_of(study_of(*arm({1: 100.0}), *arm({1: 100.01}, repeat=2)))
    assert tiny.percent_of(ratio(1.1)) == LEAST_EFFECT


def test_a_quantity_of_several_columns_has_the_interval_that_a_column_of_it_would_have() -> None:
    rows = []
    for repeat, (tokens, step) in enumerate([(2.0, 0.021), (2.1, 0.020), (1.9, 0.022)], 1):
        rows += [*arm({1: 60.0}, repeat=repeat), *arm({1: 60.0}, repeat=repeat, **MTP)]
        rows[-1] = replace(rows[-1], tokens_per_step=tokens, step_time_mean_s=step)
        rows[-2] = replace(rows[-2], tokens_per_step=1.0, step_time_mean_s=0.016)
    rows = [
        replace(one, request_decode_rate_tok_s=(one.tokens_per_step or 0) / (one.step_time_mean_s or 1)) for one in rows
    ]
    by_id = {row.row_id: row for row in rows}
    on, off = ([row for row in rows if (row.speculation == "off") is side] for side in (False, True))
    formula, column = "tokens_per_step/step_time_mean_s", "request_decode_rate_tok_s"
    found, asked = formula_ratio(on, off, formula), ratio_of(on, off, column)
    assert found is not None
    assert asked is not None
    interval = noise_among([found], by_id, {}, formula, "decode").interval(found)
    assert interval is not None
    assert interval[0] < found.value < interval[1]
    same = noise_among([asked], by_id, {}, column).interval(asked)
    assert same is not None
    # A mean of quotients is not the quotient of means, but both scatter by the same.
    assert [end / found.value for end in interval] == pytest.approx([end / asked.value for end in same])


def test_a_ratio_is_held_against_the_larger_repeat_error_of_its_two_sides() -> None:
    rows = [*arm({1: 100.0}), *arm({1: 101.0}, repeat=2), *arm({1: 150.0}, **MTP), *arm({1: 165.0}, repeat=2, **MTP)]
    fp8 = arm({1: 105.0}, kv_cache_dtype="fp8_e5m2")
    noise = noise_of(study_of(*rows, *fp8))
    plain, drafted = (ratio_of(one, [rows[0]], THROUGHPUT) for one in (fp8, rows[2:3]))
    assert plain is not None
    assert drafted is not None
    assert noise.percent_of(plain) == pytest.approx(max(LEAST_EFFECT, NOISE_MULTIPLE * 1.0))
    assert noise.percent_of(drafted) == pytest.approx(NOISE_MULTIPLE * 10.0)
    assert (noise.judge(plain).side, noise.side(replace(drafted, value=1.19))) == (1, 0)


def test_where_no_speculating_configuration_was_repeated_the_noise_of_its_ratios_is_unknown() -> None:
    """And the other way round: a calm base makes no small effect of drafting count."""
    calm = [*arm({1: 100.0}), *arm({1: 100.01}, repeat=2), *arm({1: 104.0}, **MTP)]
    drafted = [*arm({1: 104.0}, **MTP), *arm({1: 104.01}, repeat=2, **MTP)]
    for rows in (calm, [*arm({1: 100.0}), *drafted]):
        (one,) = judged(study_of(*rows))
        assert (one.standing, one.side, one.multiple) == ("unknown", 0, None)
    (both,) = judged(study_of(*calm[:2], *drafted))
    assert (both.standing, both.side) == ("larger", 1)


def test_an_effect_of_measurements_is_judged_by_repeats_of_measurements_alone() -> None:
    restless = repeated([110.0, 150.0, 130.0], [100.0, 120.0, 80.0])
    calm = [
        replace(one, provenance="emulated", row_id=f"emulated-{one.row_id}")
        for one in repeated([120.0, 121.0, 119.5], [100.0, 100.4, 99.9])
    ]
    alone, beside = noise_of(study_of(*restless)), noise_of(study_of(*restless, *calm))
    assert {kin.provenance for kin in beside.errors} == {"measured", "emulated"}
    assert beside.common["measured"] == alone.common["measured"]
    assert {kin: error for kin, error in beside.errors.items() if kin.provenance == "measured"} == alone.errors
    once = [*arm({8: 100.0}, model="beta"), *arm({8: 104.0}, model="beta", **MTP)]
    only = [one for one in judged(study_of(*once, *calm)) if one.interval is None]
    assert [one.standing for one in only] == ["unknown"]


@given(st.floats(min_value=0.01, max_value=100))
def test_a_gain_and_the_same_loss_are_equally_many_times_the_noise(value: float) -> None:
    assert difference(value) == pytest.approx(difference(1 / value), abs=1e-9)


# --- repeats ----------------------------------------------------------------------------------------------


def repeated(on: list[float], off: list[float], times: Callable[[str, int], str] | None = None) -> list[Row]:
    """Return one pair, repeat by repeat; `times` says when repeat i of a side ended."""
    at = times or (lambda side, repeat: f"2026-09-{repeat:02}T0{1 + (side == 'on')}:00:00Z")
    sides: tuple[tuple[str, list[float], dict[str, object]], ...] = (("off", off, {}), ("on", on, MTP))
    return [
        row
        for side, values, way in sides
        for repeat, value in enumerate(values, 1)
        for row in arm({8: value}, repeat=repeat, measured_at=at(side, repeat), **way)
    ]


def listed(side: str, repeat: int) -> str:
    return f"2026-09-{repeat + 10 * (side == 'on'):02}T01:00:00Z"


def test_repeats_are_held_against_each_other_block_by_block_where_they_were_interleaved() -> None:
    """A drift of the host that both sides see falls out."""
    drift = [1.0, 0.8, 1.3]
    noisy = [1.001, 0.999, 1.0]
    on = [120 * one * other for one, other in zip(drift, noisy, strict=True)]
    off = [100 * one for one in drift]
    (paired,) = judged(study_of(*repeated(on, off)))
    assert paired.standing == "larger"
    assert paired.interval is not None
    logs = [log(one / other) for one, other in zip(on, off, strict=True)]
    width = student(1 - min(ERROR_SHARE, OWN_SHARE) / 2, 2) * stdev(logs) / sqrt(3)
    assert paired.interval[1] == pytest.approx(fmean(on) / fmean(off) * exp(width))
    (unpaired,) = judged(study_of(*repeated(on, off, listed)))
    assert unpaired.standing == "within"


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (lambda side, repeat: f"2026-09-{repeat:02}T0{1 + (side == 'on')}:00:00Z", True),
        (lambda side, repeat: f"2026-09-{repeat:02}T0{1 + ((side == 'on') == repeat % 2)}:00:00Z", True),  # shuffled
        (listed, False),
    ],
)
def test_rounds_are_told_from_lists_by_when_the_rows_were_measured(
    at: Callable[[str, int], str], expected: bool
) -> None:
    rows = repeated([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], at)
    assert interleaved(rows[3:], rows[:3]) is expected
    assert not interleaved(rows[3:5], rows[:3])  # a repeat is missing on one side


@pytest.mark.parametrize(
    ("on", "off", "standing"),
    [
        ([120.0], [100.0, 101.0, 100.5], "unknown"),  # what repeats without speculation tell is not told of drafting
        ([120.0, 121.0, 120.5], [100.0], "unknown"),
        ([120.0, 121.0], [100.0, 101.0], "larger"),
    ],
)
def test_too_few_repeats_on_either_side_give_no_interval(on: list[float], off: list[float], standing: str) -> None:
    (one,) = judged(study_of(*repeated(on, off)))
    assert (one.interval, one.standing) == (None, standing)


def test_an_effect_that_nobody_would_change_a_setting_for_is_larger_than_noise_but_counts_for_nothing() -> None:
    (one,) = judged(study_of(*repeated([101.0, 101.01, 101.02], [100.0, 100.01, 100.02])))
    assert (one.standing, one.side) == ("larger", 0)


def test_an_interval_is_wider_the_more_effects_it_holds_for_together() -> None:
    rows = repeated([120.0, 121.0, 119.5], [100.0, 100.4, 99.9])
    noise = noise_of(study_of(*rows))
    (pair,) = study_of(*rows).pairs(SPECULATION)
    (point,) = pair.measured
    assert point.value is not None
    widths = [replace(noise, effects=effects).judge(point.value).interval for effects in (1, 10, 100)]
    assert all(one is not None for one in widths)
    ends = [one[1] for one in widths if one]
    assert ends == sorted(ends)
    assert ends[0] < ends[2]


@given(
    st.lists(st.floats(min_value=50, max_value=200), min_size=3, max_size=5),
    st.lists(st.floats(min_value=50, max_value=200), min_size=3, max_size=5),
    st.booleans(),
)
def test_swapping_the_sides_inverts_the_ratio_and_its_interval(on: list[float], off: list[float], rounds: bool) -> None:
    rows = repeated(on, off, None if rounds else listed)
    under, over = rows[: len(off)], rows[len(off) :]
    noise = noise_of(study_of(*rows))
    there, back = ratio_of(over, under, THROUGHPUT), ratio_of(under, over, THROUGHPUT)
    assert there is not None
    assert back is not None
    one, other = noise.judge(there), noise.judge(back)
    assert one.interval is not None
    assert other.interval is not None
    assert back.value == pytest.approx(1 / there.value)
    assert other.interval == pytest.approx((1 / one.interval[1], 1 / one.interval[0]))
    assert (other.standing, other.side) == (one.standing, -one.side)


# --- simulated campaigns ----------------------------------------------------------------------------------


@cache
def skeleton(models: int, stages: tuple[int, ...]) -> tuple[Row, ...]:
    """Return a campaign of pairs, three interleaved repeats each."""
    return tuple(
        row
        for number in range(models)
        for way in ({}, MTP)
        for repeat in (1, 2, 3)
        for row in arm(dict.fromkeys(stages, 100.0), model=f"model-{number:02}", repeat=repeat, **way)
    )


def campaigns(
    rows: tuple[Row, ...],
    scatter: Callable[[Row], float],
    true: Mapping[str, float] | None = None,
    count: int = CAMPAIGNS,
    start: float = 0.0,
) -> Iterator[Study]:
    """Yield campaigns whose log throughputs scatter by `scatter`, and together within a start by `start`."""
    chance = random.Random(20260820)
    for _ in range(count):
        drift = {repeat: chance.gauss(0, 0.05) for repeat in (1, 2, 3)}
        starts: dict[tuple[str, int], float] = {}
        made = []
        for row in rows:
            of_start = starts.setdefault((row.configuration_id, row.repeat), chance.gauss(0, start))
            effect = (true or {}).get(row.model, 1.0) if row.speculation != "off" else 1.0
            scattered = exp(drift[row.repeat] + of_start + chance.gauss(0, scatter(row)))
            made.append(replace(row, system_throughput_tok_s=100 * effect * scattered))
        yield study_of(*made)


def restless(row: Row) -> float:
    """Speculation scatters, plain decoding hardly does, and one model more than all others."""
    return 0.001 if row.speculation == "off" else 0.06 if row.model == "model-00" else 0.01


def one_by_one(noise: Noise) -> Noise:
    """Return the judgement of each effect by its own repeats alone."""
    alone = Common(variance=0.0, freedom=0.0, most=inf)
    return replace(noise, effects=1, common=dict.fromkeys(noise.common, alone))


@pytest.mark.parametrize(
    ("rows", "scatter", "start"),
    [
        (skeleton(20, (8,)), lambda row: 0.01, 0.0),
        (skeleton(20, (8,)), restless, 0.0),
        (skeleton(5, (1, 4, 8, 32)), lambda row: 0.001, 0.01),
    ],
    ids=["alike", "one model restless", "stages of a start alike"],
)
def test_at_most_one_noise_only_campaign_in_twenty_shows_an_effect(
    rows: tuple[Row, ...], scatter: Callable[[Row], float], start: float
) -> None:
    """20 effects, 3 repeats, no effect anywhere. Without the correction for their number it would not hold."""
    wrong = naive = 0
    for study in campaigns(rows, scatter, start=start):
        noise = noise_of(study)
        found = judged(study, noise)
        assert len(found) == 20
        wrong += any(one.standing == "larger" for one in found)
        naive += any(one.standing == "larger" for one in judged(study, one_by_one(noise)))
    assert wrong / CAMPAIGNS <= 0.05
    assert naive / CAMPAIGNS > 0.2


@pytest.mark.parametrize(("models", "stages"), [(20, (8,)), (5, (1, 4, 8, 32))])
def test_a_tenth_more_is_nearly_always_found_at_a_noise_of_one_per_cent(models: int, stages: tuple[int, ...]) -> None:
    found = []
    for study in campaigns(skeleton(models, stages), lambda row: 0.01, {"model-01": 1.1, "model-02": 1 / 1.1}, 100):
        noise = noise_of(study)
        for pair in study.pairs(SPECULATION):
            expected = {"model-01": 1, "model-02": -1}.get(pair["model"])
            if expected:
                found += [noise.side(point.value) == expected for point in pair.measured if point.value]
    assert fmean(found) > 0.95
