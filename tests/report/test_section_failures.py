"""The section of configurations that did not run."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from collector.analysis.study import Study
from collector.core.failure_words import CATEGORIES
from collector.core.rows import Failure, Row
from collector.report.build import TEMPLATES, loader_of, read_campaign, read_published
from collector.report.environment import strict_environment
from collector.report.pages import published_study as _study
from collector.report.sections import failures
from collector.report.text import CAUSE_LIMIT
from collector.report.words import LANGUAGES, Words
from tests.report.sample import make_failure, make_row

DATA = Path(__file__).resolve().parents[2] / "data"
LOADER = loader_of(TEMPLATES)
HANGUL = re.compile(r"[가-힣]")
HOSTILE = (
    "<script>alert(1)</script> | `x` **b** [l](javascript:x) \u202egnp.exe\u202c =cmd|' /C calc'!A0 "
    "</code></td> {{ 7 }}"
)


def rendered(study: Study, language: str = "en") -> str:
    context = failures.section(study, Words(language))
    template = strict_environment(LOADER, language).get_template("article/failures.md.j2")
    return template.render(study=study, **context)


def study_of(found: list[Failure], rows: list[Row] | None = None, **more: Any) -> Study:
    return Study(name="sample-dual", rows=tuple(rows or ()), failures=tuple(found), **more)


class Text(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def test_a_campaign_without_failures_says_in_one_sentence_that_all_ran() -> None:
    assert "All 1 configurations that were tried started" in Text(rendered(study_of([], [make_row()]))).text
    assert "No configuration has been tried yet." in rendered(study_of([]))


def test_a_campaign_in_which_nothing_ran_says_so() -> None:
    found = [make_failure(category="oom_weights"), make_failure(category="shm", model="b")]
    assert "None of the 2 configurations tried came up" in Text(rendered(study_of(found))).text


def test_failed_configurations_are_counted_once_however_often_they_were_tried() -> None:
    one = make_failure(attempt=1, configuration_id="aa")
    again = make_failure(attempt=2, configuration_id="aa")
    text = rendered(study_of([one, again], [make_row()]))
    assert "Of 2 configurations tried, 1 could not be measured" in Text(text).text
    assert text.count('<tr><th scope="row"') == 1
    assert one.failure_id in text
    assert again.failure_id in text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("category", CATEGORIES)
def test_every_category_has_its_own_advice_in_both_languages(category: str, language: str) -> None:
    pages = {one: rendered(study_of([make_failure(category=one)]), language) for one in (category, "other")}
    advice = {one: re.search(r"<li><code>\w+</code>: (.*)</li>", page) for one, page in pages.items()}
    own, other = advice[category], advice["other"]
    assert own is not None
    assert other is not None
    assert len(Text(own[1]).text) > 20
    assert (own[1] == other[1]) == (category == "other"), "falls through to the words for what is unknown"
    assert bool(HANGUL.search(own[1])) == (language == "ko")


@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_of_a_failure_become_a_remedy(language: str) -> None:
    text = rendered(
        study_of(
            [
                make_failure(
                    category="kv_cache", kv_gib_needed=3.05, kv_gib_available=2.17, max_model_len_estimate=111_456
                )
            ]
        ),
        language,
    )
    assert "0.88\u00a0GiB" in text
    assert ">111456<" in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_setting_that_would_fit_stands_in_the_table_and_nothing_where_no_number_tells(language: str) -> None:
    busy = "ValueError: Free memory on device cuda:0 (6.44/11.63 GiB) on startup is less than desired GPU memory "
    heads = "Total number of attention heads (30) must be divisible by tensor parallel size (4)."
    told = [
        make_failure(category="gpu_busy", cause=busy, model="a"),
        make_failure(category="tensor_parallel", cause=heads, model="b"),
    ]
    text = Text(rendered(study_of(told), language)).text
    assert "--gpu-memory-utilization 0.55" in text
    assert "--tensor-parallel-size 3" in text
    silent = [make_failure(category="gpu_busy", cause="busy"), make_failure(category="tensor_parallel", cause="no")]
    assert not re.search(r"--(gpu-memory-utilization|tensor-parallel-size) \d", Text(rendered(study_of(silent))).text)


def test_every_number_of_a_failure_is_what_failures_csv_says() -> None:
    study = read_campaign(DATA / "dual-3090")
    with (DATA / "dual-3090" / "failures.csv").open(encoding="utf-8", newline="") as file:
        lines = {line["failure_id"]: line for line in csv.DictReader(file)}
    found = re.findall(
        r'<data class="e" value="([^"]+)" data-of="(\w+)" data-failure="(\w+)">([\d.]+)\u00a0MiB', rendered(study)
    )
    assert found
    for value, of, failure_id, shown in found:
        exact = float(lines[failure_id][of])
        assert float(value) == exact
        assert abs(float(shown) - exact * 1024) <= 0.00501


@pytest.mark.parametrize("language", LANGUAGES)
def test_scripted_failures_are_said_to_be_scripted(language: str) -> None:
    study = read_campaign(DATA / "dual-3090")
    word = "계산된 결과가 아닙니다" if language == "ko" else "are not computed"
    assert word in rendered(study, language)
    assert word not in rendered(study_of([make_failure(provenance="emulated")]), language)


def test_failures_link_to_their_evidence_the_dictionary_and_the_cells_page() -> None:
    study = read_campaign(DATA / "dual-3090")
    text = rendered(study)
    for one in study.failures:
        assert f'href="cells/#failure-{one.failure_id}"' in text
        assert f'href="../../dictionary/#category-{one.category}"' in text
        assert f'href="files/{one.log}"' in text
    gone = rendered(study_of([make_failure(log="logs/gone.log")]))
    assert "logs/gone.log" not in gone


def test_an_unknown_category_is_no_link_and_says_why() -> None:
    text = rendered(study_of([make_failure(category="from_the_future")]))
    assert "#category-from_the_future" not in text
    assert "written by a newer collector" in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_hostile_words_of_an_engine_stay_text(language: str) -> None:
    text = rendered(study_of([make_failure(cause=HOSTILE, model="<b>m</b>")]), language)
    page = Text(text)
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert "alert(1)" in page.text
    assert "\u202e" not in text
    assert "⟨U+202E⟩" in page.text


def test_long_words_are_cut_and_say_so() -> None:
    text = rendered(study_of([make_failure(cause="x" * 10_000)]))
    assert "x" * (CAUSE_LIMIT + 1) not in text
    assert "cut; the rest is in the log" in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_published_failures_and_what_was_left_out_are_told_from_the_figures(language: str) -> None:
    published = read_published(DATA / "published")
    assert published is not None
    text = rendered(_study(published), language)
    told = Text(text).text
    assert "30539" in told
    for figure in ("F145", "F146", "F147", "F148", "F149", "F150", "F156", "F157"):
        assert f'data-rows="{figure}"' in text, figure
    assert 'id="left-out"' in text or "#left-out" in text
    assert "cells/#failure" not in text


def test_no_blank_line_stands_inside_the_table() -> None:
    study = read_campaign(DATA / "dual-3090")
    table = rendered(study).split("<table", 1)[1].split("</table>")[0]
    assert "\n\n" not in table


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("category", "cause", "number"),
    [
        ("oom_activation", "CUDA out of memory occurred when warming up sampler with 1024 dummy requests.", "1024"),
        ("speculation", "Value error, max_num_scheduled_tokens is set to -1792 based on", "-1792"),
        ("jit", "OutOfResources: out of resource: shared memory, Required: 106496, Hardware limit: 101376.", "101376"),
    ],
)
def test_a_figure_without_a_column_is_told_from_the_cause(
    language: str, category: str, cause: str, number: str
) -> None:
    text = rendered(study_of([make_failure(category=category, cause=cause)]), language)
    assert f">{number}<" in text
