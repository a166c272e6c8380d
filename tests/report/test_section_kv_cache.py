"""Section kv_cache: every branch renders in both languages, and every number in it follows from the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from collector.analysis.study import Study
from collector.core.rows import Row
from collector.report.build import read_campaign
from collector.report.sections.kv_cache import section
from collector.report.words import LANGUAGES, Words
from tests.analysis.test_kv_cache import DATA, FP8, line, published, study
from tests.report.remade import check_numbers, rendered
from tests.report.sample import make_failure, make_row
from tests.report.structure import Structure

GROWS = {1: 6.0, 8: 11.0, 32: 24.0}
REFUSED = make_failure(model="beta", nvlink=None, category="kv_dtype", cause="ValueError: FP8 is not supported", **FP8)
OOM = make_failure(model="gamma", speculation="mtp", **FP8)
MTP = {"speculation": "mtp", "num_speculative_tokens": 4}


def backends(rows: list[Row]) -> list[Row]:
    return [replace(one, attention_backend="FLASHINFER") if one.kv_cache_dtype != "auto" else one for one in rows]


def crowded(rows: list[Row]) -> list[Row]:
    return [replace(one, preemptions=9) for one in rows]


CASES: dict[str, Callable[[], Study]] = {
    "no row": study,
    "auto only": lambda: study(make_row()),
    "only refused": lambda: study(make_row(), failures=(REFUSED,)),
    "only out of memory": lambda: study(make_row(), failures=(OOM,)),
    "gains": lambda: study(*line(GROWS), failures=(REFUSED, OOM)),
    "gains, not growing": lambda: study(*line({1: 11.0, 8: 3.0, 32: 24.0})),
    "another backend": lambda: study(*backends(line(GROWS))),
    "backend unknown": lambda: study(*(replace(one, attention_backend=None) for one in line(GROWS))),
    "another graph mode": lambda: study(
        *(replace(one, cudagraph_mode="FULL" if one.kv_cache_dtype == "auto" else "PIECEWISE") for one in line(GROWS))
    ),
    "crowded": lambda: study(*crowded(line(GROWS))),
    "no KV columns": lambda: study(
        *(replace(one, preemptions=None, kv_usage_peak=None, kv_cache_tokens=None) for one in line(GROWS))
    ),
    "loses": lambda: study(*line({1: -6.0, 32: -11.0})),
    "turns": lambda: study(*line({1: -6.0, 32: 11.0})),
    "even": lambda: study(*line({1: 0.1})),
    "one gains, one loses": lambda: study(*line(GROWS, model="a"), *line({1: -3.0, 32: -9.0}, model="b")),
    "repeats": lambda: study(*line(GROWS), *line({1: 4.0, 8: 10.0, 32: 25.0}, repeat=2)),
    "a stage failed its checks": lambda: study(*line({1: 3.0}), *line({8: 9.0}, checks="throttled")),
    "all checks failed": lambda: study(*line(GROWS, checks="throttled")),
    "two dtypes": lambda: study(*line(GROWS), make_row(kv_cache_dtype="fp8_e4m3", system_throughput_tok_s=120.0)),
    "other tops": lambda: study(*line(GROWS, model="a"), *line({1: 2.0, 8: 4.0}, model="b")),
    "speculation and the link": lambda: study(
        *line(GROWS), *line(GROWS, nvlink="off"), *line(GROWS, tokens_per_step=2.0, **MTP)
    ),
    "mixed drafts": lambda: study(
        *line(GROWS),
        make_row(tokens_per_step=3.0, **MTP),
        make_row(tokens_per_step=2.0, **MTP, **FP8),
    ),
    "40 models": lambda: study(*(one for n in range(40) for one in line({1: 1.0, 32: 5.0 + n}, model=f"model-{n}"))),
    "emulated": lambda: study(*line(GROWS, provenance="emulated")),
    "dual-3090": lambda: read_campaign(DATA / "dual-3090"),
    "follow-up": lambda: read_campaign(DATA / "follow-up"),
    "published": published,
    "published without gains": lambda: replace(
        published(), figures=tuple(one for one in published().figures if one.metric != "kv_fp8_gain")
    ),
}


@cache
def page(case: str, language: str = "en") -> Structure:
    return Structure(rendered("kv_cache", CASES[case](), language))


def text(case: str, language: str = "en") -> str:
    return page(case, language).text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    check_numbers("kv_cache", CASES[case](), language)


@pytest.mark.parametrize("case", CASES)
def test_both_languages_have_the_same_ids_and_no_block_has_a_blank_line(case: str) -> None:
    found = [page(case, language) for language in LANGUAGES]
    assert found[0].ids == found[1].ids
    assert found[0].ids[0] == "kv-cache"
    assert found[0].blank == found[1].blank == []
    assert found[0].links == found[1].links


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("auto only", "No two configurations differ in the KV cache dtype alone"),
        ("only refused", "the engine did not start with it"),
        ("gains", "In A the throughput with fp8_e5m2 KV was higher than with auto at every concurrency compared"),
        ("loses", "fp8_e5m2 KV against auto: a loss at every concurrency compared"),
        ("turns", "a loss that turns into a gain"),
        ("even", "no difference beyond noise at any concurrency compared"),
        ("one gains, one loses", "differs between configurations"),
        ("other tops", "At the highest concurrency: a +24.0% (at 32), b +4.0% (at 8)"),
        ("a stage failed its checks", "not comparable: the side with it failed a check: throttled"),
        ("all checks failed", "Pairs that were measured and cannot be compared: 1"),
        ("another graph mode", "CUDA graphs: FULL → PIECEWISE"),
        ("mixed drafts", "Mixed: acceptance differs"),
        ("published", "At concurrency 32: exaone-4.5-33b +24.2%, muse-glimmer-30b +19.6%"),
        ("published", "FLASHINFER"),
    ],
)
def test_each_case_is_said_in_its_own_words(case: str, words: str) -> None:
    assert words in text(case)


def test_growth_is_claimed_only_where_every_line_grows() -> None:
    said = {case for case in CASES if "The gain grows with concurrency" in text(case)}
    assert "gains" in said
    assert not said & {"gains, not growing", "loses", "turns", "one gains, one loses", "even"}


def test_the_words_of_the_engine_stand_in_place_of_a_number() -> None:
    assert "ValueError: FP8 is not supported" in text("gains")
    assert "CUDA out of memory" in text("gains")
    assert f"cells/#failure-{REFUSED.failure_id}" in page("gains").links


def test_a_change_of_backend_is_said_and_one_that_cannot_be_known_too() -> None:
    both = {case for case in CASES if "compares dtype and backend at once" in text(case)}
    assert both == {"another backend", "dual-3090"}
    unknown = {case for case in CASES if "so it is open whether the backend changed" in text(case)}
    assert unknown == {"backend unknown", "published"}


def test_the_reading_by_room_is_excluded_only_where_the_columns_exclude_it() -> None:
    excluded = {case for case in CASES if "which rules out the second" in text(case)}
    assert "gains" in excluded
    assert not excluded & {"crowded", "no KV columns", "published"}
    assert "so both remain" in text("crowded")
    assert "the two are not told apart" in text("no KV columns")
    assert "the two are not told apart" in text("published")


def test_what_the_source_says_of_a_backend_that_refuses_the_dtype_is_doubted_on_the_published_page_only() -> None:
    doubted = {case for case in CASES if "The source names FLASH_ATTN as the backend" in text(case)}
    assert doubted == {"published"}


def test_an_emulation_is_never_offered_as_evidence() -> None:
    said = {case for case in CASES if "neither is evidence for a cause" in text(case)}
    assert said == {"emulated", "dual-3090"}


def test_forty_models_are_told_by_their_ends() -> None:
    found = text("40 models").partition("emulated")[0]
    sentences = found.partition("The gain of fp8_e5m2 KV")[0]
    assert "model-20" not in sentences
    assert "+5.0% (model-0 · speculation off) to +44.0% (model-39 · speculation off)" in sentences


def test_the_chart_breaks_where_a_stage_cannot_be_compared_and_spans_repeats() -> None:
    (broken,) = section(CASES["a stage failed its checks"](), Words("en"))["charts"]
    assert [point.y is None for point in broken.points] == [False, True]
    (spread,) = section(CASES["repeats"](), Words("en"))["charts"]
    assert all(point.low is not None for point in spread.points)
    assert (spread.even and spread.even.value) == 0.0
