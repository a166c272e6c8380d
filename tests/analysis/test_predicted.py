"""A roofline speaks only of the emulation that it makes, and there it meets what was counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.analysis.predicted import Predicted, predicted
from collector.analysis.step_time import Part, cases_of
from collector.report.build import read_campaign
from tests.analysis.arms import pair_of

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, int], tuple[Part, Predicted]]:
    study = read_campaign(DATA / "dual-3090")
    cases = [one for one in cases_of(study.rows) if one.pair["nvlink"] == "on" and one.pair["kv_cache_dtype"] == "auto"]
    return {
        (case.pair["model"], part.concurrency): (part, one)
        for case in cases
        for part in case.parts
        if (one := predicted(part, study.profile))
    }


def test_alone_a_request_takes_the_step_that_the_roofline_says(
    found: dict[tuple[str, int], tuple[Part, Predicted]],
) -> None:
    for (_, concurrency), (part, one) in found.items():
        assert part.on.step is not None
        assert part.off.step is not None
        if concurrency == 1:
            assert one.on.value == pytest.approx(part.on.step.value, rel=0.01)
            assert one.off.value == pytest.approx(part.off.step.value, rel=0.01)
        else:  # what prefills, and preemptions, add to a decode step
            assert one.on.value <= part.on.step.value
            assert one.off.value <= part.off.step.value


def test_under_load_most_of_what_muse_adds_is_verification_and_alone_it_is_the_drafter(
    found: dict[tuple[str, int], tuple[Part, Predicted]],
) -> None:
    alone, loaded = (found["muse-glimmer-30b", at][1] for at in (1, 32))
    assert alone.drafter.value > 0.5 > alone.verification.value
    assert loaded.verification.value > 0.5 > loaded.drafter.value
    for one in (alone, loaded):
        assert 0 < one.verification.value + one.drafter.value <= 1


def test_of_measured_rows_and_of_unknown_models_nothing_is_predicted() -> None:
    profile = read_campaign(DATA / "dual-3090").profile
    (measured,) = cases_of(pair_of({8: 0.7}, model="gemma-4-31b"))
    assert predicted(measured.parts[0], profile) is None
    (emulated,) = cases_of(pair_of({8: 0.7}, model="gemma-4-31b", provenance="emulated"))
    assert predicted(emulated.parts[0], profile) is not None
    (unknown,) = cases_of(pair_of({8: 0.7}, provenance="emulated"))
    assert predicted(unknown.parts[0], profile) is None
    assert predicted(unknown.parts[0], None) is None


def test_a_campaign_of_another_profile_has_none(tmp_path: Path) -> None:
    study = read_campaign(DATA / "dual-3090")
    folder = tmp_path / "dual-3090"
    folder.mkdir()
    for name in ("rows.csv", "failures.csv", "positions.csv"):
        (folder / name).write_bytes((DATA / "dual-3090" / name).read_bytes())
    plan = (study.plan_text or "").replace("engine:\n", "engine:\n  profile: other.json\n", 1)
    (folder / "plan.yaml").write_text(plan)
    assert study.profile is not None
    assert read_campaign(folder).profile is None
