"""The order in which rows lie in their files, and which of the repeats is called the first, change no finding."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from collector.analysis.noise import noise_of
from collector.analysis.recommend import Advice, advice
from collector.analysis.study import Study
from collector.report.article import article
from collector.report.build import TEMPLATES, loader_of, read_campaign
from collector.report.environment import strict_environment
from collector.report.words import Words

DATA = Path(__file__).resolve().parents[2] / "data"
NAMES = ("dual-3090", "follow-up", "schedule", "windows", "acceptance")


@cache
def campaign(name: str) -> Study:
    return read_campaign(DATA / name)


@cache
def as_stored(name: str) -> dict[str, str]:
    return written(campaign(name))


def written(study: Study) -> dict[str, str]:
    """Return the whole article: every finding with its rows, and the data of every chart."""
    return article(study, Words("en"), strict_environment(loader_of(TEMPLATES), "en"))


def shuffled(study: Study, seed: int) -> Study:
    chance = random.Random(seed)

    return replace(
        study,
        rows=tuple(chance.sample(study.rows, len(study.rows))),
        failures=tuple(chance.sample(study.failures, len(study.failures))),
        positions=tuple(chance.sample(study.positions, len(study.positions))),
    )


def backwards(study: Study) -> Study:
    """Return the same rows with the last repeat called the first."""
    last = max(row.repeat for row in study.rows)
    return replace(study, rows=tuple(replace(row, repeat=last + 1 - row.repeat) for row in study.rows))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", [backwards, lambda study: shuffled(study, 1), lambda study: shuffled(study, 2)])
def test_the_order_of_rows_and_of_repeats_changes_no_word_and_no_chart_of_an_article(
    name: str, change: Callable[[Study], Study]
) -> None:
    found, again = as_stored(name), written(change(campaign(name)))
    assert found.keys() == again.keys()
    for path, text in found.items():
        assert again[path] == text, path


def verdicts(found: tuple[Advice, ...]) -> list[object]:
    return [(one.pair.setting, one.pair.way, one.verdict, one.evidence) for of in found for one in of.judged]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", [backwards, lambda study: shuffled(study, 3)])
def test_the_order_of_rows_and_of_repeats_changes_no_judgement(name: str, change: Callable[[Study], Study]) -> None:
    study, again = campaign(name), change(campaign(name))
    assert verdicts(advice(again)[1]) == verdicts(advice(study)[1])
    noise, other = noise_of(study), noise_of(again)
    assert (other.common, other.effects, other.errors) == (noise.common, noise.effects, noise.errors)
