"""How far repeats lie apart: the noise floor of a campaign."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.repeats import Kin, RepeatError, repeat_errors
from collector.analysis.study import PUBLISHED, Study
from collector.report.build import read_campaign, read_published
from tests.analysis.arms import MTP, arm, study_of
from tests.report.sample import make_row

DATA = Path(__file__).resolve().parents[2] / "data"
THROUGHPUTS = st.floats(min_value=1.0, max_value=5000.0)


def found(*rows: object) -> RepeatError:
    (error,) = repeat_errors(study_of(*rows)).values()  # type: ignore[arg-type]
    return error


def test_the_error_of_a_cell_is_its_largest_over_its_smallest_throughput() -> None:
    error = found(*arm({1: 100.0}), *arm({1: 110.0}, repeat=2), *arm({1: 104.0}, repeat=3))
    assert (error.kind, error.cells) == ("repeats", 1)
    assert error.most.value == pytest.approx(10.0)
    assert error.least == error.most


def test_least_and_most_are_cells_and_the_mean_weighs_them_by_throughput() -> None:
    error = found(*arm({1: 100.0, 8: 300.0}), *arm({1: 110.0, 8: 303.0}, repeat=2))
    assert error.least.value == pytest.approx(1.0)
    assert error.most.value == pytest.approx(10.0)
    assert error.mean.value == pytest.approx(100 * (413 / 400 - 1))
    assert (len(error.mean.ids), len(error.mean.base)) == (2, 2)


def test_a_row_with_a_failed_check_tells_nothing_of_the_error() -> None:
    rows = [*arm({1: 100.0}), *arm({1: 400.0}, repeat=2, checks="throttled")]
    assert repeat_errors(study_of(*rows)) == {}


def test_the_same_settings_in_two_series_are_a_repeat_where_there_is_no_other() -> None:
    rows = [*arm({1: 100.0, 8: 300.0}), *arm({1: 102.0, 8: 300.0}, series="k3")]
    error = found(*rows)
    assert (error.kind, error.cells) == ("series", 2)
    assert error.most.value == pytest.approx(2.0)


def test_repeats_of_a_cell_win_over_series() -> None:
    rows = [*arm({1: 100.0}), *arm({1: 101.0}, repeat=2), *arm({1: 150.0}, series="k3")]
    assert found(*rows).kind == "repeats"


@pytest.mark.parametrize("changes", [{"kv_cache_dtype": "fp8_e5m2"}, {"nvlink": "off"}, {"max_num_seqs": 16}])
def test_series_that_differ_in_a_setting_are_no_repeat(changes: dict[str, object]) -> None:
    assert repeat_errors(study_of(*arm({1: 100.0}), *arm({1: 102.0}, series="k3", **changes))) == {}


def test_configurations_that_look_alike_within_a_series_are_no_repeat() -> None:
    twin = make_row(concurrency=1, requests=2, configuration_id="another", row_id="another")
    assert repeat_errors(study_of(*arm({1: 100.0}), twin, *arm({1: 102.0}, series="k3"))) == {}


def test_measured_and_emulated_repeats_of_a_cell_are_never_one_error() -> None:
    """An id says nothing of the engine's kind: both may have the same."""
    rows = [*arm({1: 100.0}), *arm({1: 102.0}, repeat=2), *arm({1: 150.0}, repeat=3, provenance="emulated")]
    assert len({row.configuration_id for row in rows}) == 1
    ((kin, error),) = repeat_errors(study_of(*rows)).items()
    assert kin.provenance == "measured"
    assert error.most.value == pytest.approx(2.0)
    beside = [*rows, *arm({1: 165.0}, repeat=4, provenance="emulated")]
    each = {kin.provenance: error.most.value for kin, error in repeat_errors(study_of(*beside)).items()}
    assert each == {"measured": pytest.approx(2.0), "emulated": pytest.approx(10.0)}
    series = [*arm({1: 100.0}), *arm({1: 150.0}, series="k3", provenance="emulated")]
    assert repeat_errors(study_of(*series)) == {}


def test_repeats_with_and_without_speculation_are_two_errors() -> None:
    rows = [*arm({1: 100.0}), *arm({1: 101.0}, repeat=2), *arm({1: 150.0}, **MTP), *arm({1: 165.0}, repeat=2, **MTP)]
    each = {kin.speculating: error.most.value for kin, error in repeat_errors(study_of(*rows)).items()}
    assert each == {False: pytest.approx(1.0), True: pytest.approx(10.0)}


def test_one_measurement_a_cell_has_no_error() -> None:
    assert repeat_errors(study_of(*arm({1: 100.0, 8: 300.0}))) == {}
    assert repeat_errors(study_of()) == {}


@given(st.lists(THROUGHPUTS, min_size=2, max_size=5))
def test_least_is_never_above_the_mean_nor_the_mean_above_most(throughputs: list[float]) -> None:
    rows = [row for at, value in enumerate(throughputs, 1) for row in (*arm({at: value}), *arm({at: 50.0}, repeat=2))]
    error = found(*rows)
    assert error.least.value <= error.mean.value * (1 + 1e-9) + 1e-9
    assert error.mean.value <= error.most.value * (1 + 1e-9) + 1e-9


def test_the_published_error_is_the_printed_one() -> None:
    published = read_published(DATA / "published")
    assert published is not None
    ((kin, error),) = repeat_errors(Study(name=PUBLISHED, figures=published.figures)).items()
    assert kin == Kin(PUBLISHED, speculating=None), "which configuration was repeated is not told"
    assert error.kind == "published"
    assert {error.least.by, error.mean.by, error.most.by} == {"published"}
    assert error.least.value < error.mean.value < error.most.value


def test_the_reference_plan_tells_its_error_by_one_configuration_in_two_series() -> None:
    ((kin, error),) = repeat_errors(read_campaign(DATA / "dual-3090")).items()
    assert kin == Kin("emulated", speculating=False)
    assert error.kind == "series"
    assert error.cells == 8  # one configuration with NVLink and without, at four concurrencies
