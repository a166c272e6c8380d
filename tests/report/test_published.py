"""The page of published figures: its words for every figure, what it says of the emulation and of what is missing."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace

import pytest
from jinja2 import FileSystemLoader

from collector.core.dimensions import Link
from collector.core.roofline import Efficiencies
from collector.report.build import PROFILE, TEMPLATES, read_published
from collector.report.pages import LANGUAGES, Campaign, pages
from collector.report.parameters import EFFICIENCIES, LINK, parameter_lines
from collector.report.published_files import Published
from tests.report import published_sample, sample
from tests.report.test_build import ROOT

LOADER = FileSystemLoader(TEMPLATES)


def page(published: Published | None = None, campaigns: list[Campaign] | None = None, language: str = "en") -> str:
    found = [sample.dual(), sample.emulated()] if campaigns is None else campaigns
    return pages(found, LOADER, language, published or published_sample.published())["published.md"]


def shipped() -> Published:
    published = read_published(ROOT / "data" / "published")
    assert published is not None
    return published


def test_a_figure_stands_beside_its_rows_with_the_printed_precision() -> None:
    proof = [row.row_id for row in sample.dual().rows if (row.model, row.concurrency) == ("alpha-30b", 1)]
    (line,) = re.findall(r"<tr><td>F4</td>.*?</tr>", page(), re.DOTALL)
    # (101.2 + 100.1) / (57.6 + 57.9) = 1.743; printed 1.77
    assert '<td class="n">1.77</td>\n<td class="n"><b>1.74</b></td><td>×</td><td class="n">-1.5 %</td>' in line
    assert sorted(re.findall(r'href="\.\./campaigns/sample-dual/#row-(\w+)"', line)) == sorted(proof)


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
