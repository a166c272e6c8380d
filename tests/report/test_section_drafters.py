"""Section drafters: every branch renders in both languages, and every number in it follows from the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from collector.analysis.study import Study
from collector.core.rows import Row
from collector.report.build import read_campaign
from collector.report.sections.drafters import MOST_BY_PROMPT, section
from collector.report.words import LANGUAGES, Words
from tests.analysis.test_drafters import DATA, positions, published, row, study
from tests.analysis.test_under_load import arms, general
from tests.report.remade import check_numbers, rendered
from tests.report.sample import make_failure, make_row
from tests.report.structure import Structure


def kinds(model: str, **accepted: float) -> list[Row]:
    return [row(f"general/{name}", 100, round(100 * value), model=model) for name, value in accepted.items()]


def opposite(provenance: str = "measured") -> Study:
    rows = [*arms("a", {1: 2.0, 32: 1.2}), *general("a", 2.8)]
    wide: dict[str, Any] = {"num_speculative_tokens": 15, "speculation": "dflash"}
    rows += [*arms("b", {1: 1.8, 32: 0.5}, **wide), *general("b", 2.9, **wide)]
    return study(*(replace(one, provenance=provenance) for one in rows))


def rare() -> Study:
    one = row("general/code", 100)
    return study(one, positions=positions(one, 90, 20, 2))


CASES: dict[str, Callable[[], Study]] = {
    "no row": study,
    "no speculation": lambda: study(make_row()),
    "nothing ran": lambda: Study(name="sample-dual", failures=(make_failure(),)),
    "synthetic only": lambda: study(row()),
    "checks failed": lambda: study(row(checks="throttled"), row("general/code", checks="throttled")),
    "one kind": lambda: study(row(), row("general/code")),
    "same least": lambda: study(*kinds("a", english=2, korean=1), *kinds("b", code=3, korean=1)),
    "other least": lambda: study(*kinds("a", english=2, korean=1), *kinds("b", english=1, korean=2)),
    "two ways of one model": lambda: study(
        *kinds("a", english=2, korean=1), row("general/english", num_speculative_tokens=2, model="a")
    ),
    "repeats": lambda: study(row("general/code"), row("general/code", 100, 140, repeat=2)),
    "opposite": opposite,
    "opposite, emulated": lambda: opposite("emulated"),
    "rare": rare,
    "two provenances": lambda: study(row("general/code"), row("general/code", provenance="emulated")),
    "no drafter of its own": lambda: study(row(drafter=None)),
    "40 models": lambda: study(*(one for n in range(40) for one in kinds(f"model-{n}", english=2, korean=1 + n / 50))),
    "dual-3090": lambda: read_campaign(DATA / "dual-3090"),
    "follow-up": lambda: read_campaign(DATA / "follow-up"),
    "published": published,
    "published without acceptance": lambda: replace(
        published(), figures=tuple(one for one in published().figures if "accept" not in one.metric)
    ),
}


@cache
def page(case: str, language: str = "en") -> Structure:
    return Structure(rendered("drafters", CASES[case](), language))


def text(case: str, language: str = "en") -> str:
    return page(case, language).text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    check_numbers("drafters", CASES[case](), language)


@pytest.mark.parametrize("case", CASES)
def test_both_languages_have_the_same_ids_and_no_block_has_a_blank_line(case: str) -> None:
    found = [page(case, language) for language in LANGUAGES]
    assert found[0].ids == found[1].ids
    assert found[0].ids[0] == "drafters"
    assert found[0].blank == found[1].blank == []
    assert found[0].links == found[1].links


@pytest.mark.parametrize("case", ["no row", "no speculation", "nothing ran", "published without acceptance"])
def test_what_was_not_measured_is_one_sentence_that_says_how(case: str) -> None:
    found = rendered("drafters", CASES[case](), "en")
    assert "<table" not in found
    assert "<figure" not in found
    assert ("published" if case.startswith("published") else "in the plan") in found


def test_a_prompt_that_is_lowest_for_all_is_said_so_and_else_each_group_is_named() -> None:
    assert "Every drafter gets the fewest accepted on Korean prompts" in text("same least")
    assert "The fewest are accepted on English (b), Korean (a)" in text("other least")
    assert "한국어(gemma-4-31b, muse-glimmer-30b), 영어(exaone-4.5-33b mtp k=3)" in text("published", "ko")
    assert "Too few kinds" in text("one kind")


def test_only_a_study_with_a_counterexample_says_that_acceptance_does_not_tell_the_gain() -> None:
    said = {case for case in CASES if "opposite under load" in text(case)}
    assert said == {"opposite", "opposite, emulated", "dual-3090", "published"}


def test_an_emulation_is_never_offered_as_a_confirmation() -> None:
    said = {case for case in CASES if "confirms no cause" in text(case)}
    assert said == {"opposite, emulated", "dual-3090", "follow-up"}


def test_forty_drafters_are_counted_in_sentences_and_have_one_bar_each() -> None:
    found = section(CASES["40 models"](), Words("en"))
    (chart,) = found["by_prompt"]
    assert len(found["entries"]) > MOST_BY_PROMPT
    assert [len(line.points) for line in chart.lines] == [1] * 40
    sentences = text("40 models").partition("emulated")[0].partition("What each drafter")[0]
    assert "model-20" not in sentences
    assert "40 drafters" in sentences


def test_a_bar_has_a_whisker_only_where_its_prompt_was_repeated() -> None:
    def whiskers(case: str) -> list[tuple[float | None, float | None]]:
        (chart,) = section(CASES[case](), Words("en"))["by_prompt"]
        return [(point.low, point.high) for point in chart.points]

    assert whiskers("repeats") == [(1.0, 1.4)]
    assert set(whiskers("dual-3090")) == {(None, None)}
    assert (None, None) not in whiskers("follow-up")


def test_provenances_never_share_a_chart() -> None:
    charts = section(CASES["two provenances"](), Words("en"))["by_prompt"]
    assert [chart.provenance for chart in charts] == ["emulated", "measured"]
    assert len({chart.id for chart in charts}) == 2


def test_the_chart_of_positions_ends_at_the_longest_draft_and_names_its_prompts() -> None:
    (chart,) = section(CASES["rare"](), Words("en"))["by_position"]
    assert [(point.x, point.y) for point in chart.points] == [(1, 90.0), (2, 20.0), (3, 2.0)]
    assert "rarely reached" in str(chart.title)
    assert "not recorded" in text("one kind")
    assert "Acceptance by draft position was not published" in text("published")
