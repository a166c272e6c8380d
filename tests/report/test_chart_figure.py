"""A chart on its page: whole without JavaScript, readable without eyes, escaped, light."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import markdown  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings

from collector.report.build import TEMPLATES, loader_of
from collector.report.chart import Chart
from collector.report.environment import strict_environment
from collector.report.plotly_spec import spec
from collector.report.words import LANGUAGES
from tests.report.chart_samples import MUSE, SAMPLES, chart, charts, line

LOADER = loader_of(TEMPLATES)
TABLE = "<table><tbody><tr><td>its table</td></tr></tbody></table>"
#: Bytes that one more chart adds to a compressed page, drawings, legend and spec together.
MOST_BYTES = 1600


def figure(shown: Chart, language: str = "en") -> str:
    source = '{% from "chart.html.j2" import figure %}{% call figure(chart) %}' + TABLE + "{% endcall %}"
    return strict_environment(LOADER, language).from_string(source).render(chart=shown)


class Elements(HTMLParser):
    """Every element of a text with its attributes, and the elements that are open at its end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("shown", SAMPLES, ids=lambda one: f"{one.kind}-{one.provenance}")
def test_a_figure_is_well_formed_and_names_its_drawings(shown: Chart, language: str) -> None:
    elements = Elements(figure(shown, language))
    assert elements.open == []
    ids = [attrs["id"] for _, attrs in elements.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    drawings = [attrs for tag, attrs in elements.found if tag == "svg" and attrs.get("role") == "img"]
    assert [attrs["width"] for attrs in drawings] == ["720", "360"]
    for attrs in drawings:
        assert set((attrs["aria-labelledby"] or "").split()) <= set(ids)


@given(charts())
@settings(max_examples=25, deadline=None)
def test_no_chart_breaks_its_page(shown: Chart) -> None:
    text = figure(shown)
    assert Elements(text).open == []
    assert "\n\n" not in text
    assert str(markdown.markdown(text, extensions=["attr_list", "toc"])).strip() == text.strip()


def test_finding_and_sentences_are_read_out() -> None:
    text = figure(chart(alt="A: 1.75× at 1.\nB: 0.44× at 32."))
    assert text.count("<desc") == text.count("A: 1.75× at 1. B: 0.44× at 32.</desc>") == 2
    assert "<figcaption>A gain that turns into a loss</figcaption>" in text


def test_text_from_data_is_escaped_everywhere() -> None:
    text = figure(chart(line(0, dict(MUSE), name="<script>alert(1)</script>"), alt="<i>", subtitle="<u>"))
    assert "<script>" not in text
    assert "<i>" not in text
    assert "<u>" not in text


def test_the_spec_stands_in_a_template_and_survives_it() -> None:
    shown = chart(line(0, dict(MUSE), name="</template><b>&amp;"))
    (text,) = re.findall(r'<template class="spec">(.*?)</template>', figure(shown))
    assert "<" not in text
    assert json.loads(text) == spec(shown)


@pytest.mark.parametrize(
    ("provenance", "words"), [("measured", "측정"), ("emulated", "에뮬레이션"), ("published", "공개 수치")]
)
def test_provenance_is_said_above_and_drawn_in_each_drawing(provenance: str, words: str) -> None:
    text = figure(chart(provenance=provenance), "ko")
    assert f'<span class="badge badge-{provenance}">{words}</span>' in text
    assert text.count(f"chart-frame-{provenance}") == 2
    assert len(re.findall(f'class="chart-from chart-from-{provenance}"[^>]*>{words}<', text)) == 2


def test_what_is_known_of_the_spread_is_said() -> None:
    once, twice = line(0, {1.0: 1.5}), line(1, {1.0: 1.5}, low=1.4, high=1.6)
    assert "there are no repeats" in figure(chart(once))
    assert "No spread over repeats was published" in figure(chart(once, provenance="published"))
    assert "has no repeats" in figure(chart(once, twice))
    both = figure(chart(twice))
    assert "Thin bars span the repeats." in both
    assert "has no repeats" not in both


def test_hollow_marks_are_explained_where_there_are_any() -> None:
    assert "failed a check" not in figure(chart())
    text = figure(chart(line(0, dict(MUSE), comparable=False)))
    assert "failed a check" in text
    assert "chart-hollow" in text
    assert 'class="chart-mark" d="M2' not in text.replace('d="M20 7', "")


def test_data_table_and_button_belong_to_the_figure() -> None:
    text = figure(chart())
    assert 'href="files/charts/ratio-1.csv"' in text
    assert 'href="files/charts/ratio-1.json"' in text
    assert TABLE in text
    assert re.search(r"<button [^>]*hidden", text)  # without JavaScript there is no button that does nothing


def test_one_more_chart_adds_little_to_a_page() -> None:
    lines = [line(index, {x: y + index / 7 for x, y in MUSE.items()}, name=f"Model {index} k=4") for index in range(4)]
    few, more = ("".join(figure(replace(chart(*lines), id=f"ratio-{n}")) for n in range(count)) for count in (1, 9))
    added = len(gzip.compress(more.encode(), 6)) - len(gzip.compress(few.encode(), 6))
    different = len(gzip.compress("".join(map(figure, SAMPLES)).encode(), 6)) / len(SAMPLES)
    assert added / 8 < different < 2 * MOST_BYTES
    assert added / 8 < MOST_BYTES
