"""The standard error of accepted drafts: the formula against drafts drawn one by one, and what it does not cover."""

from __future__ import annotations

import random
from math import sqrt
from statistics import pstdev, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.sampling import Drafts, drafts_of, standard_error
from collector.core.rows import SCHEMA_VERSION, Position, Row
from tests.report.sample import make_row

MTP = {"speculation": "mtp", "num_speculative_tokens": 4, "tokens_per_step": 3.0}


def counted(accepted: list[int], k: int) -> Drafts:
    """Return the counts of drafts of which so many tokens were accepted."""
    return Drafts(count=len(accepted), accepted=tuple(sum(one >= at for one in accepted) for at in range(1, k + 1)))


def positions(row: Row, drafts: Drafts) -> list[Position]:
    return [
        Position(
            schema_version=SCHEMA_VERSION,
            campaign=row.campaign,
            row_id=row.row_id,
            configuration_id=row.configuration_id,
            position=at,
            drafts=drafts.count,
            accepted_tokens=accepted,
            acceptance_rate=None,
            conditional_rate=None,
        )
        for at, accepted in enumerate(drafts.accepted, start=1)
    ]


@given(st.lists(st.integers(0, 15), min_size=1, max_size=200))
def test_the_variance_from_positions_is_that_of_the_drafts_themselves(accepted: list[int]) -> None:
    assert counted(accepted, 15).variance == pytest.approx(pvariance(accepted), abs=1e-9)


def test_the_error_is_how_far_means_of_as_many_drafts_spread() -> None:
    dice = random.Random(7)

    def drawn() -> list[int]:
        return [next((at for at in range(4) if dice.random() > 0.7), 4) for _ in range(200)]

    means = [sum(found) / 200 for found in (drawn() for _ in range(400))]
    row = make_row(**MTP)
    error = standard_error([row], {row.row_id: counted(drawn(), 4)})
    assert error == pytest.approx(pstdev(means), rel=0.2)


def test_a_pool_weighs_rows_by_their_drafts_and_takes_no_difference_between_them_for_chance() -> None:
    rows = [make_row(**MTP, repeat=repeat) for repeat in (1, 2)]
    few, many = counted([0, 1] * 50, 4), counted([3, 4] * 150, 4)
    alone = standard_error(rows[:1], {rows[0].row_id: few})
    pooled = standard_error(rows, {rows[0].row_id: few, rows[1].row_id: many})
    assert alone == pytest.approx(sqrt(0.25 / 100))
    assert pooled == pytest.approx(sqrt(0.25 / 400))


def test_a_row_that_tells_no_positions_leaves_the_error_unknown() -> None:
    one, other = (make_row(**MTP, repeat=repeat) for repeat in (1, 2))
    told = {one.row_id: counted([0, 1, 4], 4)}
    assert standard_error([one], told) is not None
    assert standard_error([one, other], told) is None
    assert standard_error([], told) is None


@pytest.mark.parametrize("each", [0, 4])
def test_drafts_that_are_all_alike_say_nothing_of_chance(each: int) -> None:
    row = make_row(**MTP)
    assert standard_error([row], {row.row_id: counted([each] * 500, 4)}) is None


def test_positions_are_read_by_row_in_any_order_and_without_drafts_there_are_none() -> None:
    row, idle = make_row(**MTP), make_row(**MTP, repeat=2)
    drafts = counted([0, 2, 4], 4)
    told = positions(row, drafts) + positions(idle, Drafts(count=0, accepted=(0, 0, 0, 0)))
    random.Random(3).shuffle(told)
    assert drafts_of(told) == {row.row_id: drafts}
