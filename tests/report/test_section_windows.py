"""Section windows: both methods side by side, each number from its rows; nothing where there is one method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from collector.analysis.study import PUBLISHED, Study
from collector.report.build import read_campaign, read_published
from collector.report.words import LANGUAGES
from tests.analysis.arms import arm, pair_of, study_of
from tests.analysis.test_windows import repeated, steady
from tests.report.remade import check_numbers, rendered
from tests.report.structure import Structure

DATA = Path(__file__).resolve().parents[2] / "data"


def published() -> Study:
    found = read_published(DATA / PUBLISHED)
    assert found is not None
    return Study(name=PUBLISHED, figures=found.figures)


def turning() -> Study:
    """A gain over whole stages that is a loss in steady windows."""
    rows = repeated({8: 1.1})
    return study_of(
        *rows,
        *steady([row for row in rows if row.speculation == "off"]),
        *steady([row for row in rows if row.speculation != "off"], 0.8),
    )


def one_sided() -> Study:
    """Even over whole stages, a gain in steady windows."""
    rows = repeated({8: 1.0})
    return study_of(
        *rows,
        *steady([row for row in rows if row.speculation == "off"]),
        *steady([row for row in rows if row.speculation != "off"], 1.3),
    )


CASES: dict[str, Callable[[], Study]] = {
    "once": lambda: study_of(*(rows := pair_of({1: 1.5, 8: 0.8})), *steady(rows, 1.02)),
    "no partner": lambda: study_of(*(rows := arm({8: 100.0})), *steady([*rows, *arm({16: 110.0})])),
    "turning": turning,
    "one-sided": one_sided,
    "two prompts": lambda: study_of(
        *(rows := [*arm({8: 100.0}), *arm({8: 90.0}, prompt_set="general/code")]), *steady(rows)
    ),
    "without latency": lambda: study_of(
        *(rows := [replace(row, ttft_mean_s=None, request_decode_rate_tok_s=None) for row in arm({8: 1.0})]),
        *steady(rows),
    ),
    "windows": lambda: read_campaign(DATA / "windows"),
}
NOTHING: dict[str, Callable[[], Study]] = {
    "no row": study_of,
    "whole stages": lambda: study_of(*pair_of({1: 1.5})),
    "steady": lambda: study_of(*steady(pair_of({1: 1.5}))),
    "checks failed": lambda: study_of(*(rows := arm({8: 100.0})), *steady(rows, checks="not_steady")),
    "dual-3090": lambda: read_campaign(DATA / "dual-3090"),
    "published": published,
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    check_numbers("windows", CASES[case](), language)
    assert "{: #windows }" in rendered("windows", CASES[case](), language)


@pytest.mark.parametrize("case", CASES)
def test_both_languages_have_the_same_ids_and_links_and_no_block_has_a_blank_line(case: str) -> None:
    found = [Structure(rendered("windows", CASES[case](), language)) for language in LANGUAGES]
    assert found[0].ids == found[1].ids
    assert found[0].links == found[1].links
    assert found[0].blank == found[1].blank == []


@pytest.mark.parametrize("case", NOTHING)
def test_an_article_without_both_methods_gets_no_heavier(case: str) -> None:
    assert [rendered("windows", NOTHING[case](), language).strip() for language in LANGUAGES] == ["", ""]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("turning", "turns into a loss, or back, with the window method: 1 times"),
        ("one-sided", "only one of the methods shows a difference"),
        ("windows", "Speculation gains and loses at the same concurrencies by either method."),
        ("windows", "No difference is large enough to change a setting for."),
        ("windows", "The decode rate of a request does differ"),
        ("no partner", "Steady rows without a whole stage to stand beside are not shown here: 1."),
    ],
)
def test_what_is_said_is_what_the_rows_show(case: str, words: str) -> None:
    assert words in Structure(rendered("windows", CASES[case](), "en")).text
