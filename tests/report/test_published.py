"""The page of published figures: its words for every figure, what it says of the emulation and of what is missing."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace

import pytest

from collector.core.dimensions import Link
from collector.core.roofline import Efficiencies
from collector.report.build import PROFILE, TEMPLATES, loader_of, read_campaign, read_published
from collector.report.pages import Campaign, pages
from collector.report.parameters import EFFICIENCIES, LINK, parameter_lines
from collector.report.published_files import Published
from collector.report.words import LANGUAGES
from tests.report import published_sample, sample
from tests.report.test_build import ROOT

LOADER = loader_of(TEMPLATES)


def page(published: Published | None = None, campaigns: list[Campaign] | None = None, language: str = "en") -> str:
    found = [sample.dual(), sample.emulated()] if campaigns is None else campaigns
    return pages(found, LOADER, language, published or published_sample.published())["published.md"]


def section(name: str, text: str) -> str:
    """Return the part of a page under the heading with this id."""
    return re.split(r"^## ", text.partition(f"{{: #{name} }}")[2], maxsplit=1, flags=re.MULTILINE)[0]


def shipped() -> Published:
    published = read_published(ROOT / "data" / "published")
    assert published is not None
    return published


def test_a_figure_stands_beside_its_rows_with_the_printed_precision() -> None:
    proof = [row.row_id for row in sample.dual().rows if (row.model, row.concurrency) == ("alpha-30b", 1)]
    (line,) = re.findall(r"<tr><td>F4</td>.*?</tr>", page(), re.DOTALL)
    # (101.2 + 100.1) / (57.6 + 57.9) = 1.743; printed 1.77
    assert '<td class="n">1.77</td>\n<td class="n"><b>1.74</b></td><td>×</td><td class="n">-1.5 %</td>' in line
    assert sorted(re.findall(r'href="\.\./campaigns/sample-dual/cells/#row-(\w+)"', line)) == sorted(proof)


def test_a_row_whose_check_failed_feeds_no_comparison() -> None:
    (line,) = re.findall(r"<tr><td>F6</td>.*?</tr>", page(), re.DOTALL)
    assert "no row whose checks held" in line


def test_campaigns_and_provenances_are_compared_apart() -> None:
    emulated = [replace(row, provenance="emulated", row_id=f"e{row.row_id}") for row in sample.dual().rows]
    both = replace(sample.dual(), rows=(*sample.dual().rows, *emulated))
    headings = re.findall(r"^## Beside .*$", page(campaigns=[both, sample.emulated()]), re.MULTILINE)
    assert headings == [
        "## Beside sample-dual {: #sample-dual-emulated }",
        "## Beside sample-dual {: #sample-dual-measured }",
    ]


def test_an_open_break_even_is_placed_by_a_campaign_that_ran_between_its_ends() -> None:
    text = section("break-even", page())
    assert "×1.77 at concurrency 1, ×0.69 at 32. Between them no ratio was published." in text
    assert "measured</span>" in text
    assert "estimated break-even <b>5.8</b>. ×1.74 at concurrency 1, ×0.86 at 8." in text
    assert "By 2 repeats: 5.7–5.9." in text
    stages = [row.row_id for row in sample.dual().rows if row.model == "alpha-30b" and row.concurrency in (1, 8)]
    assert sorted(re.findall(r"#row-(\w+)", text)) == sorted(stages)
    assert "No campaign has looked between them." in section("break-even", page(campaigns=[]))


def test_an_emulated_break_even_is_called_a_prediction_and_carries_the_error_of_the_emulation() -> None:
    emulated = replace(sample.dual(), rows=tuple(replace(row, provenance="emulated") for row in sample.dual().rows))
    text = section("break-even", page(campaigns=[emulated]))
    assert "is a prediction: no hardware was measured" in text
    assert "farthest from its published figure (35.8 %)" in text  # 0.44 stands beside 0.69
    assert re.search(r"By 2 repeats: 5\.7–5\.9\. With the error of the model: \d+\.\d–\d+\.\d\.", text)
    assert "is a prediction" not in section("break-even", page())
    assert "With the error" not in section("break-even", page())


def test_what_was_run_once_says_nothing_of_repeats() -> None:
    once = replace(sample.dual(), rows=tuple(row for row in sample.dual().rows if row.repeat == 1))
    text = section("break-even", page(campaigns=[once]))
    assert "Run once, so what repeats would change is not known." in text
    assert "repeats: " not in text


def test_a_cell_that_a_campaign_does_not_have_is_counted_and_not_listed() -> None:
    compared = section("sample-dual-measured", page())
    assert "<td>F7</td>" not in compared
    assert re.search(r'gain of fp8 KV</th><td class="n">0</td><td class="n">1</td>', compared)


def test_counts_of_drafts_are_shown_with_their_standard_error() -> None:
    published = shipped()
    campaign = read_campaign(ROOT / "data" / "dual-3090")
    text = page(published, [campaign])
    (line,) = re.findall(r"<tr><td>F049</td>.*?</tr>", text, re.DOTALL)
    assert re.search(r"<b>3\.79</b> ± 0\.19</td>", line)
    (none_accepted,) = re.findall(r"<tr><td>F059</td>.*?</tr>", text, re.DOTALL)
    assert "±" not in none_accepted


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_shipped_figure_has_words(language: str) -> None:
    text = page(shipped(), [], language)
    figures = shipped().figures
    assert len(re.findall(r"<tr><td>F\d+</td>", text)) == len(figures)
    for name in {one.metric for one in figures if "_" in one.metric}:
        assert f'<th scope="row">{name}</th>' not in text
    for name in {one.section for one in figures if "_" in one.section}:
        assert f'class="group">{name}<' not in text


def test_every_parameter_of_the_model_has_a_meaning_and_a_value() -> None:
    assert {one.name for one in EFFICIENCIES} == {one.name for one in fields(Efficiencies)}
    assert {one.name for one in LINK} == {one.name for one in fields(Link)} - {"peak_bytes_s"}
    hardware = json.loads(PROFILE.read_text(encoding="utf-8"))["hardware"]
    lines = {line["name"]: line for line in parameter_lines(hardware, "en")}
    assert lines["w4_bandwidth"]["value"] == f"{100 * hardware['efficiencies']['w4_bandwidth']:.1f}"
    assert lines["links.on.latency_s"]["value"] == f"{1e6 * hardware['links']['on']['latency_s']:.1f}"
    assert {name for name in lines if name.startswith("kv_read.")} == {
        f"kv_read.{backend}" for backend in hardware["efficiencies"]["kv_read"]
    }


def test_every_published_failure_is_scripted_in_the_profile_and_said_to_be() -> None:
    text = page(shipped(), [])
    assert text.count("<td>scripted</td>") == len(shipped().failures)
    assert "<td>not scripted</td>" not in text
    assert "<td>not scripted</td>" in page()  # the sample scripts one of its two


def test_without_a_record_of_the_calibration_the_page_says_so() -> None:
    absent = "There is no record of the calibration"
    assert absent in page(published_sample.published(calibrated=False))
    assert absent not in page()
    assert "2.8 pt" in page()
