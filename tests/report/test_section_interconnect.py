"""Section interconnect: every branch renders in both languages, and every number follows from the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from collector.analysis.study import Study
from collector.core.rows import Row
from collector.report.build import read_campaign
from collector.report.sections.interconnect import section
from collector.report.words import LANGUAGES, Words
from tests.analysis.test_interconnect import DATA, GIB, MTP, link, published, study
from tests.report.remade import check_numbers, rendered
from tests.report.sample import make_failure, make_row
from tests.report.structure import Structure

FAILED = make_failure(nvlink="off", speculation="mtp", num_speculative_tokens=3)


def several(gains: list[float], traffics: list[float]) -> list[Row]:
    pairs = enumerate(zip(gains, traffics, strict=True))
    return [row for n, (gain, traffic) in pairs for row in link(gain, traffic, model=f"model-{n}")]


def reducing(rows: list[Row]) -> list[Row]:
    return [replace(row, all_reduce="CUSTOM,PYNCCL" if row.nvlink == "on" else "PYNCCL") for row in rows]


def mixed() -> list[Row]:
    on, off = link(17, **MTP)
    return [on, replace(off, accepted_tokens=2 * (off.accepted_tokens or 0))]


CASES: dict[str, Callable[[], Study]] = {
    "no row": study,
    "not varied": lambda: study(make_row(nvlink=None)),
    "on only": lambda: study(make_row()),
    "nothing ran": lambda: study(failures=(make_failure(), make_failure(nvlink="off"))),
    "one side failed": lambda: study(link(9)[0], failures=(make_failure(nvlink="off", model="alpha-30b"),)),
    "checks failed": lambda: study(*link(9, checks="throttled")),
    "one pair": lambda: study(*link(9)),
    "one pair loses": lambda: study(*link(-9)),
    "some lose": lambda: study(*several([9, -7, 4], [1, 2, 3])),
    "in order": lambda: study(*several([1, 2, 3, 4], [10, 20, 30, 40])),
    "not in order": lambda: study(*several([28, 27, 17, 9], [801, 305, 281, 354])),
    "no traffic": lambda: study(*(replace(row, nvlink_bytes=None) for row in several([1, 2, 3, 4], [1, 2, 3, 4]))),
    "traffic without NVLink": lambda: study(link(9)[0], replace(link(9)[1], nvlink_bytes=3 * GIB)),
    "speculation": lambda: study(*link(27, 300.0), *link(28, 780.0, **MTP)),
    "speculation without a partner": lambda: study(*link(27, 300.0), link(28, 780.0, **MTP)[0], failures=(FAILED,)),
    "mixed drafts": lambda: study(*mixed()),
    "mixed drafts elsewhere": lambda: study(
        *link(9, **MTP), *(replace(row, concurrency=1, row_id=f"{row.row_id}-1") for row in mixed())
    ),
    "repeats": lambda: study(*link(9), *link(10, repeat=2)),
    "by concurrency": lambda: study(*link(9), *link(5, concurrency=8), *link(2, concurrency=1)),
    "two series": lambda: study(*link(9), *link(10, series="k3")),
    "two prompts": lambda: study(*link(9), *link(10, prompt_set="general/code")),
    "another all-reduce": lambda: study(*reducing(link(9))),
    "alone beside a pair": lambda: study(*link(9), link(3, model="beta")[0], *link(4, model="c", checks="throttled")),
    "two provenances": lambda: study(*link(9), *link(10, provenance="emulated", series="again")),
    "40 models": lambda: study(*several([float(n) + 1 for n in range(40)], [float(n % 7) + 1 for n in range(40)])),
    "emulated": lambda: study(*link(9, provenance="emulated")),
    "dual-3090": lambda: read_campaign(DATA / "dual-3090"),
    "follow-up": lambda: read_campaign(DATA / "follow-up"),
    "published": published,
    "published without gains": lambda: replace(
        published(), figures=tuple(one for one in published().figures if one.metric != "nvlink_gain")
    ),
}


@cache
def page(case: str, language: str = "en") -> Structure:
    return Structure(rendered("interconnect", CASES[case](), language))


def text(case: str, language: str = "en") -> str:
    return page(case, language).text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    check_numbers("interconnect", CASES[case](), language)


@pytest.mark.parametrize("case", CASES)
def test_both_languages_have_the_same_ids_and_no_block_has_a_blank_line(case: str) -> None:
    found = [page(case, language) for language in LANGUAGES]
    assert found[0].ids == found[1].ids
    assert found[0].ids[0] == "interconnect"
    assert found[0].blank == found[1].blank == []
    assert found[0].links == found[1].links


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("not varied", "did not measure both with and without NVLink"),
        ("on only", "did not measure both with and without NVLink"),
        ("nothing ran", "There is no pair with and without NVLink that can be compared"),
        ("one side failed", "CUDA out of memory"),
        ("one pair", "NVLink changes the throughput by +9.0%"),
        ("one pair loses", "NVLink changes the throughput by −9.0%"),
        ("some lose", "Beyond noise, 1 of them gain by NVLink and 1 lose."),
        ("in order", "The order of gains follows the traffic"),
        ("not in order", "Traffic does not explain the order of gains"),
        ("no traffic", "not recorded"),
        ("traffic without NVLink", "the gain is doubtful"),
        ("speculation", "speculation multiplies the traffic by 2.60; the gain of NVLink goes from +27.0% to +28.0%"),
        ("speculation without a partner", "is not known for want of a pair"),
        ("mixed drafts", "that gain mixes NVLink with how well the drafts fitted"),
        ("mixed drafts elsewhere", "the gain at concurrency 1 is not NVLink's alone"),
        ("another all-reduce", "the all-reduce changes from CUSTOM,PYNCCL to PYNCCL as well"),
        ("alone beside a pair", "measured on one side only: 1"),
        ("alone beside a pair", "failed a check: throttled"),
        ("published", "all 10 pairs are faster with NVLink, by +8.9%"),
        ("published", "Acceptance is known at concurrency 1 only"),
        ("published", "0.61 / 0.85"),
        ("published", "0.00"),
    ],
)
def test_each_case_is_said_in_its_own_words(case: str, words: str) -> None:
    assert words in text(case)


def test_an_order_is_explained_only_by_traffic_that_has_it() -> None:
    explained = {case for case in CASES if "The order of gains follows the traffic" in text(case)}
    assert explained == {"in order"}
    unexplained = {case for case in CASES if "Traffic does not explain" in text(case)}
    assert unexplained == {"not in order", "40 models", "dual-3090", "published"}


def test_only_sides_known_to_be_without_traffic_are_called_so() -> None:
    silent = {case for case in CASES if "No traffic over NVLink was recorded on any side without it" in text(case)}
    assert "one pair" in silent
    assert not silent & {"traffic without NVLink", "no traffic"}


def test_pairs_of_two_series_or_prompts_are_told_apart_in_their_names() -> None:
    assert "series k3" in text("two series")
    assert "general/code" in text("two prompts")
    assert "series" not in text("one pair")


def test_forty_models_are_told_by_their_ends() -> None:
    sentences = text("40 models").partition("At concurrency 32 NVLink gains from")[0]
    assert "model-20" not in sentences
    assert "+1.0% (model-0 · speculation off) to +40.0% (model-39 · speculation off)" in sentences


def test_bars_come_in_the_order_of_gains_with_the_traffic_beside_them() -> None:
    (chart,) = section(CASES["not in order"](), Words("en"))["charts"]
    assert chart.kind == "bar"
    assert [round(point.y or 0) for point in chart.points] == [28, 27, 17, 9]
    assert [point.note for point in chart.points] == ["801 GiB", "305 GiB", "281 GiB", "354 GiB"]
    assert chart.even is None
    (losing,) = section(CASES["some lose"](), Words("en"))["charts"]
    assert losing.even is not None


def test_provenances_never_share_a_chart() -> None:
    charts = section(CASES["two provenances"](), Words("en"))["charts"]
    assert sorted(chart.provenance for chart in charts) == ["emulated", "measured"]


def test_an_emulation_is_never_offered_as_a_measurement() -> None:
    said = {case for case in CASES if "is its assumption, not a measurement" in text(case)}
    assert said == {"two provenances", "emulated", "dual-3090"}
