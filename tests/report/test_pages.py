"""Pages: compared whole with tests/golden, and held against texts that try to break them.

UPDATE_GOLDEN=1 pytest tests/report/test_pages.py writes the golden pages again; read the difference.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import fields, replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import markdown  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.core.failures import CATEGORIES
from collector.core.rows import Failure, Row
from collector.core.schema import TABLES
from collector.core.units import METRICS, UNITS_KO
from collector.report import meanings_ko
from collector.report.build import TEMPLATES, campaign_names, loader_of, read_campaign, read_published
from collector.report.pages import Campaign, pages
from collector.report.published_files import Published
from collector.report.text import CAUSE_LIMIT
from collector.report.words import LANGUAGES
from tests.report import published_sample, sample
from tests.report.test_figures import NAMES

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
LOADER = loader_of(TEMPLATES)


def site(*campaigns: Campaign, language: str = "en", published: Published | None = None) -> dict[str, str]:
    return pages(campaigns, LOADER, language, published)


def page(campaign: Campaign, language: str = "en", name: str = "index") -> str:
    """Return a page of a campaign: its article, its cells or its data."""
    return site(campaign, language=language)[f"campaigns/{campaign.name}/{name}.md"]


def campaign_of(rows: list[Row], failures: list[Failure] | None = None) -> Campaign:
    return Campaign(name="sample-dual", rows=tuple(rows), failures=tuple(failures or ()))


def html(text: str) -> str:
    """Render as MkDocs does, front matter aside."""
    body = text.split("---\n", 2)[2]
    return str(markdown.markdown(body, extensions=["attr_list", "toc", "tables", "fenced_code"]))


class Structure(HTMLParser):
    """The elements of a page with their ids and links, and its text, apart."""

    def __init__(self, page_html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, str | None, str | None]] = []
        self.words: list[str] = []
        self.feed(page_html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.elements.append((tag, named.get("id"), named.get("href")))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


# --- golden pages ----------------------------------------------------------------------------------------


def approved(text: str, name: str) -> str:
    """Return the golden page, written anew first where that is asked for."""
    golden = GOLDEN / f"{name}.md"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    return golden.read_text(encoding="utf-8")


GOLDEN_PAGES = {
    "home": "index.md",
    "campaigns": "campaigns/index.md",
    "sample-dual": "campaigns/sample-dual/index.md",
    "sample-dual-cells": "campaigns/sample-dual/cells.md",
    "sample-dual-data": "campaigns/sample-dual/data.md",
    "sample-emulated": "campaigns/sample-emulated/index.md",
    "published": "published.md",
    "method": "method.md",
    "glossary": "glossary.md",
    "not-measured": "not-measured.md",
    "source": "source.md",
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", GOLDEN_PAGES)
def test_pages_are_as_they_were_read_and_approved(name: str, language: str) -> None:
    text = filled(language)[GOLDEN_PAGES[name]]
    assert text == approved(text, f"{name}.{language}")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("name", "path"), [("home-empty", "index.md"), ("published-empty", "published.md")])
def test_a_site_without_any_data_is_as_it_was_read_and_approved(name: str, path: str, language: str) -> None:
    text = site(language=language)[path]
    assert text == approved(text, f"{name}.{language}")


@cache
def committed(language: str) -> dict[str, str]:
    """Return the pages of what is in data/."""
    campaigns = [read_campaign(ROOT / "data" / name) for name in campaign_names(ROOT / "data")]
    return site(*campaigns, language=language, published=read_published(ROOT / "data" / "published"))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("study", ["published", "dual-3090"])
def test_the_articles_of_the_reference_are_as_they_were_read_and_approved(study: str, language: str) -> None:
    text = committed(language)[f"campaigns/{study}/index.md"]
    assert text == approved(text, f"article-{study}.{language}")


@pytest.mark.parametrize("campaign", [sample.dual(), sample.emulated()], ids=lambda one: one.name)
def test_the_samples_on_disk_are_what_the_factory_makes(campaign: Campaign) -> None:
    """`python -m tests.report.sample` writes them again."""
    for name, text in sample.files(campaign).items():
        assert (sample.FOLDER / campaign.name / name).read_text(encoding="utf-8") == text


# --- both languages --------------------------------------------------------------------------------------

FIGURE = re.compile(r"\d+(?:\.\d+)?")
DATA_ELEMENT = re.compile(r"<data .*?</data>")


@cache
def filled(language: str) -> dict[str, str]:
    return site(sample.dual(), sample.emulated(), language=language, published=published_sample.published())


def texts_of(made: dict[str, str]) -> dict[str, str]:
    """Return the pages alone: the data of charts are files beside them."""
    return {name: text for name, text in made.items() if name.endswith(".md")}


def test_both_languages_show_the_same_figures_on_every_page() -> None:
    ko, en = (texts_of(filled(language)) for language in LANGUAGES)
    for name in ko:
        figures = FIGURE if name == "published.md" else DATA_ELEMENT
        assert Counter(figures.findall(ko[name])) == Counter(figures.findall(en[name])), name


def test_the_articles_of_the_reference_show_the_same_figures_in_both_languages() -> None:
    for study in ("published", "dual-3090"):
        ko, en = (DATA_ELEMENT.findall(committed(one)[f"campaigns/{study}/index.md"]) for one in LANGUAGES)
        assert Counter(ko) == Counter(en)


#: What a page is built of; words may be emphasised or set in code in one language alone.
BUILT_OF = {"h1", "h2", "h3", "h4", "table", "tr", "th", "td", "figure", "svg", "path", "rect", "data", "details", "dt"}


def test_both_languages_have_the_same_pages_ids_and_links() -> None:
    ko, en = (texts_of(filled(language)) for language in LANGUAGES)
    assert list(ko) == list(en)
    for name in ko:
        found = [
            [one for one in Structure(html(text[name])).elements if one[0] in BUILT_OF or one[1] or one[2]]
            for text in (ko, en)
        ]
        assert found[0] == found[1], name


QUOTED = r'"((?:[^"\\]|\\.)*)"'


def test_the_words_of_the_templates_hold_no_figures() -> None:
    """A typed figure goes stale; 1 is the ratio of no difference, 0 the value that a missing one is not."""
    for template in sorted(TEMPLATES.rglob("*.j2")):
        text = template.read_text(encoding="utf-8")
        pairs = re.findall(rf"\bt\(\s*{QUOTED},\s*{QUOTED}", text)
        assert len(pairs) == len(re.findall(r"\bt\(", text)), template.name
        words = (re.sub(r"<code>.*?</code>", "", word) for pair in pairs for word in pair)
        figures = {figure for word in words for figure in FIGURE.findall(NAMES.sub("", word))}
        assert figures <= {"0", "1"}, template.name


@pytest.mark.parametrize("table", TABLES)
def test_every_column_has_a_korean_meaning_and_no_meaning_is_stale(table: str) -> None:
    assert set(meanings_ko.MEANINGS[table]) == {item.name for item in fields(TABLES[table])}


def test_korean_words_are_complete_and_none_is_stale() -> None:
    columns = [item.metadata for record in TABLES.values() for item in fields(record)]
    assert set(meanings_ko.CATEGORIES) == set(CATEGORIES)
    assert set(meanings_ko.GROUPS) == {one["group"] for one in columns}
    sources = {one["source"] for one in columns if re.fullmatch(r"[a-z][a-z' +1,]*", one["source"])}
    assert set(meanings_ko.SOURCES) >= sources - {"collector"}
    assert set(meanings_ko.SOURCES) <= {one["source"] for one in columns}
    symbols = {"", "s", "ms", "tok/s", "tok/J", "MiB", "GiB", "J", "W", "MHz", "°C", "bytes", "%"}
    units = {one["unit"] for one in columns} | {metric.unit for metric in METRICS}
    assert units - symbols <= set(UNITS_KO)


def test_every_displayed_metric_is_a_column_of_a_row() -> None:
    assert {metric.column for metric in METRICS} <= {item.name for item in fields(Row)}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_dictionary_names_every_column_and_category(language: str) -> None:
    elements = Structure(html(pages([], LOADER, language)["dictionary.md"])).elements
    ids = {named for _, named, _ in elements}
    for table, record in TABLES.items():
        assert {f"{table}-{item.name}" for item in fields(record)} <= ids
    assert {f"category-{name}" for name in CATEGORIES} <= ids


# --- campaigns that lack something, or have much of it ---------------------------------------------------

SPECULATING: dict[str, Any] = {"speculation": "mtp", "num_speculative_tokens": 4, "tokens_per_step": 3.4}
#: The anchors of an article's sections: they stand on every article, whatever it has.
ANCHORS = [
    "summary", "setup", "speculation", "causes", "drafters", "prompts", "kv-cache", "interconnect", "latency", "energy",
    "failures", "recommendations", "scope",
]  # fmt: skip


def bare(**changes: Any) -> Row:
    """Return a row that has nothing but what every row must have."""
    row = sample.make_row(**changes)
    missing: dict[str, Any] = {item.name: None for item in fields(row) if item.default is None}
    return replace(row, **missing)


LACKING = {
    "nothing": campaign_of([]),
    "all failed": campaign_of([], [sample.make_failure()]),
    "one row": campaign_of([sample.make_row()]),
    "one row with speculation": campaign_of([sample.make_row(**SPECULATING)]),
    "no pair": sample.emulated(),
    "only failed checks": campaign_of(
        [sample.make_row(checks="throttled"), sample.make_row(checks="token_mismatch", **SPECULATING)]
    ),
    "missing columns": campaign_of([bare(), bare(**SPECULATING), bare(kv_cache_dtype="fp8_e5m2")]),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", LACKING)
def test_an_article_has_all_sections_and_says_what_it_lacks(name: str, language: str) -> None:
    made = texts_of(site(LACKING[name], language=language))
    structure = Structure(html(made[f"campaigns/{LACKING[name].name}/index.md"]))
    if name != "nothing":
        assert [named for tag, named, _ in structure.elements if tag == "h2"] == ANCHORS
    for path, text in made.items():
        words = " ".join(Structure(html(text)).words)
        assert not re.search(r"\b(None(?! of)|nan|inf|undefined)\b", words), path


def test_a_campaign_in_which_everything_failed_shows_the_failures_and_no_chart() -> None:
    text = page(LACKING["all failed"])
    assert "CUDA out of memory" in text
    assert "<svg" not in text


def test_a_row_with_a_failed_check_feeds_no_figure() -> None:
    row, other = LACKING["only failed checks"].rows
    figures = DATA_ELEMENT.findall(page(LACKING["only failed checks"]))
    assert not [one for one in figures if 'class="f"' in one and (row.row_id in one or other.row_id in one)]


def test_rows_of_each_provenance_are_marked_as_such() -> None:
    for provenance in ("measured", "emulated", "published"):
        text = page(campaign_of([sample.make_row(provenance=provenance)]))
        assert f'<div class="provenance provenance-{provenance}" role="note">' in text


def test_configurations_that_differ_only_in_flags_do_not_look_alike() -> None:
    text = page(campaign_of([sample.make_row(), sample.make_row(extra_flags="--enforce-eager")]), name="cells")
    headings = re.findall(r"^## (.*?) \{", text, re.MULTILINE)
    assert len(set(headings)) == len(headings) == 2


def many(models: int, configurations: int) -> Campaign:
    """Return a campaign of so many models, so many configurations of each, on and off at two concurrencies."""
    return campaign_of(
        [
            sample.make_row(model=f"model-{model}", max_num_seqs=seqs, concurrency=c, requests=4 * c, **way)
            for model in range(models)
            for seqs in range(1, configurations + 1)
            for way in ({}, SPECULATING)
            for c in (1, 8)
        ]
    )


#: A page that is heavier than this in Markdown takes a phone seconds to lay out; the cells page has every column.
ARTICLE_LIMIT, CELLS_LIMIT = 3_000_000, 6_000_000


@pytest.mark.parametrize("campaign", [many(40, 1), many(1, 150)], ids=["40 models", "300 configurations"])
def test_a_large_campaign_gives_pages_that_can_be_read(campaign: Campaign) -> None:
    article, cells = page(campaign), page(campaign, name="cells")
    assert len(article.encode()) < ARTICLE_LIMIT
    assert len(cells.encode()) < CELLS_LIMIT
    summary = article.split("{: #summary }")[1].split("{: #setup }")[0]
    assert summary.count('class="name"') < 40


# --- texts that try to break a page ----------------------------------------------------------------------

HOSTILE = (
    "<script>alert(1)</script>",
    "</code></td></tr></table></div># heading",
    "a | b | c",
    "`code` ``` ~~~",
    "first\n\n# second\n\n- third",
    "```\nfenced\n```",
    "[link](javascript:alert(1)) ![image](http://example.org/x.png)",
    "&lt;b&gt; &amp; &#60;script&#62;",
    "{{ config }} {% raw %} {: #top .x }",
    "\u202eright to left\u202c \u2066isolate\u2069",
    "\x00\x02wzxhzdk:0\x03 \x1b[31m",
    '" onmouseover="alert(1)',
    "x\u2028y\u2029z\x85w",
    "ünïcödé 한국어 עברית",
    "/",
)


def with_text(text: str) -> Campaign:
    """Put a text into every place that a plan, an engine or a log fills."""
    row = sample.make_row(kv_cache_dtype="auto")
    columns = ("model", "model_path", "image", "attention_backend", "gpu_model", "prompt_set")
    told: dict[str, Any] = dict.fromkeys(columns, f"z{text}")  # z: lines are ordered by what they hold
    other = replace(
        sample.make_row(extra_flags="y", speculation="mtp", num_speculative_tokens=1),
        **told,
        extra_flags=text,
        drafter=text,
        checks_not_run="x",
    )
    failure = sample.make_failure(cause=text, log=text, phase=text, model=text, nvlink=text)
    failure = replace(failure, failure_id="f", configuration_id="g")
    filled = campaign_of([row, replace(row, **told, row_id="b", configuration_id="b"), other], [failure])
    return replace(filled, plan_text=f"a\n\n{text}\n", host_text=json.dumps({"a": text}))


@cache
def tame_elements() -> dict[str, list[tuple[str, str | None, str | None]]]:
    return {name: elements(text) for name, text in texts_of(site(with_text("tame"))).items()}


def elements(text: str) -> list[tuple[str, str | None, str | None]]:
    """Return the elements of a page; a drawing breaks its labels by their length."""
    return Structure(html(re.sub(r"(<svg\b[^>]*>).*?</svg>", r"\1</svg>", text, flags=re.DOTALL))).elements


def assert_unbroken(text: str) -> None:
    for name, found in texts_of(site(with_text(text))).items():
        assert elements(found) == tame_elements()[name], name
        assert not [sign for sign in found if sign in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\x00\x1b"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_changes_no_element_of_the_page(text: str) -> None:
    assert_unbroken(text)


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_categories=()), min_size=1, max_size=60).filter(lambda text: text.strip()))
def test_no_text_changes_an_element_of_the_page(text: str) -> None:
    assert_unbroken(text)


def test_a_text_is_shown_as_it_was_said() -> None:
    said = 'ValueError: "<x>" & `y` | {z}'
    words = Structure(html(page(campaign_of([], [sample.make_failure(cause=said)])))).words
    assert said in words


def test_unseen_characters_are_made_visible() -> None:
    assert "⟨U+202E⟩evil" in page(campaign_of([], [sample.make_failure(cause="\u202eevil")]))


def test_a_long_cause_is_cut() -> None:
    text = page(campaign_of([], [sample.make_failure(cause="x" * 10_000)]))
    assert "x" * CAUSE_LIMIT + "…" in text
    assert "x" * (CAUSE_LIMIT + 1) not in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_html_block_has_a_blank_line(language: str) -> None:
    """Markdown would end the block there."""
    for name, text in filled(language).items():
        depth = 0
        for number, line in enumerate(text.split("\n"), start=1):
            depth += len(re.findall(r"<(?:div|figure|details|dl)\b", line))
            depth -= len(re.findall(r"</(?:div|figure|details|dl)>", line))
            assert line.strip() or depth == 0, f"{name}, line {number}"
