"""Section prompts: every branch renders in both languages, and every number in it follows from the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from collector.analysis.study import Study
from collector.core.rows import Row
from collector.report.build import read_campaign
from collector.report.words import LANGUAGES
from tests.analysis.test_drafters import DATA, published, row, study
from tests.analysis.test_prompt_kinds import losing, prompts
from tests.analysis.test_under_load import arms
from tests.report.remade import check_numbers, rendered
from tests.report.sample import make_failure, make_row
from tests.report.structure import Structure


def idle(k: int = 1, model: str = "alpha-30b", **changes: object) -> list[Row]:
    return [replace(one, model=model, **changes) for one in losing(k, 350.0 - 50 * k)]  # type: ignore[arg-type]


CASES: dict[str, Callable[[], Study]] = {
    "no row": study,
    "no speculation": lambda: study(make_row()),
    "nothing ran": lambda: Study(name="sample-dual", failures=(make_failure(),)),
    "synthetic only": lambda: study(row()),
    "general only": lambda: study(row("general/code"), row("general/korean")),
    "checks failed": lambda: study(row(accepted=0, checks="throttled")),
    "alike": lambda: study(*prompts(200, 220)),
    "more on general": lambda: study(*prompts(50, 220)),
    "less on general": lambda: study(*prompts(220, 50)),
    "nothing on synthetic": lambda: study(*idle()),
    "nothing on synthetic, something on general": lambda: study(*idle(3), *prompts(0, 200, num_speculative_tokens=3)),
    "emulated": lambda: study(
        *(replace(one, provenance="emulated") for one in [*idle(3), *prompts(0, 200, num_speculative_tokens=3)])
    ),
    "nothing anywhere": lambda: study(*prompts(0, 0)),
    "nothing on general": lambda: study(*prompts(200, 0)),
    "two ks": lambda: study(*idle(1), *idle(3)),
    "a gain without acceptance": lambda: study(*losing(1, 400.0)),
    "general prompts under load": lambda: study(
        *idle(), *arms("alpha-30b", {1: 2.0, 32: 1.2}, "general/code", num_speculative_tokens=1)
    ),
    "the prompt decides": lambda: study(
        *arms("a", {1: 2.0, 32: 1.2}, "general/code"), *arms("a", {1: 1.5, 32: 0.8}, "general/korean")
    ),
    "the prompt changes the size": lambda: study(
        *arms("a", {32: 1.2}, "general/code"), *arms("a", {32: 1.1}, "general/korean")
    ),
    "40 models": lambda: study(*(one for n in range(40) for one in idle(model=f"model-{n}"))),
    "dual-3090": lambda: read_campaign(DATA / "dual-3090"),
    "follow-up": lambda: read_campaign(DATA / "follow-up"),
    "published": published,
    "published without acceptance": lambda: replace(
        published(), figures=tuple(one for one in published().figures if "accept" not in one.metric)
    ),
}


@cache
def page(case: str, language: str = "en") -> Structure:
    return Structure(rendered("prompts", CASES[case](), language))


def text(case: str, language: str = "en") -> str:
    return page(case, language).text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    check_numbers("prompts", CASES[case](), language)


@pytest.mark.parametrize("case", CASES)
def test_both_languages_have_the_same_ids_and_no_block_has_a_blank_line(case: str) -> None:
    found = [page(case, language) for language in LANGUAGES]
    assert found[0].ids == found[1].ids == ["prompts"]
    assert found[0].blank == found[1].blank == []
    assert found[0].links == found[1].links


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("no row", "no acceptance of speculative decoding"),
        ("synthetic only", "Acceptance is known on synthetic prompts only"),
        ("general only", "Acceptance is known on general prompts only"),
        ("alike", "No drafter differs more than 2-fold"),
        ("more on general", "more than 2 times apart"),
        ("less on general", "more than 2 times apart"),
        ("nothing on synthetic", "a misfit drafter cannot be told from an unlucky prompt"),
        ("nothing on synthetic, something on general", "On general prompts it works"),
        ("nothing anywhere", "General prompts were no different"),
        ("nothing on general", "on general prompts practically no draft was accepted"),
        ("two ks", "The larger k, the more is lost"),
        ("the prompt decides", "the prompt decides whether speculation gains or loses"),
        ("the prompt changes the size", "it changes its size"),
        ("published", "none of 199 drafts was accepted"),
        ("published", "At concurrency 32 speculation loses mtp k=1 75 tok/s, mtp k=3 153 tok/s"),
    ],
)
def test_each_case_is_said_in_its_own_words(case: str, words: str) -> None:
    assert words in text(case)


def test_a_verdict_is_bound_to_its_prompt_only_where_acceptance_depends_on_it_and_stays_open_until_loaded() -> None:
    bound = {case for case in CASES if "holds for the synthetic prompt only" in text(case)}
    assert bound == {
        "nothing on synthetic, something on general",
        "emulated",
        "general prompts under load",
        "dual-3090",
        "published",
    }
    still_open = {case for case in CASES if "stays open until general prompts are measured under load" in text(case)}
    assert still_open == bound - {"general prompts under load"}


def test_one_engine_that_answers_both_kinds_is_read_as_the_prompts_doing_when_it_was_measured() -> None:
    said = {case for case in CASES if "one engine answered both kinds of prompt" in text(case)}
    assert "nothing on synthetic, something on general" in said
    assert not said & {"emulated", "dual-3090", "published"}
    assert "only returns that input" in text("emulated")


def test_forty_models_are_counted_and_stand_in_the_table() -> None:
    found = text("40 models")
    before, _, table = found.partition("negative loss is a gain")
    assert "For 40 models" in before
    assert "model-20" not in before
    assert "model-20" in table


def test_printed_figures_keep_the_digits_they_were_printed_with() -> None:
    assert "75.0" not in text("published")
    assert "0.0069" in text("published")
