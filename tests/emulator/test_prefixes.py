"""Which block knows which prefix, where blocks forget one and learn another."""

from __future__ import annotations

from collector.emulator.prefixes import NULL, Prefixes

KEY, OTHER = 7, 8


def known(prefixes: Prefixes, key: int = KEY) -> list[int]:
    return [prefixes.block(key, group) for group in (0, 1)]


def test_the_first_of_the_blocks_that_know_a_prefix_is_found_and_copies_are_kept() -> None:
    prefixes = Prefixes(10)
    prefixes.enter(KEY, [1, 2])
    prefixes.enter(KEY, [3, 4])
    assert known(prefixes) == [1, 2]
    prefixes.forget([1])
    assert known(prefixes) == [3, 2]
    prefixes.forget([2, 3, 4])
    assert known(prefixes) == [NULL, NULL]
    assert known(prefixes, OTHER) == [NULL, NULL]


def test_a_group_without_a_block_is_made_good_by_a_later_one() -> None:
    prefixes = Prefixes(10)
    prefixes.enter(KEY, [1, NULL])
    prefixes.enter(KEY, [3, 4])
    assert known(prefixes) == [1, 4]


def test_a_block_knows_one_prefix_at_most() -> None:
    prefixes = Prefixes(10)
    prefixes.enter(KEY, [1, 2])
    prefixes.enter(OTHER, [1, 3])
    assert known(prefixes, OTHER) == [NULL, 3]
    prefixes.forget([1])
    prefixes.enter(OTHER, [1, 4])
    assert known(prefixes) == [NULL, 2]
    assert known(prefixes, OTHER) == [1, 3]


def test_blocks_that_know_nothing_leave_no_prefix_behind() -> None:
    prefixes = Prefixes(10)
    prefixes.enter(OTHER, [NULL, NULL])
    prefixes.enter(KEY, [1, 2])
    prefixes.forget([1, 2])
    prefixes.enter(KEY, [3, NULL])
    assert known(prefixes) == [3, NULL]
    assert known(prefixes, OTHER) == [NULL, NULL]
