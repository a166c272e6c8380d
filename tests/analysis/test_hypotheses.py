"""Each verdict follows from the first rule that can be tested and holds; what no rule can decide stays open."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.hypotheses import (
    FLAT_BELOW,
    KV_FULL_PERCENT,
    RISES_FROM,
    RULES,
    Facts,
    Judged,
    Name,
    judged,
    judgement,
)
from collector.analysis.quantity import Quantity
from collector.analysis.step_time import cases_of
from collector.cli import main
from collector.core.rows import Row
from collector.report.build import read_campaign
from tests.report.sample import make_row

DFLASH = {"speculation": "dflash", "num_speculative_tokens": 15, "tokens_per_step": 3.0}
#: No preemption, but requests wait before a full cache that would have held them without the drafter.
SHORT: dict[str, Any] = {
    "preemptions_on": 0,
    "kv_usage_on": 0.99,
    "waiting_on": 5,
    "demand": 9_000,
    "capacity_on": 7_000,
    "capacity_off": 12_000,
}
#: Of a cache that holds one request, a fifth is free.
ONE_FITS = SHORT | {"kv_usage_on": 0.79, "capacity_on": 1_166, "prompt": 655}
NOTHING: dict[str, Any] = {one.name: None for one in fields(Facts)} | {"lowest": False}


RISES = ("step_rise", "verified_rise", "lowest")


def told(number: float) -> Quantity:
    return Quantity(value=number, by="most", of="a column", ids=("a",))


def facts(**known: Any) -> Facts:
    made = {
        name: told(one) if isinstance(one, int | float) and name not in RISES else one for name, one in known.items()
    }
    return Facts(**(NOTHING | made | {"lowest": known.get("lowest", False)}))


@pytest.mark.parametrize(
    ("known", "outcome", "rule"),
    [
        ({"step_rise": 4.5, "preemptions_on": 0}, "supported", "rises"),
        ({"step_rise": RISES_FROM, "preemptions_on": 0}, "supported", "rises"),
        ({"step_rise": 1.0}, "excluded", "flat"),
        ({"step_rise": FLAT_BELOW, "preemptions_on": 0}, "undecided", "between"),
        ({"step_rise": 4.5, "preemptions_on": 3}, "undecided", "preempted"),
        ({"step_rise": 1.0, "lowest": True}, "undecided", "lowest"),
        ({"step_rise": 4.5, "preemptions_on": 0, "verified_rise": 1.0}, "excluded", "as_many"),
        ({"step_rise": 4.5, "preemptions_on": 0, "verified_rise": 8.0}, "supported", "rises"),
        ({"step_rise": 4.5, "preemptions_on": 0, "utilisation_on": 0.3}, "excluded", "idle"),
        ({"step_rise": 4.5, "preemptions_on": 0, "utilisation_on": 0.97}, "supported", "rises"),
        ({"step_rise": 4.5, "preemptions_on": 0, "power_on": 200, "power_off": 320}, "undecided", "low_power"),
        ({"step_rise": 4.5, "preemptions_on": 0, "power_on": 330, "power_off": 320}, "supported", "rises"),
    ],
)
def test_contention_is_judged_by_the_rise_of_step_time_without_preemption(
    known: dict[str, Any], outcome: str, rule: str
) -> None:
    found = judgement("contention", facts(**known))
    assert (found.outcome, found.rule) == (outcome, rule)


@pytest.mark.parametrize(
    ("known", "outcome", "rule"),
    [
        ({"preemptions_on": 0, "kv_usage_on": 0.05}, "excluded", "no_pressure"),
        ({"preemptions_on": 0, "kv_usage_on": KV_FULL_PERCENT / 100}, "undecided", "full"),
        # A cache that holds one request and no second prompt is full for those who wait, at whatever usage.
        (ONE_FITS, "supported", "short_with_it"),
        (ONE_FITS | {"capacity_on": 40_000}, "excluded", "no_pressure"),
        (ONE_FITS | {"prompt": 200}, "excluded", "no_pressure"),
        ({"preemptions_on": 5, "preemptions_off": 0}, "supported", "only_with_it"),
        ({"preemptions_on": 13, "preemptions_off": 14, "kv_usage_on": 0.99}, "undecided", "both_preempt"),
        (SHORT, "supported", "short_with_it"),
        (SHORT | {"capacity_off": 8_000}, "undecided", "full"),
        (SHORT | {"waiting_on": 0}, "undecided", "full"),
        ({"preemptions_on": 0, "waiting_on": 0, "demand": 9_000, "capacity_on": 60_000}, "excluded", "fits"),
        ({"preemptions_on": 0, "waiting_on": 0, "demand": 90_000, "capacity_on": 60_000}, "undecided", None),
    ],
)
def test_kv_capacity_is_judged_by_preemptions_usage_and_demand(
    known: dict[str, Any], outcome: str, rule: str | None
) -> None:
    found = judgement("kv_capacity", facts(**known))
    assert (found.outcome, found.rule) == (outcome, rule)
    assert bool(found.missing) == (rule is None)


@pytest.mark.parametrize("hypothesis", list(RULES))
def test_where_nothing_is_known_nothing_is_decided_and_every_missing_fact_is_named(hypothesis: Name) -> None:
    found = judgement(hypothesis, Facts(**NOTHING))
    wanted = {name for rule in RULES[hypothesis] if not rule.extra for name in rule.needs}
    assert (found.outcome, found.rule) == ("undecided", None)
    assert set(found.missing) == wanted


@pytest.mark.parametrize(("hypothesis", "rule"), [(name, rule) for name, rules in RULES.items() for rule in rules])
def test_a_rule_reads_nothing_beyond_what_it_needs(hypothesis: Name, rule: Any) -> None:
    known = {name: 2.0 if name in RISES else told(0.5) for name in rule.needs}
    assert rule.holds(Facts(**(NOTHING | known))) in (True, False)


@given(
    st.fixed_dictionaries(
        {
            "step_rise": st.none() | st.floats(0.5, 10),
            "preemptions_on": st.none() | st.integers(0, 20),
            "preemptions_off": st.none() | st.integers(0, 20),
            "kv_usage_on": st.none() | st.floats(0, 1),
        }
    )
)
def test_contention_is_never_supported_while_requests_were_preempted(known: dict[str, Any]) -> None:
    found = judgement("contention", facts(**known))
    if known["preemptions_on"] is None or known["preemptions_on"] > 0:
        assert found.outcome != "supported"


# --- from rows ------------------------------------------------------------------------------------------------


def rows(steps: dict[int, float], **on: Any) -> list[Row]:
    """A pair whose step-time ratios are these by concurrency."""
    found = []
    for concurrency, ratio in steps.items():
        stage = {"concurrency": concurrency, "requests": 2 * concurrency, "waiting_peak": 0}
        off = make_row(**stage)
        speculating = make_row(**(DFLASH | stage | {"kv_usage_peak": 0.1} | on))
        found += [off, replace(speculating, step_time_mean_s=(off.step_time_mean_s or 0.0) * ratio)]
    return found


def by_concurrency(found: list[Row]) -> dict[int, Judged]:
    (case,) = cases_of(found)
    return {one.part.concurrency: one for one in judged(case)}


def test_the_lowest_concurrency_is_what_the_others_are_held_against() -> None:
    found = by_concurrency(rows({1: 1.8, 8: 5.4, 32: 8.1}))
    assert found[1].contention.rule == "lowest"
    assert found[8].facts.step_rise == pytest.approx(3.0)
    assert [found[at].contention.outcome for at in (8, 32)] == ["supported", "supported"]
    assert {one.kv_capacity.outcome for one in found.values()} == {"excluded"}


def test_a_cost_that_does_not_grow_with_load_is_no_contention() -> None:
    assert by_concurrency(rows({1: 1.5, 32: 1.52}))[32].contention.outcome == "excluded"


def test_of_repeats_the_most_preemptions_and_the_least_capacity_count() -> None:
    again = [replace(row, row_id=f"{row.row_id}-2", repeat=2) for row in rows({1: 1.5, 8: 3.0})]
    worse = [
        replace(row, preemptions=4, kv_cache_tokens=1000) if row.speculation != "off" and row.concurrency == 8 else row
        for row in again
    ]
    found = by_concurrency(rows({1: 1.5, 8: 3.0}) + worse)[8]
    assert found.facts.preemptions_on is not None
    assert found.facts.preemptions_on.value == 4
    assert found.facts.capacity_on is not None
    assert found.facts.capacity_on.value == 1000
    assert (found.contention.rule, found.kv_capacity.rule) == ("preempted", "only_with_it")


def test_a_column_that_the_engine_does_not_expose_is_named_as_missing() -> None:
    bare = [replace(row, preemptions=None, kv_usage_peak=None) for row in rows({1: 1.5, 8: 3.0})]
    found = by_concurrency(bare)[8]
    assert found.contention.missing == ("preemptions_on",)
    assert found.kv_capacity.missing == ("preemptions_on", "kv_usage_on", "preemptions_off")


def test_demand_is_what_a_full_batch_holds_at_its_end() -> None:
    demand = by_concurrency(rows({1: 1.5, 8: 3.0}))[8].facts.demand
    assert demand is not None
    assert demand.value == pytest.approx(8 * (702.5 + 256))


# --- campaigns ------------------------------------------------------------------------------------------------

DATA = Path(__file__).resolve().parents[2] / "data"
#: Muse's own memory, but for what is taken away: with the drafter a full batch does not fit, without it does.
SMALL = {"profile": 1, "extends": "dual-3090", "memory": {"non_torch_bytes": 7_800_000_000}}
#: ... and with so little left that beside the drafter one request fits at a time; without it, all of them.
ONE_AT_A_TIME = SMALL | {"memory": {"non_torch_bytes": 8_318_000_000}}
#: The same with so much arithmetic that verification costs next to nothing.
SMALL_AND_FAST = SMALL | {
    "memory": {"non_torch_bytes": 8_150_000_000},
    "hardware": {"gpu": {"flops_s": 7.1e15}},
}
PLAN = """\
plan: 1
campaign: small-kv
engine: {kind: emulated, version: 0.27.0, profile: PROFILE}
models: {muse-glimmer-30b: {path: org/muse, drafter: org/muse-dflash}}
speculation: {dflash-15: {method: dflash, model: "{drafter}", num_speculative_tokens: 15}}
defaults: {tensor_parallel: 2, max_model_len: LENGTH, max_num_seqs: 32, nvlink: on}
matrix: {model: muse-glimmer-30b, speculation: [off, dflash-15]}
stages: {concurrency: {1: 2, 32: 64}, prompt_tokens: 655, output_tokens: 256}
"""


def swept(folder: Path, profile: dict[str, Any], longest: int = 2048) -> Judged:
    """Sweep one pair in virtual time and return what is judged of it at 32."""
    (folder / "small-kv.json").write_text(json.dumps(profile))
    plan = folder / "plan.yaml"
    plan.write_text(PLAN.replace("PROFILE", str(folder / "small-kv.json")).replace("LENGTH", str(longest)))
    assert main(["sweep", str(plan), "--out", str(folder / "data")]) == 0
    return by_concurrency(list(read_campaign(folder / "data" / "small-kv").rows))[32]


def number(quantity: Quantity | None) -> float:
    assert quantity is not None
    return quantity.value


def test_where_the_cache_is_made_too_small_for_the_drafter_kv_capacity_is_supported_with_the_figures(
    tmp_path: Path,
) -> None:
    found = swept(tmp_path, SMALL)
    facts = found.facts
    assert (found.kv_capacity.outcome, found.kv_capacity.rule) == ("supported", "only_with_it")
    assert number(facts.capacity_on) < number(facts.demand) <= number(facts.capacity_off)
    assert number(facts.preemptions_on) > 0 == number(facts.preemptions_off)
    assert number(facts.waiting_on) > 0
    assert number(facts.kv_usage_on) > 0.99 > number(facts.kv_usage_off)
    # What a preempted request waits is in its step time, so that says nothing of contention.
    assert (found.contention.outcome, found.contention.rule) == ("undecided", "preempted")


def test_where_only_the_cache_is_made_small_both_verdicts_are_the_opposite_with_the_figures(tmp_path: Path) -> None:
    found = swept(tmp_path, ONE_AT_A_TIME, longest=1024)
    facts = found.facts
    assert found.part.point.ratio is not None
    assert found.part.point.ratio < 0.5
    assert (found.kv_capacity.outcome, found.kv_capacity.rule) == ("supported", "short_with_it")
    assert number(facts.capacity_on) < number(facts.demand) <= number(facts.capacity_off)
    assert number(facts.waiting_on) == 31
    # One request at a time verifies its 16 positions, of which 512 would go into a step: nothing contends.
    assert (found.contention.outcome, found.contention.rule) == ("excluded", "as_many")
    assert number(facts.verified) <= 16 < number(facts.positions_per_step) == 512


def test_where_arithmetic_is_cheap_and_the_cache_too_small_both_verdicts_are_the_opposite(tmp_path: Path) -> None:
    found = swept(tmp_path, SMALL_AND_FAST)
    assert found.part.point.ratio is not None
    assert found.part.point.ratio < 0.9
    assert (found.contention.outcome, found.contention.rule) == ("excluded", "flat")
    assert (found.kv_capacity.outcome, found.kv_capacity.rule) == ("supported", "only_with_it")


def test_the_follow_up_excludes_kv_capacity_for_muse_and_supports_contention_with_the_figures() -> None:
    study = read_campaign(DATA / "follow-up")
    (muse,) = (
        case
        for case in cases_of(study.rows)
        if case.pair["model"] == "muse-glimmer-30b" and case.pair["prompt_set"] == "general/code"
    )
    found = {one.part.concurrency: one for one in judged(muse)}[32]
    facts = found.facts
    assert (found.contention.outcome, found.kv_capacity.outcome) == ("supported", "excluded")
    assert number(facts.demand) < number(facts.capacity_on) < number(facts.capacity_off)
    assert number(facts.preemptions_on) == number(facts.preemptions_off) == 0
    assert 100 * number(facts.kv_usage_on) < KV_FULL_PERCENT
    assert number(facts.verified) <= number(facts.positions_per_step) == 512
    assert facts.step_rise is not None
    assert facts.step_rise >= RISES_FROM
