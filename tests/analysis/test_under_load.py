"""Accepted per forward against the gain under load, and gains on several prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.analysis.drafters import drafters
from collector.analysis.study import PUBLISHED, Study
from collector.analysis.under_load import ALIKE_WITHIN_PERCENT, opposites, spans
from collector.core.rows import Row
from collector.report.build import read_campaign, read_published
from tests.analysis.test_drafters import row
from tests.report.sample import make_row

DATA = Path(__file__).resolve().parents[2] / "data"


def arms(model: str, ratios: dict[int, float], prompts: str = "synthetic", **changes: Any) -> list[Row]:
    """Return both sides by concurrency; the side without speculation makes 100 tok/s everywhere."""
    found = []
    for concurrency, ratio in ratios.items():
        stage: dict[str, Any] = {
            "model": model,
            "prompt_set": prompts,
            "concurrency": concurrency,
            "requests": 2 * concurrency,
        }
        found.append(make_row(system_throughput_tok_s=100.0, **stage))
        found.append(row(prompts, system_throughput_tok_s=100.0 * ratio, **(stage | changes)))
    return found


def general(model: str, per_forward: float, **changes: Any) -> list[Row]:
    return [
        row(f"general/{name}", 100, round(100 * per_forward), model=model, **changes) for name in ("code", "korean")
    ]


def told(*rows: Row) -> list[tuple[str, str]]:
    study = Study(name="sample-dual", rows=rows)
    return [(one.gaining["model"], one.losing["model"]) for one in opposites(study, drafters(study))]


def test_drafters_that_accept_alike_and_end_on_different_sides_of_even_are_told() -> None:
    rows = [*arms("a", {1: 2.0, 32: 1.2}), *general("a", 2.8), *arms("b", {1: 1.8, 32: 0.5}), *general("b", 2.9)]
    assert told(*rows) == [("a", "b")]


@pytest.mark.parametrize(
    ("second", "ratio"),
    [
        pytest.param(2.8 * (1 + 2 * ALIKE_WITHIN_PERCENT / 100), 0.5, id="not alike"),
        pytest.param(2.9, 1.1, id="both gain"),
        pytest.param(2.9, 1.001, id="one is even"),
    ],
)
def test_others_are_not_told(second: float, ratio: float) -> None:
    rows = [*arms("a", {32: 1.2}), *general("a", 2.8), *arms("b", {32: ratio}), *general("b", second)]
    assert told(*rows) == []


def test_only_a_concurrency_that_both_have_decides() -> None:
    rows = [*arms("a", {1: 2.0, 32: 1.2}), *general("a", 2.8), *arms("b", {1: 1.8, 64: 0.5}), *general("b", 2.9)]
    assert told(*rows) == []


def test_drafters_measured_on_different_general_prompts_are_not_compared() -> None:
    rows = [*arms("a", {32: 1.2}), *general("a", 2.8), *arms("b", {32: 0.5}), *general("b", 2.9)[:1]]
    assert told(*rows) == []


def test_gains_on_different_prompts_are_not_set_against_each_other() -> None:
    rows = [*arms("a", {32: 1.2}), *general("a", 2.8), *arms("b", {32: 0.5}, "general/code"), *general("b", 2.9)[1:]]
    assert told(*rows) == []


def test_the_published_drafters_of_alike_acceptance_part_under_load() -> None:
    found = read_published(DATA / PUBLISHED)
    assert found is not None
    study = Study(name=PUBLISHED, figures=found.figures)
    (one,) = opposites(study, drafters(study))
    assert (one.gaining["model"], one.gain.ratio, one.gain.concurrency) == ("gemma-4-31b", 1.19, 32)
    assert (one.losing["model"], one.loss.ratio) == ("muse-glimmer-30b", 0.44)


def test_a_span_holds_the_prompts_at_the_highest_concurrency_of_all_and_turns_where_they_disagree() -> None:
    rows = [*arms("a", {1: 2.0, 8: 1.2, 32: 1.1}, "general/code"), *arms("a", {1: 1.5, 8: 0.8}, "general/korean")]
    study = Study(name="sample-dual", rows=tuple(rows))
    (span,) = spans(study, drafters(study))
    assert span.concurrency == 8
    assert [name for name, _ in span.points] == ["general/code", "general/korean"]
    assert [point.ratio for _, point in span.points] == pytest.approx([1.2, 0.8])
    assert span.turns


def test_one_prompt_or_no_shared_concurrency_has_no_span() -> None:
    one = Study(name="sample-dual", rows=tuple(arms("a", {1: 2.0}, "general/code")))
    apart = Study(
        name="sample-dual",
        rows=(*arms("a", {1: 2.0}, "general/code"), *arms("a", {8: 1.5}, "general/korean")),
    )
    assert spans(one, drafters(one)) == spans(apart, drafters(apart)) == []


def test_the_committed_follow_up_shows_a_drafter_that_the_prompt_decides_on() -> None:
    study = read_campaign(DATA / "follow-up")
    turning = [one for one in spans(study, drafters(study)) if one.turns]
    assert [(one.drafter["model"], one.points[0][0], one.points[-1][0]) for one in turning] == [
        ("gemma-4-31b", "general/code", "general/korean")
    ]
