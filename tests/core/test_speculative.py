"""Speculative configurations: what is refused before anything starts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.core.speculative import DRAFTER, SCHEDULE, TOKENS, check_speculation, tokens_of, with_drafter


def scheduled(schedule: Any, k: Any = 4) -> dict[str, Any]:
    return {"method": "ngram", TOKENS: k, SCHEDULE: schedule}


@pytest.mark.parametrize(
    "config",
    [
        {"method": "ngram", TOKENS: 4},
        {"method": "mtp"},
        {"model": "org/draft", TOKENS: 1},
        {"method": "a method of next year", TOKENS: 99, "any": {"thing": [1]}},
        scheduled([[1, 2, 4], [3, 6, 2], [7, 32, 0]]),
        scheduled([[7, 32, 0], [1, 2, 4]]),
        scheduled([[1, 1, 9]]),
    ],
)
def test_what_the_engine_may_take_is_let_through(config: dict[str, Any]) -> None:
    """Out of order, with gaps and above k: the engine sorts, fills and caps."""
    assert check_speculation(config) is None


_RANGES = f"{SCHEDULE}: expected a list of [first batch size, last batch size, k], found "


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({}, "an empty object; write off for no speculation"),
        ({TOKENS: 0}, f"{TOKENS}: found 0, expected a whole number of at least 1"),
        ({TOKENS: True}, f"{TOKENS}: found True, expected a whole number of at least 1"),
        ({TOKENS: 2.0}, f"{TOKENS}: found 2.0, expected a whole number of at least 1"),
        ({TOKENS: "4"}, f"{TOKENS}: found '4', expected a whole number of at least 1"),
        ({"method": "off", TOKENS: 4}, "method: found 'off', expected the name of a method"),
        ({"method": ""}, "method: found '', expected the name of a method"),
        ({"method": None, TOKENS: 4}, "method: found None, expected the name of a method"),
        ({"method": ["mtp"]}, "method: found ['mtp'], expected the name of a method"),
        (scheduled([[1, 2, 4]], None), f"{SCHEDULE} needs {TOKENS} beside it, as the largest k"),
        ({"method": "mtp", SCHEDULE: [[1, 2, 4]]}, f"{SCHEDULE} needs {TOKENS} beside it, as the largest k"),
        (scheduled([]), f"{_RANGES}[]"),
        (scheduled({"1": 4}), f"{_RANGES}{{'1': 4}}"),
        (scheduled([[1, 2]]), f"{_RANGES}[[1, 2]]"),
        (scheduled([[1, 2, 4, 5]]), f"{_RANGES}[[1, 2, 4, 5]]"),
        (scheduled([[1, 2, "4"]]), f"{_RANGES}[[1, 2, '4']]"),
        (scheduled([[1, True, 4]]), f"{_RANGES}[[1, True, 4]]"),
        (scheduled([[2, 1, 4]]), f"{_RANGES}[[2, 1, 4]]"),
        (scheduled([[0, 1, 4]]), f"{_RANGES}[[0, 1, 4]]"),
        (scheduled([[1, 2, -1]]), f"{_RANGES}[[1, 2, -1]]"),
        (scheduled([[2, 4, 1]]), f"{SCHEDULE}: the first range must start at batch size 1, found 2"),
        (scheduled([[4, 8, 1], [1, 4, 2]]), f"{SCHEDULE}: the ranges [1, 4, 2] and [4, 8, 1] overlap"),
        (scheduled([[1, 9, 1], [3, 4, 2]]), f"{SCHEDULE}: the ranges [1, 9, 1] and [3, 4, 2] overlap"),
    ],
)
def test_what_would_fail_late_is_told_now(config: dict[str, Any], problem: str) -> None:
    assert check_speculation(config) == problem


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=5))
def test_a_schedule_holds_exactly_if_every_batch_size_falls_in_one_range_at_most(
    ranges: list[tuple[int, int, int]],
) -> None:
    schedule = [[first, first + more, k] for first, more, k in ranges]
    sizes = [size for first, last, _ in schedule for size in range(first, last + 1)]
    sound = len(set(sizes)) == len(sizes) and 1 in sizes
    assert (check_speculation(scheduled(schedule)) is None) is sound


scalars = st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=3)
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3))


@given(st.dictionaries(st.sampled_from(["method", TOKENS, SCHEDULE, "model"]), anything))
def test_any_object_is_let_through_or_told_in_words(config: dict[str, Any]) -> None:
    problem = check_speculation(config)
    assert problem is None or problem.strip()


def test_the_drafter_of_the_model_is_put_in() -> None:
    config = {"method": "dflash", "model": DRAFTER, TOKENS: 15}
    assert with_drafter(config, "org/draft") == {"method": "dflash", "model": "org/draft", TOKENS: 15}
    assert config["model"] == DRAFTER
    assert with_drafter({"method": "mtp", "list": [1]}, None) == {"method": "mtp", "list": [1]}
    with pytest.raises(ValueError, match=r"'\{drafter\}' needs a drafter"):
        with_drafter(config, None)


def test_k_is_what_the_object_says() -> None:
    assert tokens_of({TOKENS: 15}) == 15
    assert tokens_of({"method": "mtp"}) is None
