"""Every pair at every concurrency taken apart, gains like losses, and judged with what was missing."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log
from pathlib import Path

import pytest

from collector.analysis.study import Study
from collector.analysis.taken_apart import Apart, moved_most, taken_apart
from collector.report.build import read_campaign
from tests.analysis.arms import MTP, arm, pair_of, study_of

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture(scope="module")
def study() -> Study:
    return read_campaign(DATA / "dual-3090")


@pytest.fixture(scope="module")
def found(study: Study) -> list[Apart]:
    return taken_apart(study)


def test_every_ratio_is_taken_apart_also_those_that_gain(study: Study, found: list[Apart]) -> None:
    """By the rows themselves: each that speculates on the prompt that off was measured with is in a part."""
    shown = {name for _, cells in found for cell in cells for name in cell.part.ids}
    speculating = {row.row_id for row in study.rows if row.speculation != "off" and row.prompt_set == "synthetic"}
    assert speculating <= shown
    ratios = [cell.part.point.ratio for _, cells in found for cell in cells if cell.part.point.ratio]
    assert min(ratios) < 1 < max(ratios)


def test_the_factors_give_the_ratio_and_the_one_that_moved_most_is_the_largest_in_its_direction(
    found: list[Apart],
) -> None:
    seen = 0
    for _, cells in found:
        first = next(cell for cell in cells if cell.lowest)
        for cell in cells:
            shares = {}
            for name, sign in (("tokens", 1), ("step", -1), ("rest", 1)):
                here, before = getattr(cell.part, name), getattr(first.part, name)
                shares[name] = sign * log(here.value / before.value)
            assert cell.part.system is not None
            assert first.part.system is not None
            total = log(cell.part.system.value / first.part.system.value)
            assert sum(shares.values()) == pytest.approx(total, abs=1e-9)
            if cell.lowest:
                assert cell.moved is None
            else:
                seen += 1
                assert cell.moved == max(shares, key=lambda name: shares[name] * (1 if total > 0 else -1))
    assert seen == sum(times for _, times in moved_most(found))


def test_a_verdict_names_what_was_not_recorded(found: list[Apart]) -> None:
    supported = [
        cell.judged.contention
        for _, cells in found
        for cell in cells
        if cell.judged and cell.judged.contention.outcome == "supported"
    ]
    assert supported
    assert {one.absent for one in supported} == {("utilisation_on", "power_on", "power_off")}


def test_what_was_recorded_is_not_named_as_missing() -> None:
    rows = [replace(row, gpu_utilisation_mean=0.95, power_mean_w=500.0) for row in pair_of({1: 1.8, 8: 0.6})]
    ((_, (_, last)),) = taken_apart(study_of(*rows))
    assert last.judged is not None
    assert not {"utilisation_on", "power_on", "power_off"} & set(last.judged.contention.absent)


def test_a_missing_prediction_has_its_reason(study: Study) -> None:
    ((_, (cell, *_)),) = taken_apart(study_of(*pair_of({1: 1.8, 8: 0.6}, provenance="measured")))
    assert (cell.predicted, cell.why_not) == (None, "measured")
    ((_, (cell, *_)),) = taken_apart(study_of(*pair_of({1: 1.8, 8: 0.6}, provenance="emulated")))
    assert (cell.predicted, cell.why_not) == (None, "unknown"), "of a profile that says nothing"
    config = json.dumps(
        {"method": "mtp", "num_speculative_tokens": 4, "num_speculative_tokens_per_batch_size": [[1, 8, 4]]}
    )
    rows = [
        *arm({1: 50.0}, provenance="emulated"),
        *arm({1: 60.0}, **MTP | {"provenance": "emulated", "speculative_config": config}),
    ]
    ((_, (cell,)),) = taken_apart(study_of(*rows))
    assert (cell.predicted, cell.why_not) == (None, "varies")
