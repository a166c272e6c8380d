"""What a speculative configuration may ask of the embedded engine beside k: a schedule, an acceptance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collector.core.configuration import Configuration
from collector.core.plan import parse_plan
from collector.core.roofline import passes
from collector.core.speculative import check_speculation
from collector.core.step import StepLoad
from collector.emulator.physics import step_time
from collector.emulator.profile_file import profile_of
from collector.emulator.setup import setup_of

PLAN = (Path(__file__).parents[2] / "plans" / "schedule.yaml").read_text()


def _configurations() -> dict[str, Configuration]:
    plan = parse_plan(PLAN, "schedule.yaml")
    names = ("off", "always", "scheduled")
    return dict(zip(names, plan.configurations, strict=True))


def _load(k: int, requests: int = 8) -> StepLoad:
    return StepLoad(0, requests, requests, requests, 800 * requests, 0, k, requests, requests)


def test_where_a_schedule_says_0_the_drafters_first_forward_still_runs() -> None:
    profile, found = profile_of("dual-3090"), _configurations()
    seconds = {name: step_time(profile, setup_of(one)) for name, one in found.items()}
    without = seconds["off"](_load(0)._replace(drafting=0))
    idle, drafting = seconds["scheduled"](_load(0)), seconds["scheduled"](_load(15))
    assert without < idle < drafting
    assert passes(True, _load(0)) == [(8, 0)], "one position a request, nothing proposed"
    assert passes(False, _load(0)) == [(8, 0)]
    assert passes(False, _load(2)) == [(8, 8), (8, 8)]
    assert passes(True, _load(0)._replace(drafting=0)) == []


@pytest.mark.parametrize(
    ("asked", "conditional"),
    [
        ({"synthetic_acceptance_length": 2.5}, (1.0, 0.5, 0.0)),
        ({"synthetic_acceptance_rates": [0.8, 0.4, 0.1]}, (0.8, 0.5, 0.25)),
    ],
)
def test_synthetic_acceptance_is_conditional_on_the_position_before(
    asked: dict[str, object], conditional: tuple[float, ...]
) -> None:
    config = {"method": "dflash", "num_speculative_tokens": 3, "rejection_sample_method": "synthetic"} | asked
    text = PLAN.replace('{method: dflash, model: "{drafter}", num_speculative_tokens: 15}', json.dumps(config))
    one = parse_plan(text, "p.yaml").configurations[1]
    assert setup_of(one).synthetic == pytest.approx(conditional)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, "needs num_speculative_tokens and either"),
        ({"synthetic_acceptance_length": 5}, "a number from 1 to 4"),
        ({"synthetic_acceptance_rates": [0.1, 0.4, 0.8]}, "none larger than the one before"),
        ({"synthetic_acceptance_rates": [0.8, 0.4]}, "3 numbers from 0 to 1"),
    ],
)
def test_what_vllm_would_refuse_of_it_is_refused_before_anything_starts(asked: dict[str, object], told: str) -> None:
    config = {"method": "mtp", "num_speculative_tokens": 3, "rejection_sample_method": "synthetic"} | asked
    assert told in (check_speculation(config) or "")
