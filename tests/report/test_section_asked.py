"""Section asked: acceptance asked for against its prediction; nothing where no engine was asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.analysis.study import PUBLISHED, Study
from collector.report.build import read_campaign
from collector.report.words import LANGUAGES
from tests.analysis.arms import pair_of, study_of
from tests.analysis.test_asked import LANES, synthetic
from tests.report.remade import check_numbers, rendered
from tests.report.structure import Structure
from tests.report.test_section_windows import published

DATA = Path(__file__).resolve().parents[2] / "data"


def told(*asked: tuple[float, float], alone: bool = True) -> Study:
    """Return a drafter that loses, and what was asked of the engine beside it: tokens a step and throughput."""
    rows = pair_of({1: 1.6, LANES: 0.6} if alone else {LANES: 0.6}, prefill_mean_s=0.1)
    return study_of(*rows, *(one for tokens, tok_s in asked for one in synthetic({LANES: tok_s}, tokens)))


CASES: dict[str, Callable[[], Study]] = {
    "bracket": lambda: told((3.6, 280.0), (4.0, 400.0), (4.4, 520.0)),
    "only a loss": lambda: told((4.0, 300.0)),
    "a gain below a loss": lambda: told((3.2, 600.0), (4.0, 300.0)),
    "a bound": lambda: told((4.0, 400.0), alone=False),
    "acceptance": lambda: read_campaign(DATA / "acceptance"),
}
NOTHING: dict[str, Callable[[], Study]] = {
    "no row": study_of,
    "real drafts": told,
    "checks failed": lambda: study_of(*pair_of({1: 1.6}), *synthetic({1: 60.0}, 4.0, checks="client_bound")),
    "dual-3090": lambda: read_campaign(DATA / "dual-3090"),
    PUBLISHED: published,
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    check_numbers("asked", CASES[case](), language)
    assert "{: #asked-acceptance }" in rendered("asked", CASES[case](), language)


@pytest.mark.parametrize("case", CASES)
def test_both_languages_have_the_same_ids_and_links_and_no_block_has_a_blank_line(case: str) -> None:
    found = [Structure(rendered("asked", CASES[case](), language)) for language in LANGUAGES]
    assert found[0].ids == found[1].ids
    assert found[0].links == found[1].links
    assert found[0].blank == found[1].blank == []


@pytest.mark.parametrize("case", NOTHING)
def test_an_article_without_such_rows_gets_no_heavier(case: str) -> None:
    assert [rendered("asked", NOTHING[case](), language).strip() for language in LANGUAGES] == ["", ""]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("bracket", "The measured break-even lies between 3.60 tokens (a loss) and 4.40 (a gain)"),
        ("only a loss", "Up to 4.00 tokens it loses; no acceptance gains more than the noise."),
        ("acceptance", "and the computed one within."),
    ],
)
def test_what_is_said_is_what_the_rows_show(case: str, words: str) -> None:
    assert words in Structure(rendered("asked", CASES[case](), "en")).text
