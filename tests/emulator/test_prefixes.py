"""Which block knows which prefix, where blocks forget one and learn another."""

from __future__ import annotations

from collector.emulator.prefixes import NULL, Prefixes

KEY, OTHER = 7, 8


def known(prefixes: Prefixes, key: int = KEY) -> list[int]:
    return [prefixes.block(key, group) for group in (0, 1)]


def test_a_prefix_is_known_by_one_block_of_each_group() -> None:
    prefixes = Prefixes(10)
    prefixes.enter(KEY, [1, 2])
    prefixes.enter(KEY, [3, 4])
    assert known(prefixes) == [1, 2]
    assert (prefixes.of[3], prefixes.of[4]) == (None, None)
    assert known(prefixes, OTHER) == [NULL, NULL]


def test_a_group_without_a_block_is_made_good_by_a_later_one() -> None:
    prefixes = Prefixes(10)
    prefixes.enter(KEY, [1, NULL])
    prefixes.enter(KEY, [3, 4])
    assert known(prefixes) == [1, 4]


def test_a_block_that_forgot_a_prefix_may_know_it_again_for_another_group() -> None:
    prefixes = Prefixes(10)
    prefixes.enter(KEY, [1, 2, 3])
    prefixes.forget([1, 2])
    prefixes.enter(KEY, [2, 4, 5])
    assert [prefixes.block(KEY, group) for group in (0, 1, 2)] == [2, 4, 3]


def test_blocks_that_know_nothing_leave_no_prefix_behind() -> None:
    prefixes = Prefixes(10)
    prefixes.enter(OTHER, [NULL, NULL])
    prefixes.enter(KEY, [1, 2])
    prefixes.forget([1, 2])
    prefixes.enter(KEY, [3, NULL])
    assert known(prefixes) == [3, NULL]
    assert known(prefixes, OTHER) == [NULL, NULL]
