"""What a study leaves open, and the smallest effect it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.analysis.noise import NOISE_MULTIPLE, noise_of
from collector.analysis.scope import doublings, left_open, smallest_effect
from collector.analysis.study import PUBLISHED, Study
from collector.report.build import read_published
from tests.analysis.arms import MTP, arm, pair_of, study_of

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.mark.parametrize(("low", "high", "between"), [(1, 8, (2, 4)), (8, 16, ()), (3, 4, ()), (1, 32, (2, 4, 8, 16))])
def test_a_bracket_is_tightened_by_doubling(low: int, high: int, between: tuple[int, ...]) -> None:
    assert doublings(low, high) == between


def test_a_bracket_with_nothing_inside_is_left_open() -> None:
    (one,) = left_open(study_of(*pair_of({1: 1.7, 8: 0.7}))).brackets
    assert (one.bracket.low, one.bracket.high, one.between) == (1, 8, (2, 4))
    assert left_open(study_of(*pair_of({1: 1.7, 2: 0.7}))).brackets == ()
    (wide,) = left_open(study_of(*pair_of({1: 1.7, 4: 1.01, 8: 0.7}))).brackets
    assert (wide.between, wide.again) == ((2,), (4,)), "what was measured and decides nothing takes more repeats"
    assert left_open(study_of(*pair_of({1: 1.7, 8: 1.2}))).brackets == ()


def test_cells_measured_once_are_counted() -> None:
    rows = [*arm({1: 50.0, 8: 300.0}), *arm({1: 51.0}, repeat=2)]
    assert left_open(study_of(*rows)).cells_once == 1


def test_prompts_without_load_and_without_a_base_are_named() -> None:
    rows = [*pair_of({1: 1.5, 8: 1.2}), *arm({1: 80.0}, prompt_set="general/code", **MTP)]
    found = left_open(study_of(*rows))
    assert found.sets_without_load == ("general/code",)
    assert found.sets_without_base == ("general/code",)
    nothing = left_open(study_of(*pair_of({1: 1.5, 8: 1.2})))
    assert (nothing.sets_without_load, nothing.sets_without_base) == ((), ())


def test_a_missing_side_of_the_link_is_counted_once_a_configuration() -> None:
    rows = [*arm({1: 50.0, 8: 300.0}), *arm({1: 45.0, 8: 250.0}, nvlink="off"), *arm({1: 50.0}, model="beta-31b")]
    found = left_open(study_of(*rows))
    assert (found.link_varied, found.without_nvlink_partner) == (True, 1)
    assert left_open(study_of(*arm({1: 50.0}))).link_varied is False


def test_rows_without_energy_and_with_failed_checks_are_counted() -> None:
    rows = [*arm({1: 50.0}, energy_j=900.0), *arm({8: 300.0}), *arm({32: 400.0}, checks="throttled", energy_j=5.0)]
    found = left_open(study_of(*rows))
    assert (found.rows_without_energy, found.rows_failed) == (1, 1)


def test_the_smallest_effect_is_the_smallest_above_noise_at_the_highest_concurrency() -> None:
    rows = [
        *pair_of({1: 1.06, 8: 1.5}),
        *arm({8: 432.0}, kv_cache_dtype="fp8_e5m2"),
        *arm({8: 392.0}, nvlink="off"),
    ]
    found = smallest_effect(study_of(*rows), noise_of(study_of()))
    assert found is not None
    assert (found.factor.name, found.concurrency) == ("kv_cache_dtype", 8)
    assert found.gain.value == pytest.approx(8.0)


def test_without_an_effect_there_is_no_smallest_one() -> None:
    assert smallest_effect(study_of(*pair_of({8: 1.01})), noise_of(study_of())) is None
    assert smallest_effect(study_of(), noise_of(study_of())) is None


def test_the_published_experiments_smallest_effect_is_larger_than_its_noise() -> None:
    published = read_published(DATA / "published")
    assert published is not None
    study = Study(name=PUBLISHED, figures=published.figures)
    noise = noise_of(study)
    found = smallest_effect(study, noise)
    assert found is not None
    assert found.factor.name == "nvlink"
    assert noise.judge(found.ratio).multiple == pytest.approx(8.9 / (NOISE_MULTIPLE * 2.26), rel=0.02)
    assert left_open(study).sets_without_base != ()
