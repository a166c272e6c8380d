"""Variances of few repeats, drawn towards what all of them say."""

from __future__ import annotations

import random
from math import inf
from statistics import variance

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import polygamma

from collector.analysis.moderated import Common, Spread, common, inverse_trigamma


def spreads(deviations: list[float], repeats: int = 3, seed: int = 1) -> list[Spread]:
    """Return drawn variances, one for each standard deviation, each in starts of its own."""
    chance = random.Random(seed)
    return [
        Spread(
            variance=variance(chance.gauss(0, deviation) for _ in range(repeats)),
            blocks=repeats,
            freedom=repeats - 1,
            starts=place,
        )
        for place, deviation in enumerate(deviations)
    ]


@given(st.floats(min_value=1e-3, max_value=1e6))
def test_the_inverse_of_trigamma_is_its_inverse(value: float) -> None:
    assert float(polygamma(1, inverse_trigamma(value))) == pytest.approx(value, rel=1e-8)


def test_variances_that_differ_by_chance_alone_become_one_with_all_degrees_of_freedom() -> None:
    found = common(spreads([0.01] * 400))
    assert found.freedom > 20
    assert found.most == 800
    assert found.variance == pytest.approx(1e-4, rel=0.1)


def test_variances_that_differ_by_themselves_keep_most_of_their_own() -> None:
    calm, restless = [0.001] * 200, [0.1] * 200
    found = common(spreads([*calm, *restless]))
    assert found.freedom < 2
    own = Spread(variance=1e-2, blocks=3, freedom=2, starts="x")
    assert found.of(own)[0] > own.variance / 3


def test_stages_of_the_same_starts_count_their_degrees_of_freedom_once() -> None:
    alike = [Spread(variance=1e-4, blocks=3, freedom=2, starts="one") for _ in range(20)]
    assert common(alike).most == 2
    assert common(alike).of(alike[0]) == pytest.approx((1e-4, 2))


def test_one_variance_has_nothing_to_be_drawn_towards() -> None:
    own = Spread(variance=1e-4, blocks=3, freedom=2, starts="x")
    assert common([own]).of(own) == (own.variance, own.freedom)
    assert common([]) == Common(variance=0.0, freedom=0.0, most=0.0)


def test_what_does_not_scatter_at_all_has_no_say() -> None:
    still = [Spread(variance=0.0, blocks=3, freedom=2, starts=f"still {n}") for n in range(50)]
    moving = spreads([0.01] * 50)
    assert common([*still, *moving]).variance == common(moving).variance
    assert common(moving).freedom in (inf, common([*still, *moving]).freedom)


@given(st.lists(st.floats(min_value=1e-8, max_value=1.0), min_size=2, max_size=30))
def test_a_moderated_variance_lies_between_its_own_and_the_common_one(variances: list[float]) -> None:
    known = [Spread(variance=one, blocks=3, freedom=2, starts=n) for n, one in enumerate(variances)]
    found = common(known)
    for own in known:
        value, freedom = found.of(own)
        low, high = sorted((own.variance, found.variance))
        assert low * (1 - 1e-9) <= value <= high * (1 + 1e-9)
        assert own.freedom <= freedom <= found.most
