"""Section causes: every branch renders in both languages, and every number in it follows from the rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from collector.analysis.study import PUBLISHED, Study
from collector.core.rows import Row
from collector.report.build import read_campaign, read_published
from collector.report.sections.causes import section
from collector.report.words import LANGUAGES, Words
from tests.report.remade import check_numbers, rendered
from tests.report.sample import make_failure, make_row

DATA = Path(__file__).resolve().parents[2] / "data"
DFLASH = {"speculation": "dflash", "num_speculative_tokens": 15, "tokens_per_step": 3.0}


def line(ratios: dict[int, float], **changes: object) -> list[Row]:
    found = []
    for concurrency, ratio in ratios.items():
        stage = {"concurrency": concurrency, "requests": 2 * concurrency, "waiting_peak": 2} | changes
        speculating = {key: value for key, value in DFLASH.items() if key not in changes}
        found += [
            make_row(**(stage | {"speculation": "off", "num_speculative_tokens": None, "tokens_per_step": 1.0})),
            make_row(system_throughput_tok_s=60.0 * ratio, **(stage | speculating)),
        ]
    return found


def study(rows: list[Row], **changes: object) -> Study:
    return Study(name="sample-dual", rows=tuple(rows), **changes)  # type: ignore[arg-type]  # names fit


def again(rows: list[Row]) -> list[Row]:
    return [replace(row, row_id=f"{row.row_id}-2", repeat=2) for row in rows]


def published() -> Study:
    found = read_published(DATA / PUBLISHED)
    assert found is not None
    return Study(name=PUBLISHED, figures=found.figures, published_failures=found.failures)


TURNS = {1: 1.7, 8: 0.9, 32: 0.4}
CASES: dict[str, Callable[[], Study]] = {
    "turns": lambda: study(line(TURNS)),
    "turns beside a gain": lambda: study([*line(TURNS), *line({1: 2.0, 32: 1.2}, model="beta")]),
    "turns with repeats": lambda: study([*line(TURNS), *again(line(TURNS))]),
    "gains": lambda: study(line({1: 2.0, 8: 1.5})),
    "loses": lambda: study(line({1: 0.8, 8: 0.6})),
    "loses most at the start": lambda: study(line({1: 0.5, 8: 1.4})),
    "accepts nothing": lambda: study(line({1: 0.8, 8: 0.6}, tokens_per_step=1.0)),
    "two kinds of loss": lambda: study(
        [*line(TURNS), *line({1: 0.8, 32: 0.6}, tokens_per_step=1.0, model="beta"), *line({1: 1.5, 32: 0.9}, model="c")]
    ),
    "even": lambda: study(line({1: 1.0})),
    "one concurrency": lambda: study(line({8: 0.5})),
    "one row": lambda: study([make_row()]),
    "no row": lambda: study([]),
    "nothing ran": lambda: study([], failures=(make_failure(),)),
    "checks failed": lambda: study(line(TURNS, checks="throttled")),
    "a stage failed its checks": lambda: study([*line({1: 1.7, 32: 0.4}), *line({8: 0.9}, checks="throttled")]),
    "no step times": lambda: study([replace(row, step_time_mean_s=None) for row in line(TURNS)]),
    "no tokens per step": lambda: study([replace(row, tokens_per_step=None) for row in line(TURNS)]),
    "no KV columns": lambda: study(
        [replace(row, preemptions=None, kv_usage_peak=None, kv_cache_tokens=None) for row in line(TURNS)]
    ),
    "preempts": lambda: study(
        [replace(row, preemptions=9) if row.speculation != "off" else row for row in line(TURNS)]
    ),
    "40 models": lambda: study([row for n in range(40) for row in line(TURNS, model=f"model-{n}")]),
    "emulated": lambda: study(line(TURNS, provenance="emulated")),
    "dual-3090": lambda: read_campaign(DATA / "dual-3090"),
    "published": published,
    "published without decode rates": lambda: replace(
        published(), figures=tuple(one for one in published().figures if one.metric != "request_decode_rate")
    ),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    check_numbers("causes", CASES[case](), language)


@pytest.mark.parametrize("case", CASES)
def test_both_languages_have_the_same_headings_and_charts(case: str) -> None:
    ids = [set(_ids(rendered("causes", CASES[case](), language))) for language in LANGUAGES]
    assert ids[0] == ids[1]
    assert "#causes" in ids[0]


def _ids(page: str) -> list[str]:
    return re.findall(r'#causes[a-z-]*|id="causes[a-z-]*"', page)


def test_hypotheses_are_judged_only_where_a_pair_loses() -> None:
    judged = {case for case in CASES if "#causes-hypotheses" in rendered("causes", CASES[case](), "en")}
    assert judged == {
        "turns", "turns beside a gain", "turns with repeats", "loses", "loses most at the start", "accepts nothing",
        "two kinds of loss", "one concurrency", "a stage failed its checks", "no KV columns", "preempts", "40 models",
        "emulated", "dual-3090", "published",
    }  # fmt: skip


@pytest.mark.parametrize("case", ["no row", "one row", "nothing ran", "checks failed", "no step times"])
def test_what_cannot_be_taken_apart_is_one_sentence(case: str) -> None:
    page = rendered("causes", CASES[case](), "en")
    assert "<table" not in page
    assert len(page.strip().splitlines()) == 3  # heading, blank, sentence


def test_forty_models_are_not_listed() -> None:
    found = section(CASES["40 models"](), Words("en"))
    assert len(found["others"]) <= 2
    assert len(found["chart"].lines) == 7


def test_the_chart_has_two_lines_a_pair_and_hatches_where_decoding_turned_unmeasured() -> None:
    chart = section(CASES["turns beside a gain"](), Words("en"))["chart"]
    assert [line.code for line in chart.lines] == ["A", "B", "C", "D", "E"]
    assert "requests decoding" in chart.lines[-1].name
    assert [(gap.low, gap.high, gap.codes) for gap in chart.gaps] == [(1, 8, ("A", "B"))]
    assert all(point.ids for line in chart.lines for point in line.points)


def test_a_stage_without_a_ratio_breaks_the_line_and_says_why() -> None:
    found = CASES["a stage failed its checks"]()
    chart = section(found, Words("en"))["chart"]
    assert [point.y is None for point in chart.lines[0].points] == [False, True, False]
    assert "failed a check" in rendered("causes", found, "en")


def test_verdicts_on_emulated_rows_are_said_to_be_no_evidence_about_hardware() -> None:
    emulated, measured = (rendered("causes", CASES[case](), "en") for case in ("emulated", "turns"))
    assert "no evidence about hardware" in emulated
    assert "no evidence about hardware" not in measured


def test_a_published_study_says_what_it_leaves_open_and_what_would_decide() -> None:
    page = rendered("causes", CASES["published"](), "en")
    assert page.count("not published") >= 2
    assert "Contention is undecided" in page
    assert "KV capacity is undecided" in page
    assert section(CASES["published"](), Words("en"))["chart"] is None


def test_names_from_data_are_escaped() -> None:
    page = rendered("causes", study(line(TURNS, model="<b>alpha & co</b>")), "en")
    assert "<b>alpha" not in page
    assert "<b>alpha & co" in unescape(page)
