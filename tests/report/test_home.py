"""The home page and the list of campaigns: the best study answers first, and every number follows from its rows."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from collector.analysis.study import Study
from collector.report.build import TEMPLATES, loader_of
from collector.report.environment import strict_environment
from collector.report.home import home
from collector.report.words import LANGUAGES, Words
from tests.analysis.arms import arm, pair_of, study_of
from tests.report.message_cases import CASES
from tests.report.remade import Numbers
from tests.report.structure import Structure

LOADER = loader_of(TEMPLATES)
PAGES = ("index.md", "campaigns/index.md")


def named(name: str, provenance: str, ratios: dict[int, float]) -> Study:
    rows = pair_of(ratios, provenance=provenance, campaign=name)
    return Study(name=name, rows=tuple(rows))


SITES: dict[str, tuple[Study, ...]] = {
    "nothing": (),
    "no rows": (Study(name="new"),),
    "one of each": (
        CASES["published"](),
        named("emulated", "emulated", {1: 1.6, 8: 0.8}),
        named("measured", "measured", {1: 1.2, 8: 0.9}),
    ),
    "emulated": (named("a", "emulated", {1: 1.6, 8: 0.8}), named("b", "emulated", {1: 1.6})),
    "published": (CASES["published"](),),
    "committed": (CASES["dual-3090"](), CASES["follow-up"](), CASES["published"]()),
    "many models": (CASES["40 models"](),),
    "nothing to compare": (study_of(*arm({1: 50.0})),),
    "all failed": (CASES["all failed"](),),
    "dtype and link": (CASES["dtype and link"](),),
    "two k": (CASES["two k"](),),
    "hostile": (CASES["hostile"](),),
}


@cache
def pages(site: str, language: str = "en") -> dict[str, str]:
    return home(SITES[site], Words(language), strict_environment(LOADER, language))


def text(site: str, page: str = "index.md", language: str = "en") -> str:
    return Structure(pages(site, language)[page].split("---\n", 2)[2]).text


@pytest.mark.parametrize("site", SITES)
def test_every_site_has_both_pages_with_front_matter_first(site: str) -> None:
    for language in LANGUAGES:
        assert tuple(pages(site, language)) == PAGES
        for page in pages(site, language).values():
            assert page.startswith('---\ntitle: "')


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("site", SITES)
def test_no_digit_stands_without_a_mark_and_no_block_has_a_blank_line(site: str, page: str) -> None:
    for language in LANGUAGES:
        body = pages(site, language)[page].split("---\n", 2)[2]
        dated = "".join(
            part.partition("</time>")[2] if place else part for place, part in enumerate(body.split("<time"))
        )
        assert Numbers(dated).bare == []
        assert Structure(body).blank == []


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("site", SITES)
def test_both_languages_show_the_same_numbers_links_and_ids(site: str, page: str) -> None:
    ko, en = (pages(site, language)[page].split("---\n", 2)[2] for language in LANGUAGES)
    assert Structure(ko).ids == Structure(en).ids
    assert Structure(ko).links == Structure(en).links
    shown = [Counter((shown, at.get("data-rows")) for at, shown in Numbers(one).marked) for one in (ko, en)]
    assert shown[0] == shown[1]


def test_what_was_measured_answers_before_what_was_emulated_and_published() -> None:
    page = pages("one of each")["index.md"]
    order = [
        page.index(f'<div class="provenance provenance-{name}">') for name in ("measured", "emulated", "published")
    ]
    assert order == sorted(order)
    assert "No campaign has been measured" not in page


@pytest.mark.parametrize(
    ("site", "words"),
    [
        ("emulated", "What comes first is an emulation computed by the built-in engine: no hardware was measured."),
        ("committed", "What comes first is an emulation computed by the built-in engine: no hardware was measured."),
        ("published", "The figures below were published elsewhere."),
        ("nothing", "There is no campaign yet. These commands make one:"),
        ("nothing to compare", "No measurement answers it yet."),
        ("all failed", "No configuration ran."),
        ("many models", "The campaign's page has the verdicts on 40 models."),
        (
            "two k",
            "of those measured, k=1 has the highest ratio, at concurrency 1 0.90× (k=3: 0.70×). None of them gains.",
        ),
        ("dtype and link", "At 8, the one pair compared changes by +25.0%."),
        ("committed", "muse-glimmer-30b: up to 1: on, from 8: off"),
    ],
)
def test_the_home_page_says_what_it_rests_on(site: str, words: str) -> None:
    assert words in text(site)


def test_of_equals_the_study_that_answers_more_questions_comes_first() -> None:
    shown = text("committed")
    assert shown.index("dual-3090") < shown.index("follow-up")


def test_every_answer_leads_to_the_section_that_proves_it() -> None:
    links = Structure(pages("committed")["index.md"].split("---\n", 2)[2]).links
    for section in ("speculation", "drafters", "kv-cache", "interconnect", "recommendations"):
        assert f"campaigns/dual-3090/#{section}" in links
        assert f"campaigns/published/#{section}" in links


def test_the_list_of_campaigns_says_which_provenance_has_none_yet() -> None:
    shown = text("committed", "campaigns/index.md")
    assert "There is no campaign measured on real hardware yet" in shown
    assert "There is no emulated campaign" not in shown
    links = Structure(pages("committed")["campaigns/index.md"].split("---\n", 2)[2]).links
    assert {"dual-3090/", "follow-up/", "published/"} <= set(links)
