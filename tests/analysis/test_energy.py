"""Energy per token is a ratio of sums; what was not measured is none, never 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.analysis.curves import curves
from collector.analysis.energy import ends, uses_of
from collector.core.rows import Row
from tests.report.sample import make_row


def row(energy: float | None, **changes: object) -> Row:
    return replace(make_row(**changes), energy_j=energy, power_mean_w=600.0)


def test_joules_per_token_pool_the_repeats() -> None:
    first, second = row(1000.0), replace(row(3000.0, repeat=2), generation_tokens=4096)
    (curve,) = curves([first, second])
    (use,) = uses_of(curve).uses
    assert use.per_token is not None
    assert use.per_token.value == pytest.approx(4000.0 / (2048 + 4096))
    assert use.power is not None
    assert use.power.value == 600.0


def test_without_an_energy_counter_or_with_a_failed_check_nothing_is_known() -> None:
    for one in (row(None), row(1000.0, checks="throttled")):
        (curve,) = curves([one])
        assert uses_of(curve).measured == ()


def test_the_ends_are_the_least_and_the_most_of_all_configurations_and_concurrencies() -> None:
    rows = [row(1000.0), row(4000.0, concurrency=8, requests=16), row(500.0, model="beta")]
    found = ends([uses_of(curve) for curve in curves(rows)])
    assert found is not None
    least, most = found
    assert (least.uses.curve.record.model, least.use.concurrency) == ("beta", 1)
    assert (most.uses.curve.record.model, most.use.concurrency) == ("alpha-30b", 8)
    assert ends([uses_of(curve) for curve in curves([row(None)])]) is None
