"""Verdicts by rule: each follows from ratios and acceptance alone, and names the rows that prove it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.acceptance import ACCEPTS_NOTHING, acceptance, acceptance_elsewhere, accepts_nothing
from collector.analysis.draft_length import draft_lengths
from collector.analysis.quantity import Quantity
from collector.analysis.recommend import RULES, Advice, Evidence, advice
from collector.analysis.speculation import pairs
from collector.analysis.study import PUBLISHED, Study
from collector.core.rows import Failure, Row
from collector.report.build import read_campaign, read_published
from tests.analysis.arms import MTP, arm, pair_of, study_of
from tests.report.sample import make_failure

DATA = Path(__file__).resolve().parents[2] / "data"
NOTHING = {"tokens_per_step": 1.0}


def only(*rows: Row, failures: tuple[Failure, ...] = ()) -> Advice:
    _, found = advice(study_of(*rows, failures=failures))
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("ratios", "verdict", "edge"),
    [
        ({1: 2.0, 8: 1.3}, "use", None),
        ({1: 2.0, 8: 1.01}, "use", None),  # the smaller one is within noise
        ({1: 0.7, 8: 0.6}, "avoid", None),
        ({1: 1.02, 8: 0.98}, "even", None),
        ({1: 1.7, 8: 0.7, 32: 0.4}, "up_to", (1, 8)),
        ({1: 1.7, 8: 1.01, 32: 0.4}, "up_to", (1, 32)),
        ({3: 1.7, 4: 0.7}, "up_to", (3, 4)),
        ({1: 0.7, 8: 1.7}, "from", (1, 8)),
        ({1: 1.7, 8: 0.7, 32: 1.7}, "mixed", None),
    ],
)
def test_a_verdict_follows_from_where_a_way_gains_and_loses(
    ratios: dict[int, float], verdict: str, edge: tuple[int, int] | None
) -> None:
    rows = pair_of(ratios)
    (one,) = only(*rows).speculation
    assert (one.verdict, one.edge) == (verdict, edge)
    assert one.one_step is (edge == (3, 4))
    assert set(one.ids) == {row.row_id for row in rows}
    assert one.least.value == pytest.approx(min(ratios.values()))
    assert one.most.value == pytest.approx(max(ratios.values()))


def test_a_loss_without_any_accepted_token_withholds_the_verdict() -> None:
    (one,) = only(*pair_of({1: 0.9, 8: 0.7}, **NOTHING)).speculation
    assert one.verdict == "withheld"
    assert one.evidence.elsewhere is None


def test_what_is_accepted_elsewhere_is_told_beside_a_withheld_verdict() -> None:
    rows = [
        *pair_of({1: 0.9}, **NOTHING),
        *arm({1: 80.0}, prompt_set="general/code", **(MTP | {"tokens_per_step": 3.0})),
    ]
    (one,) = only(*rows).speculation
    assert one.verdict == "withheld"
    assert one.evidence.elsewhere is not None
    assert one.evidence.elsewhere.value == pytest.approx(0.5, rel=0.01)


def test_a_gain_is_never_withheld() -> None:
    (one,) = only(*pair_of({1: 1.5}, **NOTHING)).speculation
    assert one.verdict == "use"


def test_every_rule_of_the_table_can_be_the_verdict_and_one_always_holds() -> None:
    accepted = Quantity(value=0.0, by="pooled", of="accepted_tokens/draft_tokens", ids=("a",))
    cases = {
        "unknown": Evidence(),
        "withheld": Evidence(losses=(1,), acceptance=accepted),
        "even": Evidence(within_noise=(1,)),
        "use": Evidence(gains=(1,)),
        "avoid": Evidence(losses=(1,)),
        "up_to": Evidence(gains=(1,), losses=(8,)),
        "from": Evidence(losses=(1,), gains=(8,)),
        "mixed": Evidence(gains=(1, 32), losses=(8,)),
    }
    assert [rule.verdict for rule in RULES] == list(cases)
    for verdict, evidence in cases.items():
        assert next(rule.verdict for rule in RULES if rule.holds(evidence)) == verdict


@given(st.dictionaries(st.sampled_from([1, 2, 4, 8, 16, 32]), st.sampled_from([-1, 0, 1])))
def test_some_rule_holds_whatever_was_measured(sides: dict[int, int]) -> None:
    found = {side: tuple(at for at, one in sides.items() if one == side) for side in (-1, 0, 1)}
    evidence = Evidence(gains=found[1], losses=found[-1], within_noise=found[0])
    verdict = next(rule.verdict for rule in RULES if rule.holds(evidence))
    assert (verdict == "unknown") == (not sides)
    assert (verdict == "avoid") == (bool(found[-1]) and not found[1])


def test_a_row_with_a_failed_check_proves_no_verdict() -> None:
    rows = pair_of({1: 1.5, 8: 0.5})
    bad = [replace(row, checks="throttled") if row.concurrency == 8 else row for row in rows]
    (one,) = only(*bad).speculation
    assert one.verdict == "use"
    assert set(one.ids) == {row.row_id for row in rows if row.concurrency == 1}


def test_a_dtype_and_a_link_are_judged_by_the_same_rules() -> None:
    rows = [*arm({1: 100.0, 8: 100.0}), *arm({1: 101.0, 8: 130.0}, kv_cache_dtype="fp8_e5m2")]
    rows += arm({1: 80.0, 8: 70.0}, nvlink="off")
    found = only(*rows)
    assert [(one.verdict, one.evidence.within_noise) for one in found.kv_cache] == [("use", (1,))]
    assert [one.verdict for one in found.nvlink] == ["use"]
    assert found.kv_cache[0].evidence.acceptance is None


def test_a_link_is_not_judged_where_both_sides_drafts_were_accepted_too_differently() -> None:
    rows = [*arm({1: 90.0, 8: 300.0}, **MTP), *arm({8: 250.0}, nvlink="off", **MTP)]
    rows += arm({1: 120.0}, nvlink="off", **(MTP | {"tokens_per_step": 4.2}))
    (one,) = only(*rows).nvlink
    assert (one.verdict, one.evidence.mixed) == ("use", (1,))
    assert not set(one.ids) & {row.row_id for row in rows if row.concurrency == 1}
    assert one.least == one.most


def test_a_pair_that_is_mixed_throughout_gets_no_verdict() -> None:
    rows = [*arm({1: 90.0}, **MTP), *arm({1: 120.0}, nvlink="off", **(MTP | {"tokens_per_step": 4.2}))]
    assert only(*rows).nvlink == ()


def test_a_configuration_that_never_ran_is_named_and_one_that_ran_later_is_not() -> None:
    rows = pair_of({1: 1.5})
    refused = make_failure(model="alpha-30b", kv_cache_dtype="fp8_e5m2", category="kv_dtype")
    twice = [replace(refused, failure_id="x"), refused]
    recovered = make_failure(model="alpha-30b", configuration_id=rows[0].configuration_id)
    found = only(*rows, failures=(*twice, recovered)).refusals
    assert [(one.kv_cache_dtype, one.category, len(one.failure_ids)) for one in found] == [("fp8_e5m2", "kv_dtype", 2)]


def test_of_several_k_the_one_with_the_highest_ratio_is_named() -> None:
    k1 = pair_of({1: 0.9, 8: 0.8}, series="k1", num_speculative_tokens=1)
    k3 = pair_of({1: 0.7, 8: 0.6, 32: 0.5}, series="k3", num_speculative_tokens=3)
    k1 = [replace(row, num_speculative_tokens=None) if row.speculation == "off" else row for row in k1]
    k3 = [replace(row, num_speculative_tokens=None) if row.speculation == "off" else row for row in k3]
    (one,) = draft_lengths(only(*k1, *k3))
    assert one.best.pair.num_speculative_tokens == 1
    assert (one.concurrency, one.everywhere) == (8, True)
    assert [other.pair.num_speculative_tokens for other in one.rest] == [3]


def test_one_k_is_no_choice() -> None:
    assert draft_lengths(only(*pair_of({1: 0.9}))) == ()


def test_acceptance_pools_the_runs_of_a_pair_and_leaves_other_prompts_to_the_other_figure() -> None:
    rows = [*pair_of({1: 1.5, 8: 1.2}), *arm({1: 80.0}, prompt_set="general", **(MTP | {"tokens_per_step": 2.0}))]
    (pair,) = [one for one in pairs(rows) if one["prompt_set"] == "synthetic"]
    own, elsewhere = acceptance(study_of(*rows), pair), acceptance_elsewhere(study_of(*rows), pair)
    assert own is not None
    assert elsewhere is not None
    assert set(own.ids) == {row.row_id for row in rows[2:4]}
    assert elsewhere.ids == (rows[4].row_id,)


@pytest.mark.parametrize(("value", "nothing"), [(0.0, True), (ACCEPTS_NOTHING, True), (0.02, False)])
def test_next_to_no_acceptance_counts_as_none(value: float, nothing: bool) -> None:
    assert accepts_nothing(Quantity(value=value, by="pooled", of="a/b", ids=("x",))) is nothing
    assert accepts_nothing(None) is False


@pytest.mark.parametrize("name", ["dual-3090", "published"])
def test_the_reference_experiment_gets_the_verdicts_of_its_own_article(name: str) -> None:
    """On for Gemma, near a single request only for Muse, withheld for EXAONE; fp8 and NVLink where they ran."""
    published = read_published(DATA / "published")
    assert published is not None
    printed = Study(name=PUBLISHED, figures=published.figures, published_failures=published.failures)
    _, found = advice(printed if name == PUBLISHED else read_campaign(DATA / name))
    by_model = {one.model: one for one in found}
    verdicts = {model: {one.verdict for one in of.speculation} for model, of in by_model.items()}
    assert verdicts == {"exaone-4.5-33b": {"withheld"}, "gemma-4-31b": {"use"}, "muse-glimmer-30b": {"up_to"}}
    assert {one.edge for one in by_model["muse-glimmer-30b"].speculation if one.pair["kv_cache_dtype"] != "auto"} == {
        (1, 8)
    }
    for model in ("exaone-4.5-33b", "muse-glimmer-30b"):
        assert [one.verdict for one in by_model[model].kv_cache if one.pair["speculation"] == "off"] == ["use"]
    assert {one.verdict for of in found for one in of.nvlink} == {"use"}
    linked = {one.pair["speculation"] for one in by_model["gemma-4-31b"].nvlink}
    assert linked == ({"off"} if name == PUBLISHED else {"off", "mtp"}), (
        "0.61 and 0.85 were accepted at 1; at 32 who knows"
    )
    assert [(one.kv_cache_dtype, one.category) for one in by_model["gemma-4-31b"].refusals] == [
        ("fp8_e5m2", "kv_dtype")
    ]
    assert by_model["gemma-4-31b"].batching is not None
    assert by_model["gemma-4-31b"].batching.most == 16
