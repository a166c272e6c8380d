"""Pages: compared whole with tests/golden, and held against texts that try to break them.

UPDATE_GOLDEN=1 pytest tests/report/test_pages.py writes the golden pages again; read the difference.
"""

from __future__ import annotations

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
from jinja2 import FileSystemLoader

from collector.core.failures import CATEGORIES
from collector.core.rows import Failure, Row
from collector.core.schema import TABLES
from collector.core.units import METRICS, UNITS_KO
from collector.report import meanings_ko
from collector.report.build import TEMPLATES
from collector.report.pages import LANGUAGES, Campaign, pages
from collector.report.text import CAUSE_LIMIT
from tests.report import published_sample, sample

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LOADER = FileSystemLoader(TEMPLATES)


def page(campaign: Campaign, language: str = "en") -> str:
    return pages([campaign], LOADER, language)[f"campaigns/{campaign.name}.md"]


def campaign_of(rows: list[Row], failures: list[Failure] | None = None) -> Campaign:
    return Campaign(
        name="sample-dual",
        rows=tuple(rows),
        failures=tuple(failures or ()),
        positions=(),
        plan_text=None,
        host_text=None,
    )


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

GOLDEN_PAGES = {
    "home": ("index.md", True),
    "home-empty": ("index.md", False),
    "campaigns": ("campaigns/index.md", True),
    "sample-dual": ("campaigns/sample-dual.md", True),
    "sample-emulated": ("campaigns/sample-emulated.md", True),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", GOLDEN_PAGES)
def test_pages_are_as_they_were_read_and_approved(name: str, language: str) -> None:
    path, filled = GOLDEN_PAGES[name]
    text = pages([sample.dual(), sample.emulated()] if filled else [], LOADER, language)[path]
    golden = GOLDEN / f"{name}.{language}.md"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


#: Campaigns, figures.
PUBLISHED_PAGES = {
    "published": (True, True),
    "published-no-campaign": (False, True),
    "published-empty": (False, False),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", PUBLISHED_PAGES)
def test_pages_of_published_figures_are_as_they_were_read_and_approved(name: str, language: str) -> None:
    filled, figures = PUBLISHED_PAGES[name]
    campaigns = [sample.dual(), sample.emulated()] if filled else []
    text = pages(campaigns, LOADER, language, published_sample.published() if figures else None)["published.md"]
    golden = GOLDEN / f"{name}.{language}.md"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("campaign", [sample.dual(), sample.emulated()], ids=lambda one: one.name)
def test_the_samples_on_disk_are_what_the_factory_makes(campaign: Campaign) -> None:
    """`python -m tests.report.sample` writes them again."""
    for name, text in sample.files(campaign).items():
        assert (sample.FOLDER / campaign.name / name).read_text(encoding="utf-8") == text


# --- both languages --------------------------------------------------------------------------------------

FIGURE = re.compile(r"\d+(?:\.\d+)?")


def filled(language: str) -> dict[str, str]:
    return pages([sample.dual(), sample.emulated()], LOADER, language, published_sample.published())


@pytest.mark.parametrize(
    "name", ["index.md", "published.md", "campaigns/sample-dual.md", "campaigns/sample-emulated.md"]
)
def test_both_languages_show_the_same_figures(name: str) -> None:
    ko, en = (filled(language)[name] for language in LANGUAGES)
    assert Counter(FIGURE.findall(ko)) == Counter(FIGURE.findall(en))


def test_both_languages_have_the_same_pages_ids_and_links() -> None:
    ko, en = (filled(language) for language in LANGUAGES)
    assert list(ko) == list(en)
    for name in ko:
        assert Structure(html(ko[name])).elements == Structure(html(en[name])).elements


def test_the_words_of_the_templates_hold_no_figures() -> None:
    """A typed figure goes stale; 1 is the ratio of no difference, 0 the value that a missing one is not."""
    for template in sorted(TEMPLATES.glob("*.j2")):
        text = template.read_text(encoding="utf-8")
        pairs = re.findall(r'\bt\(\s*"([^"]*)",\s*"([^"]*)"', text)
        assert len(pairs) == len(re.findall(r"\bt\(", text))
        figures = {figure for pair in pairs for words in pair for figure in FIGURE.findall(words)}
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
    symbols = {"", "s", "ms", "tok/s", "GiB", "J", "W", "MHz", "°C", "bytes", "%"}
    units = {one["unit"] for one in columns} | {metric.unit for metric in METRICS}
    assert units - symbols == set(UNITS_KO)


def test_every_displayed_metric_is_a_column_of_a_row() -> None:
    assert {metric.column for metric in METRICS} <= {item.name for item in fields(Row)}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_dictionary_names_every_column_and_category(language: str) -> None:
    elements = Structure(html(pages([], LOADER, language)["dictionary.md"])).elements
    ids = {named for _, named, _ in elements}
    for table, record in TABLES.items():
        assert {f"{table}-{item.name}" for item in fields(record)} <= ids
    assert {f"category-{name}" for name in CATEGORIES} <= ids


# --- campaigns that lack something -----------------------------------------------------------------------


def test_a_campaign_without_speculation_says_that_there_is_no_pair() -> None:
    text = page(sample.emulated())
    assert "There is no pair to compare." in text
    assert "This campaign holds no configuration with speculative decoding." in text
    assert "<svg" not in text


def test_a_single_row_with_speculation_says_what_its_partner_lacks() -> None:
    text = page(campaign_of([sample.make_row(speculation="mtp", num_speculative_tokens=4, tokens_per_step=3.4)]))
    assert "No pair can be compared; the table says why." in text
    assert "not comparable: no measurement without speculation" in text
    assert "<svg" not in text


def test_a_single_pair_is_told_in_one_sentence() -> None:
    rows = [
        sample.make_row(system_throughput_tok_s=50.0),
        sample.make_row(system_throughput_tok_s=80.0, speculation="mtp", num_speculative_tokens=4, tokens_per_step=3.4),
    ]
    assert "<figcaption>alpha-30b, mtp k=4: a gain at every concurrency compared: 1.60× at 1</figcaption>" in page(
        campaign_of(rows)
    )


def test_a_campaign_in_which_everything_failed_shows_the_failures() -> None:
    text = page(campaign_of([], [sample.make_failure()]))
    assert "No row was measured: every configuration failed." in text
    assert "No cell was measured." in text
    assert "CUDA out of memory" in text


def test_a_campaign_without_rows_and_failures_is_a_page_all_the_same() -> None:
    assert "This campaign has no rows yet." in page(campaign_of([]))


def test_a_row_with_a_failed_check_is_hollow_and_names_it() -> None:
    row = sample.make_row(checks="throttled prefix_hits")
    text = page(campaign_of([row]))
    assert f'<tr id="row-{row.row_id}" class="hollow">' in text
    assert "not comparable: throttled, prefix_hits" in text


def test_a_missing_value_is_a_dash_that_is_read_out() -> None:
    text = page(campaign_of([replace(sample.make_row(), ttft_mean_s=None)]))
    dash = '<td class="n"><span aria-hidden="true">–</span><span class="unseen">{}</span></td>'
    assert text.count(dash.format("not measured")) == 1
    assert text.count(dash.format("not applicable")) == 2  # acceptance, without speculation


def test_rows_of_each_provenance_are_marked_as_such() -> None:
    for provenance in ("measured", "emulated", "published"):
        text = page(campaign_of([sample.make_row(provenance=provenance)]))
        assert f'<div class="provenance provenance-{provenance}" role="note">' in text


def test_other_prompts_get_a_chart_of_their_own() -> None:
    speculation = {"speculation": "mtp", "num_speculative_tokens": 4, "tokens_per_step": 3.4}
    rows = [
        sample.make_row(**changes, prompt_set=prompt_set)
        for prompt_set in ("synthetic", "general")
        for changes in ({}, speculation)
    ]
    text = page(campaign_of(rows))
    assert text.count("<figure") == 2
    assert '<p class="panel">prompts general</p>' in text


def test_configurations_that_differ_only_in_flags_do_not_look_alike() -> None:
    text = page(campaign_of([sample.make_row(), sample.make_row(extra_flags="--enforce-eager")]))
    assert "alpha-30b · speculation off · extra flags --enforce-eager" in text


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
    filled = campaign_of([row, replace(row, **told, row_id="b", configuration_id="b"), other], [failure])
    return replace(filled, plan_text=f"a\n\n{text}\n", host_text=f'{{"a": "{text}"}}')


@cache
def tame_elements() -> list[tuple[str, str | None, str | None]]:
    return Structure(html(page(with_text("tame")))).elements


def assert_unbroken(text: str) -> None:
    found = page(with_text(text))
    assert Structure(html(found)).elements == tame_elements()
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


def test_a_long_cause_is_cut_and_the_log_is_named() -> None:
    text = page(campaign_of([], [sample.make_failure(cause="x" * (CAUSE_LIMIT + 1), log="logs/long.log")]))
    assert "x" * CAUSE_LIMIT + "…</code>" in text
    assert "Cut here; the stored log has all of it." in text
    assert '<code dir="auto">logs/long.log</code>' in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_html_block_has_a_blank_line(language: str) -> None:
    """Markdown would end the block there."""
    for name, text in filled(language).items():
        depth = 0
        for number, line in enumerate(text.split("\n"), start=1):
            depth += len(re.findall(r"<(?:div|figure|details|dl)\b", line))
            depth -= len(re.findall(r"</(?:div|figure|details|dl)>", line))
            assert line.strip() or depth == 0, f"{name}, line {number}"
