"""Section scope: every branch renders in both languages, and every number in it follows from the rows."""

from __future__ import annotations

import pytest

from collector.report.words import LANGUAGES
from tests.report.message_cases import CASES, held, page, text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    held("scope", case, language)


@pytest.mark.parametrize("case", CASES)
def test_both_languages_have_the_same_ids_and_links_and_no_block_has_a_blank_line(case: str) -> None:
    found = [page("scope", case, language) for language in LANGUAGES]
    assert found[0].ids == found[1].ids
    assert found[0].ids[0] == "scope"
    assert found[0].blank == found[1].blank == []
    assert found[0].links == found[1].links


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("empty", "There are no conclusions yet."),
        ("turns", "Between 1 and 8: measuring there would place the break-even more closely."),
        ("turns", "Repeats: every cell was measured once"),
        ("some repeats", "Repeats: 2 of 4 cells were measured once"),
        (
            "repeats",
            "3 cells with speculation were repeated; their fastest and slowest measurements differ by 0.40% to 0.40%",
        ),
        ("two series", "2 cells without speculation were measured with the same settings in two series"),
        ("two series", "No cell with speculation was measured twice, so the repeat error there is not known."),
        ("turns", "Nothing was measured twice, so the repeat error is not known."),
        ("nothing accepted here", "Load: prompt sets not driven to the highest concurrency: general/code."),
        (
            "nothing accepted here",
            "Partners: prompt sets without a ratio, never measured without speculation: general/code.",
        ),
        ("turns", "NVLink: there is no pair with and without it."),
        ("turns", "Energy: no row has a value."),
        ("a stage failed its checks", "Checks: rows that failed one and are to be measured again: 2."),
        ("turns", "Output quality: only speed was measured."),
        ("published", "differ by 0.24% to 2.26% (1.12% on average)"),
        ("published", "Against noise: 2.0×."),
        ("published", "no ratio was published."),
        ("dual-3090", "tells nothing of the repeat error of real hardware"),
    ],
)
def test_each_case_is_said_in_its_own_words(case: str, words: str) -> None:
    assert words in text("scope", case)
