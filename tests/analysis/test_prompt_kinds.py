"""When a verdict on one prompt does not hold for others, and what it costs to draft for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.analysis.acceptance import ACCEPTS_NOTHING
from collector.analysis.drafters import drafters
from collector.analysis.prompt_kinds import (
    STRONGLY,
    Case,
    cases,
    compared_on_both,
    costs_more_with_k,
    depends,
    largest_sample,
)
from collector.analysis.study import PUBLISHED, Study
from collector.core.rows import Row
from collector.report.build import read_campaign, read_published
from tests.analysis.test_drafters import only, row, study
from tests.report.sample import make_row

DATA = Path(__file__).resolve().parents[2] / "data"


def prompts(synthetic: int, general: int, **changes: Any) -> list[Row]:
    """Return a row of each kind whose acceptance is this many of 400 tokens."""
    return [row(accepted=synthetic, **changes), row("general/code", accepted=general, **changes)]


@pytest.mark.parametrize(
    ("synthetic", "general", "expected"),
    [
        (100, 100 * STRONGLY, True),
        (100 * STRONGLY, 100, True),
        (100, 100 * STRONGLY - 1, False),
        (0, 1, True),
        (0, 0, False),
    ],
)
def test_acceptance_depends_on_the_prompt_where_one_is_many_times_the_other(
    synthetic: int, general: int, expected: bool
) -> None:
    assert depends(only(drafters(study(*prompts(synthetic, general))))) is expected


def test_one_kind_of_prompt_tells_nothing_of_dependence() -> None:
    found = drafters(study(row(accepted=0)))
    assert not depends(only(found))
    assert compared_on_both(found) == []


def case(*rows: Row) -> Case:
    found = study(*rows)
    ((one,),) = cases(found, drafters(found))
    return one


def test_an_acceptance_of_next_to_nothing_is_a_case_with_and_without_other_prompts() -> None:
    assert case(row(accepted=0)).barren == ("synthetic",)
    assert case(row(accepted=int(400 * ACCEPTS_NOTHING))).barren == ("synthetic",)
    assert case(*prompts(0, 200)).barren == ("synthetic",)
    assert case(*prompts(200, 0)).barren == ("general",)
    assert case(*prompts(0, 0)).barren == ("synthetic", "general")


def test_a_drafter_that_accepts_alike_everywhere_is_no_case() -> None:
    found = study(*prompts(200, 220))
    assert cases(found, drafters(found)) == []


def test_the_loss_is_throughput_without_minus_throughput_with_at_the_highest_concurrency() -> None:
    stages = {1: (50.0, 45.0), 32: (350.0, 275.0)}
    rows = [make_row(concurrency=c, requests=2 * c, system_throughput_tok_s=off) for c, (off, _) in stages.items()]
    rows += [
        row(accepted=0, concurrency=c, requests=2 * c, system_throughput_tok_s=on) for c, (_, on) in stages.items()
    ]
    one = case(*rows)
    assert one.point is not None
    assert one.loss is not None
    assert (one.point.concurrency, one.loss.by) == (32, "difference")
    assert one.loss.value == pytest.approx(75.0)
    assert one.loss.ids == one.point.row_ids_off
    assert not one.loaded


def test_general_prompts_under_load_are_noted_and_their_ratio_is_never_taken_for_the_synthetic_one() -> None:
    loaded = [
        make_row(prompt_set="general/code", system_throughput_tok_s=50.0),
        row("general/code", system_throughput_tok_s=90.0),
    ]
    one = case(row(accepted=0), *loaded)
    assert one.loaded
    assert one.point is None


def test_one_engine_that_answered_both_kinds_is_told_from_two() -> None:
    assert case(*prompts(0, 200)).same_engine
    assert not case(row(accepted=0, nvlink="off"), row("general/code", accepted=200)).same_engine


def test_models_and_provenances_are_cases_of_their_own_and_ks_of_one_model_come_in_order() -> None:
    rows = [row(accepted=0, num_speculative_tokens=k, model=model) for model in ("b", "a") for k in (3, 1)]
    rows.append(row(accepted=0, num_speculative_tokens=1, model="a", provenance="emulated"))
    found = study(*rows)
    told = [
        [(one.drafter["model"], one.drafter["num_speculative_tokens"]) for one in group]
        for group in cases(found, drafters(found))
    ]
    assert sorted(told) == [[("a", 1)], [("a", 1), ("a", 3)], [("b", 1), ("b", 3)]]


def losing(k: int, on: float, concurrency: int = 32) -> list[Row]:
    stage: dict[str, Any] = {"concurrency": concurrency, "requests": 64, "series": f"k{k}"}
    return [
        make_row(system_throughput_tok_s=350.0, **stage),
        row(accepted=0, num_speculative_tokens=k, system_throughput_tok_s=on, **stage),
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([*losing(1, 275.0), *losing(3, 200.0)], True, id="more"),
        pytest.param([*losing(1, 200.0), *losing(3, 275.0)], False, id="less"),
        pytest.param([*losing(1, 360.0), *losing(3, 355.0)], False, id="gains"),
        pytest.param([*losing(1, 275.0), *losing(3, 200.0, concurrency=8)], False, id="other stages"),
        pytest.param(losing(1, 275.0), False, id="one k"),
    ],
)
def test_a_larger_k_costs_more_only_where_each_step_of_it_does_at_one_concurrency(
    rows: list[Row], expected: bool
) -> None:
    found = study(*rows)
    (group,) = cases(found, drafters(found))
    assert costs_more_with_k(group) is expected


def test_the_emulated_campaign_loses_about_what_was_published_for_exaone() -> None:
    """The figures of the published runs are 75 and 153 tok/s."""
    found = read_published(DATA / PUBLISHED)
    assert found is not None
    printed = Study(name=PUBLISHED, figures=found.figures)
    losses = {}
    for name, one in (("published", printed), ("emulated", read_campaign(DATA / "dual-3090"))):
        (group,) = cases(one, drafters(one))
        assert {member.drafter["model"] for member in group} == {"exaone-4.5-33b"}
        assert costs_more_with_k(group)
        losses[name] = [member.loss.value for member in group if member.loss]
    assert losses["published"] == [75, 153]
    assert losses["emulated"] == pytest.approx(losses["published"], rel=0.1)
    sample = largest_sample(printed, "exaone-4.5-33b")
    assert sample is not None
    assert sample.value == 0.0069
