"""Section energy: what was measured is shown with its rows, what was not is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from collector.analysis.study import PUBLISHED, Study
from collector.core.rows import Row
from collector.report.build import read_campaign, read_published
from collector.report.sections.energy import MOST_LINES, section
from collector.report.words import LANGUAGES, Words
from tests.report.remade import check_numbers, rendered
from tests.report.sample import make_row

DATA = Path(__file__).resolve().parents[2] / "data"


def line(joules: dict[int, float | None], **changes: object) -> list[Row]:
    return [
        replace(make_row(concurrency=at, requests=2 * at, **changes), energy_j=one, power_mean_w=610.4)
        for at, one in joules.items()
    ]


def study(rows: list[Row]) -> Study:
    return Study(name="sample-dual", rows=tuple(rows))


def published() -> Study:
    found = read_published(DATA / PUBLISHED)
    assert found is not None
    return Study(name=PUBLISHED, figures=found.figures)


CURVE: dict[int, float | None] = {1: 9000.0, 8: 4000.0, 32: 9000.0}
CASES: dict[str, Callable[[], Study]] = {
    "measured": lambda: study(line(CURVE)),
    "repeats": lambda: study([*line(CURVE), *line({1: 9100.0}, repeat=2)]),
    "two models": lambda: study([*line(CURVE), *line({1: 5000.0, 8: None}, model="beta")]),
    "one row": lambda: study(line({1: 9000.0})),
    "a stage failed its checks": lambda: study([*line({1: 9000.0}), *line({8: 5000.0}, checks="throttled")]),
    "no power": lambda: study([replace(row, power_mean_w=None) for row in line(CURVE)]),
    "40 models": lambda: study([row for n in range(40) for row in line(CURVE, model=f"model-{n}")]),
}
NOTHING: dict[str, Callable[[], Study]] = {
    "not measured": lambda: study([make_row()]),
    "no row": lambda: study([]),
    "checks failed": lambda: study(line(CURVE, checks="throttled")),
    "dual-3090": lambda: read_campaign(DATA / "dual-3090"),
    "published": published,
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_every_number_follows_from_the_rows_and_no_digit_stands_alone(case: str, language: str) -> None:
    check_numbers("energy", CASES[case](), language)
    assert 'id="energy-per-token"' in rendered("energy", CASES[case](), language)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", NOTHING)
def test_what_was_not_measured_is_one_sentence(case: str, language: str) -> None:
    page = rendered("energy", NOTHING[case](), language)
    assert len(page.strip().splitlines()) == 3  # heading, blank, sentence
    assert "<data" not in page


def test_the_built_in_engine_is_said_to_have_no_meter() -> None:
    assert "no power meter" in rendered("energy", NOTHING["dual-3090"](), "en")
    assert "no power meter" not in rendered("energy", NOTHING["not measured"](), "en")


def test_all_configurations_are_in_the_table_and_the_best_of_each_model_in_the_chart() -> None:
    found = section(CASES["40 models"](), Words("en"))
    assert (len(found["chart"].lines), len(found["lines"])) == (MOST_LINES, 40)
