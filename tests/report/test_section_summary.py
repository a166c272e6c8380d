"""Section summary: every branch renders in both languages, and every number in it follows from the rows."""

from __future__ import annotations

import pytest

from collector.report.words import LANGUAGES
from tests.report.message_cases import CASES, held, page, text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    held("summary", case, language)


@pytest.mark.parametrize("case", CASES)
def test_both_languages_have_the_same_ids_and_links_and_no_block_has_a_blank_line(case: str) -> None:
    found = [page("summary", case, language) for language in LANGUAGES]
    assert found[0].ids == found[1].ids
    assert found[0].ids[0] == "summary"
    assert found[0].blank == found[1].blank == []
    assert found[0].links == found[1].links


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("empty", "There are no rows yet."),
        ("all failed", "No configuration ran. Failures on record: 1."),
        (
            "off only",
            "The highest throughput measured is that of alpha-30b (speculation off) at concurrency 8: 300.0 tok/s",
        ),
        ("on only", "has a partner without it, so there is no ratio"),
        (
            "all checks failed",
            "No row has a throughput that may be compared. Rows that failed a check or hold no throughput: 2.",
        ),
        ("turns", "raises throughput at concurrency 1 to 1.70× (50.0 → 85.0 tok/s) but cuts it at 32 to 0.40×"),
        ("turns", "costs more than half of the throughput under load"),
        ("turns", "It breaks even between 1 and 8. Nothing was measured in between."),
        ("turns at neighbours", "It breaks even between 3 and 4. These are neighbours: it is placed to one step."),
        (
            "turns within noise",
            (
                "It breaks even between 1 and 8. At 3, 4, in between, the difference is within noise. "
                "The means cross between 3 and 4 (an estimate, to one step)."
            ),
        ),
        ("turns a little", "this setting costs throughput under load"),
        ("gains", "lowers throughput at no concurrency compared by more than the noise: at 1 the ratio is 2.10×"),
        ("loses", "raises throughput at no concurrency compared"),
        ("even", "does not change throughput"),
        ("rises", "loses at concurrency 1, with a ratio of 0.70×"),
        ("goes up and down", "gains at some concurrencies and loses at others"),
        ("one concurrency", "No other concurrency was compared."),
        ("two gain", "None of the 2 ways of speculating that were compared lowers throughput by more than the noise."),
        ("two lose", "None of the 2 ways of speculating that were compared raises throughput by more than the noise."),
        (
            "two are even",
            "None of the 2 ways of speculating that were compared changes throughput by more than the noise.",
        ),
        ("one gains, one loses", "Whether speculative decoding pays depends on the model"),
        ("one gains, one loses", "Each of the 2 models behaves in a way of its own."),
        ("repeats", "measured 2 times or more"),
        ("some repeats", "only some repeated"),
        ("turns", "measured once each, spread not known"),
        (
            "dtype and link",
            "A KV cache in fp8_e5m2 (speculation off) at concurrency 8 changes throughput by +18.0% (one pair).",
        ),
        ("dtypes differ", "changes throughput by −10.0% to +20.0% (2 pairs)"),
        ("40 models", "of 40 ways, 40"),
        ("nothing accepted", "raises throughput at no concurrency compared"),
        ("follow-up", "5 prompt sets"),
        ("published", "raises throughput at concurrency 1 to 1.75× (57.7 → 101.0 tok/s)"),
        ("published", "No ratio in between was published"),
        ("published without ratios", "No speculation ratio was published."),
    ],
)
def test_each_case_is_said_in_its_own_words(case: str, words: str) -> None:
    assert words in text("summary", case)
