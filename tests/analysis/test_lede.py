"""What leads an article: the largest reversal, or what all ways have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.analysis.lede import lede
from collector.analysis.study import PUBLISHED, Study
from collector.report.build import read_campaign, read_published
from tests.analysis.arms import MTP, arm, pair_of, study_of
from tests.report.sample import make_row

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.mark.parametrize(
    ("ways", "headline"),
    [
        ([{1: 2.0, 8: 1.4}], "gain"),
        ([{1: 2.0, 8: 1.0}, {1: 1.2, 8: 1.2}], "gain"),
        ([{1: 0.9, 8: 0.6}], "loss"),
        ([{1: 1.0, 8: 0.6}, {1: 0.8, 8: 0.7}], "loss"),
        ([{1: 1.0, 8: 1.0}], "even"),
        ([{1: 2.0, 8: 0.5}, {1: 2.0, 8: 1.5}], "reversal"),
        ([{1: 2.0, 8: 1.5}, {1: 0.8, 8: 0.7}], "differ"),
        ([{1: 0.8, 8: 1.5}], "differ"),
        ([], "none"),
    ],
)
def test_the_headline_follows_from_what_the_ways_do(ways: list[dict[int, float]], headline: str) -> None:
    rows = [row for number, ratios in enumerate(ways) for row in pair_of(ratios, model=f"m{number}")]
    assert lede(study_of(*rows)).headline == headline


def test_the_reversal_is_the_one_with_most_between_its_best_and_its_worst_ratio() -> None:
    rows = [*pair_of({1: 1.5, 8: 0.8}, model="shallow"), *pair_of({1: 1.4, 8: 0.4}, model="deep")]
    found = lede(study_of(*rows)).reversal
    assert found is not None
    assert found.pair["model"] == "deep"


def test_a_way_that_turns_from_loss_to_gain_is_no_reversal() -> None:
    assert lede(study_of(*pair_of({1: 0.5, 8: 2.0}))).reversal is None


def test_ways_without_the_main_link_do_not_lead() -> None:
    rows = [*pair_of({1: 1.5, 8: 1.2}), *pair_of({1: 1.5, 8: 0.2}, nvlink="off")]
    found = lede(study_of(*rows))
    assert found.headline == "gain"
    assert [one.pair["nvlink"] for one in found.behaviours] == ["on"]


def test_ways_on_other_prompts_lead_as_well() -> None:
    rows = [*pair_of({1: 1.5}), *pair_of({1: 1.5}, prompt_set="general/code")]
    assert {one.pair["prompt_set"] for one in lede(study_of(*rows)).behaviours} == {"synthetic", "general/code"}


@pytest.mark.parametrize(
    ("outcomes", "each"),
    [
        ({"a": {1: 2.0}, "b": {1: 0.5}}, True),
        ({"a": {1: 2.0}, "b": {1: 1.5}}, False),
        ({"a": {1: 2.0}}, False),
    ],
)
def test_models_behave_each_in_its_own_way_only_if_no_two_do_the_same(
    outcomes: dict[str, dict[int, float]], each: bool
) -> None:
    rows = [row for model, ratios in outcomes.items() for row in pair_of(ratios, model=model)]
    assert lede(study_of(*rows)).each_its_own is each


def test_a_way_without_an_accepted_token_is_named_as_such() -> None:
    (one,) = lede(study_of(*pair_of({1: 0.8}, tokens_per_step=1.0))).behaviours
    assert one.nothing is not None
    assert one.nothing.value == 0
    (other,) = lede(study_of(*pair_of({1: 0.8}))).behaviours
    assert other.nothing is None


def test_a_dtype_is_told_without_speculation_and_with_the_main_link() -> None:
    fp8 = {"kv_cache_dtype": "fp8_e5m2", "attention_backend": "FLASHINFER"}
    rows = [
        *pair_of({8: 1.5}),
        *arm({8: 480.0}, **fp8),
        *arm({8: 240.0}, **(MTP | fp8)),
        *arm({8: 400.0}, nvlink="off"),
        *arm({8: 760.0}, nvlink="off", **fp8),
    ]
    found = lede(study_of(*rows)).kv_cache
    assert found is not None
    assert (len(found.pairs), found.gains, found.losses) == (1, 1, 0)
    assert found.most.value == pytest.approx(20.0)


def test_an_effect_is_told_at_the_highest_concurrency_that_was_compared() -> None:
    rows = [*arm({1: 110.0, 8: 130.0, 32: 200.0}), *arm({1: 100.0, 8: 100.0}, nvlink="off")]
    found = lede(study_of(*rows)).nvlink
    assert found is not None
    assert found.concurrency == 8
    assert found.least.value == pytest.approx(30.0)


def test_without_a_pair_the_highest_throughput_whose_checks_held_is_left() -> None:
    rows = [*arm({1: 50.0, 8: 300.0}), make_row(concurrency=32, system_throughput_tok_s=900.0, checks="throttled")]
    found = lede(study_of(*rows))
    assert found.headline == "none"
    assert found.peak is not None
    assert found.peak_row is not None
    assert (found.peak.value, found.peak_row.concurrency) == (300.0, 8)


@pytest.mark.parametrize("name", ["dual-3090", "published"])
def test_the_reference_experiment_leads_with_the_model_that_loses_under_load(name: str) -> None:
    published = read_published(DATA / "published")
    assert published is not None
    printed = Study(name=PUBLISHED, figures=published.figures)
    study = printed if name == PUBLISHED else read_campaign(DATA / name)
    found = lede(study)
    assert found.headline == "reversal"
    assert found.reversal is not None
    assert found.reversal.pair["model"] == "muse-glimmer-30b"
    assert found.each_its_own
