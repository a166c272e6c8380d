"""Section recommendations: every branch renders in both languages, and every number in it follows from the rows."""

from __future__ import annotations

import pytest

from collector.report.words import LANGUAGES
from tests.report.message_cases import CASES, held, page, text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    held("recommendations", case, language)


@pytest.mark.parametrize("case", CASES)
def test_both_languages_have_the_same_ids_and_links_and_no_block_has_a_blank_line(case: str) -> None:
    found = [page("recommendations", case, language) for language in LANGUAGES]
    assert found[0].ids == found[1].ids
    assert found[0].ids[0] == "recommendations"
    assert found[0].blank == found[1].blank == []
    assert found[0].links == found[1].links


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("empty", "There is no pair to compare, so there is no verdict"),
        ("turns", "up to 1: on, from 8: off (mtp k=4): ratio 0.40–1.70×. It turns somewhere between 1 and 8."),
        ("gains", "on (mtp k=4): ratio 1.40–2.10×"),
        ("loses", "off (mtp k=4): ratio 0.70–0.90×"),
        ("even", "either way (mtp k=4)"),
        ("rises", "up to 1: off, from 8: on"),
        ("goes up and down", "depends on concurrency"),
        ("nothing accepted", "withheld (mtp k=4): ratio 0.70–0.90×. On the prompt synthetic acceptance is 0.0000"),
        ("nothing accepted", "No other prompt was measured: no verdict."),
        ("nothing accepted here", "The same method reaches 0.5000 on other prompts"),
        ("turns", "nothing can be said about significance"),
        (
            "two series",
            "repeat error (without speculation 1.00%, with speculation not known and taken as 2.5%) times 2",
        ),
        ("repeats disagree", "either way (mtp k=4)"),
        ("dtype and link", "The attention backend changes with it, from FLASH_ATTN to FLASHINFER."),
        ("dtype and link", "Output quality was not evaluated."),
        ("dtype and link", "; speculation off, KV fp8_e5m2 (kv_dtype"),
        ("dtype loses", "KV cache: auto (speculation off)"),
        ("throughput stops growing", "16 at most."),
        ("turns", "At concurrency 1 (synthetic prompts"),
        ("turns", "For a load that varies from 1 to 32 it loses least of those measured throughout"),
        (
            "turns",
            "Beyond that another one was chosen, so --max-num-seqs 1 limits the sequences; not measured at this limit.",
        ),
        ("gains", "Set a TTFT target first"),
        ("prompts", "up to 1: on, from 8: off (mtp k=4: synthetic)"),
        ("emulated", "These verdicts come from an emulation"),
        ("published", "They apply the same rules to the published figures"),
        ("published", "TTFT was published as 4.2 s to 6.1 s"),
        ("dual-3090", '--speculative-config "{\\"method\\":\\"dflash\\"'),
    ],
)
def test_each_case_is_said_in_its_own_words(case: str, words: str) -> None:
    assert words in text("recommendations", case)
