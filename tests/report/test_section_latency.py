"""Section latency: every branch renders in both languages, and every number in it follows from the rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from collector.analysis.study import PUBLISHED, Study
from collector.core.rows import Row
from collector.report.build import read_campaign, read_published
from collector.report.sections.latency import MOST_LINES, section
from collector.report.words import LANGUAGES, Words
from tests.report.remade import check_numbers, rendered
from tests.report.sample import make_failure, make_row

DATA = Path(__file__).resolve().parents[2] / "data"


def bucketed(rows: list[Row]) -> list[Row]:
    return [replace(row, ttft_p95_s=3.2, ttft_p95_low_s=2.5, ttft_p95_high_s=5.0) for row in rows]


def line(speeds: dict[int, float], **changes: object) -> list[Row]:
    return [
        make_row(
            concurrency=at, requests=2 * at, system_throughput_tok_s=speed, **({"ttft_mean_s": 0.2 * at} | changes)
        )
        for at, speed in speeds.items()
    ]


def study(rows: list[Row], **changes: object) -> Study:
    return Study(name="sample-dual", rows=tuple(rows), **changes)  # type: ignore[arg-type]  # names fit


def published() -> Study:
    found = read_published(DATA / PUBLISHED)
    assert found is not None
    return Study(name=PUBLISHED, figures=found.figures, published_failures=found.failures)


CURVE = {1: 60.0, 8: 300.0, 32: 320.0}
CASES: dict[str, Callable[[], Study]] = {
    "a curve": lambda: study(bucketed(line(CURVE))),
    "throughput falls": lambda: study([*line(CURVE), *line({1: 50.0, 8: 280.0, 32: 250.0}, model="beta")]),
    "repeats": lambda: study([*line(CURVE), *line({1: 62.0, 8: 310.0}, repeat=2)]),
    "a percentile above the last bound": lambda: study([replace(row, ttft_p95_low_s=2560.0) for row in line(CURVE)]),
    "two loads": lambda: study([*line(CURVE), *line({1: 70.0}, prompt_set="general/code")]),
    "one row": lambda: study([make_row()]),
    "no row": lambda: study([]),
    "nothing ran": lambda: study([], failures=(make_failure(),)),
    "checks failed": lambda: study(line(CURVE, checks="throttled")),
    "a stage failed its checks": lambda: study([*line({1: 60.0, 32: 300.0}), *line({8: 280.0}, checks="throttled")]),
    "no TTFT": lambda: study(line(CURVE, ttft_mean_s=None)),
    "no throughput": lambda: study([replace(row, system_throughput_tok_s=None) for row in line(CURVE)]),
    "TTFT of some": lambda: study([*line(CURVE), *line(CURVE, model="beta", ttft_mean_s=None)]),
    "40 models": lambda: study([row for n in range(40) for row in line(CURVE, model=f"model-{n}")]),
    "dual-3090": lambda: read_campaign(DATA / "dual-3090"),
    "published": published,
    "published without TTFT": lambda: replace(
        published(), figures=tuple(one for one in published().figures if not one.metric.startswith("ttft"))
    ),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    check_numbers("latency", CASES[case](), language)


@pytest.mark.parametrize("case", ["no row", "nothing ran", "checks failed", "no TTFT", "published without TTFT"])
def test_without_a_wait_one_sentence_says_what_is_missing(case: str) -> None:
    page = rendered("latency", CASES[case](), "en").split("<div", maxsplit=1)[0]
    assert len(page.strip().splitlines()) == 3  # heading, blank, sentence


def test_a_point_carries_its_concurrency_and_points_are_joined_by_it_not_by_the_wait() -> None:
    chart = section(CASES["a curve"](), Words("en"))["chart"]
    assert [point.label for point in chart.lines[0].points] == ["1", "8", "32"]
    assert chart.in_order


def test_a_stage_that_failed_its_checks_breaks_the_line_and_stays_in_the_table() -> None:
    found = CASES["a stage failed its checks"]()
    chart = section(found, Words("en"))["chart"]
    assert [point.y is None for point in chart.lines[0].points] == [False, True, False]
    assert "not comparable" in rendered("latency", found, "en")


def test_forty_models_are_not_all_drawn_and_the_page_says_how_many_are() -> None:
    found = section(CASES["40 models"](), Words("en"))
    assert (len(found["drawn"]), found["measured"], len(found["lines"])) == (MOST_LINES, 40, 40)


def test_a_configuration_without_any_wait_is_not_drawn_but_listed() -> None:
    found = section(CASES["TTFT of some"](), Words("en"))
    assert [line.name for line in found["chart"].lines] == ["alpha-30b · speculation off"]
    assert len(found["lines"]) == 2


def test_p95_is_shown_with_the_bounds_of_its_bucket() -> None:
    page = rendered("latency", CASES["a curve"](), "en")
    assert re.search(r'data-of="ttft_p95_low_s"[^>]*>2.50</data>–<data [^>]*data-of="ttft_p95_high_s"', page)
    assert "over <data" in rendered("latency", CASES["a percentile above the last bound"](), "en")


def test_a_published_study_has_its_range_and_its_changes() -> None:
    page = rendered("latency", CASES["published"](), "en")
    for figure in ("F151", "F152", "F153", "F154", "F155", "F039"):
        assert f'data-rows="{figure}"' in page


@pytest.mark.parametrize(("last", "falls"), [(250.0, True), (278.0, False)])
def test_a_fall_within_noise_is_not_told_as_one(last: float, falls: bool) -> None:
    found = study([*line(CURVE), *line({1: 50.0, 8: 280.0, 32: last}, model="beta")])
    assert ("even loses throughput" in rendered("latency", found, "en")) == falls
