"""Section speculation: every branch renders in both languages, and every number in it follows from the rows."""

from __future__ import annotations

import pytest

from collector.report.words import LANGUAGES
from tests.report.message_cases import CASES, held, page, text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    held("speculation", case, language)


@pytest.mark.parametrize("case", CASES)
def test_both_languages_have_the_same_ids_and_links_and_no_block_has_a_blank_line(case: str) -> None:
    found = [page("speculation", case, language) for language in LANGUAGES]
    assert found[0].ids == found[1].ids
    assert found[0].ids[0] == "speculation"
    assert found[0].blank == found[1].blank == []
    assert found[0].links == found[1].links


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("empty", "There are no rows, so there is nothing to compare."),
        ("off only", "No configuration speculates."),
        ("on only", "No measurement with speculation has a partner without it"),
        ("on failed", "the side with it did not run: oom_weights"),
        ("turns", "A: a gain at 1, a loss at 8. Nothing was measured in between."),
        ("turns at neighbours", "A: a gain at 3, a loss at 4. These are neighbours: it is placed to one step."),
        (
            "turns within noise",
            (
                "A: a gain at 1, a loss at 8. At 3, 4, in between, the difference is within noise. "
                "The means cross between 3 and 4 (an estimate, to one step)."
            ),
        ),
        (
            "turns over an even point",
            "A: a gain at 1, a loss at 32. At 8, in between, the difference is too small to count.",
        ),
        ("rises", "A: a loss at 1, a gain at 8."),
        ("gains", "No line turns from one side to the other once"),
        ("a stage failed its checks", "not comparable: the side with it failed a check: throttled"),
        ("without falls", "itself falls from 300.0 to 280.0 tok/s between 16 and 32 (−6.7%)"),
        ("without falls", "part of it is the shrinking base"),
        ("with rises in a loss", "itself still rises between 16 and 32: A +5.0% (without +33.3%)"),
        ("with rises in a loss", "the side without it grows more"),
        ("prompts", "Conditions of the chart and table below: prompts general/code."),
        ("two k", "Measurements of different series are not compared"),
        ("prompts", "Comparisons under other conditions stand at the end"),
        ("published", "not published"),
        ("published", "itself falls from 300.7 to 286.1 tok/s between 16 and 32 (−4.9%)"),
        ("published without ratios", "No speculation ratio was published."),
    ],
)
def test_each_case_is_said_in_its_own_words(case: str, words: str) -> None:
    assert words in text("speculation", case)
