"""What a drafter costs besides its time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collector.analysis.drafters import drafters
from collector.analysis.waste import loaded_of, width_of
from collector.report.build import read_campaign
from tests.analysis.arms import pair_of, study_of

DATA = Path(__file__).resolve().parents[2] / "data"
GIB = 2**30


def test_a_drafter_s_size_is_what_the_engine_loaded_more_with_it() -> None:
    rows = [replace(row, model_load_gib=9.5 if row.speculation == "off" else 10.0) for row in pair_of({1: 1.8, 8: 0.6})]
    study = study_of(*rows)
    (one,) = drafters(study)
    found = loaded_of(study, one)
    assert found is not None
    assert (found.value, len(found.ids), len(found.base)) == (0.5, 1, 1)
    width = width_of(study, one)
    assert width is not None
    assert width.value == 5


def test_a_size_that_no_log_tells_is_not_known() -> None:
    study = study_of(*pair_of({1: 1.8, 8: 0.6}))
    (one,) = drafters(study)
    assert loaded_of(study, one) is None


def test_by_the_emulation_s_logs_the_drafters_are_as_large_as_its_profile_says() -> None:
    study = read_campaign(DATA / "dual-3090")
    assert study.profile is not None
    seen = 0
    for one in drafters(study):
        found = loaded_of(study, one)
        stated = study.profile["models"][one["model"]]["dimensions"]["drafters"][one["speculation"]]["weight_bytes"]
        if found:
            seen += 1
            assert found.value == pytest.approx(stated / GIB / one.rows[0].tensor_parallel, abs=0.011), "two roundings"
    assert seen > 2
