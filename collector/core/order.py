"""The order of engine starts: configurations and their repeats, one module for what `repeats.order` may say."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Final

from collector.core.configuration import Configuration, Run, Stage
from collector.core.plan_schema import Repeats

#: A stage and how often it is measured.
Repeated = tuple[Stage, int]
Cell = tuple[Configuration, tuple[Repeated, ...]]
Order = Callable[[Sequence[Cell], Repeats], Iterator[tuple[Cell, int]]]

OFF = "off"
#: What two arms of an A/B pair may differ in. NVLink brings flags and environment of its own.
ARMS = (
    "configuration_id",
    "speculation",
    "num_speculative_tokens",
    "speculative_config",
    "drafter",
    "nvlink",
    "kv_cache_dtype",
    "flags",
    "environment",
)


def ordered(cells: Sequence[Cell], repeats: Repeats) -> Iterator[Run]:
    """Put configurations and repeats in the order of the plan; a repeat is an engine start of its own."""
    for (configuration, stages), repeat in ORDERS[repeats.order](cells, repeats):
        due = tuple(stage for stage, count in stages if repeat <= count)
        if due:
            yield Run(configuration=configuration, repeat=repeat, stages=due)


def _rounds(cells: Sequence[Cell]) -> range:
    return range(1, max((count for _, stages in cells for _, count in stages), default=0) + 1)


def _listed(cells: Sequence[Cell], repeats: Repeats) -> Iterator[tuple[Cell, int]]:
    return ((cell, repeat) for cell in cells for repeat in _rounds(cells))


def _interleaved(cells: Sequence[Cell], repeats: Repeats) -> Iterator[tuple[Cell, int]]:
    return ((cell, repeat) for repeat in _rounds(cells) for cell in cells)


def _shuffled(cells: Sequence[Cell], repeats: Repeats) -> Iterator[tuple[Cell, int]]:
    for repeat in _rounds(cells):
        block = list(cells)
        random.Random(f"{repeats.seed}/{repeat}").shuffle(block)  # noqa: S311  # an order, not a secret
        yield from ((cell, repeat) for cell in block)


def _paired(cells: Sequence[Cell], repeats: Repeats) -> Iterator[tuple[Cell, int]]:
    """The arms of a pair run next to each other, and another one is first in the next block and round (ABBA).

    What drifts slowly (heat, a filling cache) then weighs on both arms alike.
    """
    blocks = _grouped(cells, lambda one: tuple(getattr(one, name) for name in _BLOCK))
    for repeat in _rounds(cells):
        for number, block in enumerate(blocks):
            path = _there_and_back(block, _LEVELS)
            yield from ((cell, repeat) for cell in (path if (number + repeat) % 2 else reversed(path)))


def _there_and_back(cells: Sequence[Cell], levels: Sequence[Callable[[Configuration], Hashable]]) -> list[Cell]:
    """Go through groups within groups, every other one backwards, so that neighbours differ in one factor."""
    if not levels:
        return list(cells)
    groups = _grouped(cells, levels[0])
    path: list[Cell] = []
    for number, group in enumerate(groups if levels[1:] else _off_between(groups)):
        inner = _there_and_back(group, levels[1:])
        path += inner[::-1] if number % 2 else inner
    return path


def _off_between(ways: list[list[Cell]]) -> list[list[Cell]]:
    """Put the arm without speculation behind the first with it, so that it is the neighbour of two."""
    off = [one for one in ways if one[0][0].speculation == OFF]
    first, *others = [one for one in ways if one not in off] or [[]]
    return [first, *off, *others] if others else ways


def _grouped(cells: Sequence[Cell], key: Callable[[Configuration], Hashable]) -> list[list[Cell]]:
    groups: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(key(cell[0]), []).append(cell)
    return list(groups.values())


_BLOCK: Final = tuple(name for name in Configuration.__dataclass_fields__ if name not in ARMS)
#: From the outermost to the innermost, whose arms are always neighbours.
_LEVELS: Final[tuple[Callable[[Configuration], Hashable], ...]] = (
    lambda one: one.kv_cache_dtype,
    lambda one: one.nvlink,
    lambda one: (str(one.flags), one.environment),
    lambda one: (one.speculation, one.speculative_config),
)

ORDERS: Final[Mapping[str, Order]] = {
    "listed": _listed,
    "interleaved": _interleaved,
    "shuffled": _shuffled,
    "paired": _paired,
}
