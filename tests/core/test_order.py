"""The order `paired`: arms of a pair are neighbours, and another one is first in the next round."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.core.configuration import Configuration, Plan
from collector.core.order import ORDERS
from collector.core.plan import parse_plan

HEAD = """\
plan: 1
campaign: order
models: {a: {path: org/a, drafter: d}, b: {path: org/b, drafter: d}}
speculation: {one: {method: mtp, num_speculative_tokens: 1}, three: {method: mtp, num_speculative_tokens: 3}}
stages: {concurrency: {1: 2}, prompt_tokens: 60, output_tokens: 8}
"""
#: What the two arms of a pair must share; NVLink brings flags of its own.
NOT_SHARED = {
    "speculation": ("configuration_id", "speculation", "num_speculative_tokens", "speculative_config"),
    "nvlink": ("configuration_id", "nvlink", "flags", "environment"),
    "kv_cache_dtype": ("configuration_id", "kv_cache_dtype"),
}


def subset(*values: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, unique=True)


BLOCKS = st.fixed_dictionaries(
    {
        "model": subset("a", "b"),
        "kv_cache_dtype": subset("auto", "fp8_e5m2"),
        "nvlink": subset("on", "off"),
        "speculation": subset("off", "one", "three"),
    }
)


def plan_of(block: dict[str, list[str]], repeats: str) -> Plan:
    text = HEAD + "matrix:\n" + "".join(f"  {name}: [{', '.join(values)}]\n" for name, values in block.items())
    return parse_plan(f"{text}repeats: {repeats}\n", "plan")


def rounds_of(plan: Plan, count: int) -> list[list[Configuration]]:
    return [[run.configuration for run in plan.runs if run.repeat == number] for number in range(1, count + 1)]


def pairs_by(factor: str, configurations: list[Configuration]) -> list[tuple[Configuration, Configuration]]:
    def shared(one: Configuration) -> Any:
        return [getattr(one, name) for name in one.__dataclass_fields__ if name not in NOT_SHARED[factor]]

    return [(a, b) for a, b in combinations(configurations, 2) if shared(a) == shared(b)]


@given(block=BLOCKS)
def test_both_arms_of_a_pair_by_speculation_are_neighbours_and_take_turns_in_being_first(
    block: dict[str, list[str]],
) -> None:
    rounds = rounds_of(plan_of(block, "{count: 4, order: paired}"), 4)
    pairs = [pair for pair in pairs_by("speculation", rounds[0]) if "off" in {one.speculation for one in pair}]
    for pair in pairs:
        places = [tuple(one.index(arm) for arm in pair) for one in rounds]
        assert all(abs(a - b) == 1 for a, b in places)
        assert [a < b for a, b in places] in ([True, False, True, False], [False, True, False, True])


@given(block=BLOCKS, factor=st.sampled_from(["nvlink", "kv_cache_dtype"]))
def test_where_nothing_else_varies_the_arms_of_a_pair_are_neighbours(block: dict[str, list[str]], factor: str) -> None:
    alone = block | {name: block[name][:1] for name in NOT_SHARED if name != factor}
    rounds = rounds_of(plan_of(alone, "{count: 2, order: paired}"), 2)
    for pair in pairs_by(factor, rounds[0]):
        first, second = ([one.index(arm) for arm in pair] for one in rounds)
        assert abs(first[0] - first[1]) == abs(second[0] - second[1]) == 1
        assert (first[0] < first[1]) != (second[0] < second[1])


@given(block=BLOCKS)
def test_with_two_ways_each_the_neighbours_of_a_block_differ_in_one_factor(block: dict[str, list[str]]) -> None:
    two = block | {"speculation": block["speculation"][:2], "model": block["model"][:1]}
    (only,) = rounds_of(plan_of(two, "{order: paired}"), 1)
    neighbours = list(pairwise(only))
    assert sum(pair in pairs_by(factor, only) for factor in NOT_SHARED for pair in neighbours) == len(neighbours)


@given(block=BLOCKS, order=st.sampled_from(sorted(ORDERS)), count=st.integers(1, 3))
def test_an_order_changes_neither_what_is_measured_nor_its_ids(
    block: dict[str, list[str]], order: str, count: int
) -> None:
    listed = plan_of(block, f"{{count: {count}, order: listed}}").runs
    other = plan_of(block, f"{{count: {count}, order: {order}}}").runs
    assert sorted((r.configuration.configuration_id, r.repeat) for r in other) == sorted(
        (r.configuration.configuration_id, r.repeat) for r in listed
    )


def test_without_repeats_the_first_arm_changes_from_pair_to_pair() -> None:
    block = {"model": ["a", "b"], "nvlink": ["on", "off"], "speculation": ["off", "one"]}
    (only,) = rounds_of(plan_of(block, "{order: paired}"), 1)
    assert [(one.model, one.nvlink, one.speculation) for one in only] == [
        ("a", "on", "off"),
        ("a", "on", "mtp"),
        ("a", "off", "mtp"),
        ("a", "off", "off"),
        ("b", "off", "off"),
        ("b", "off", "mtp"),
        ("b", "on", "mtp"),
        ("b", "on", "off"),
    ]
