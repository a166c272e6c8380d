"""A plan that continues another: the same cells, by the same ids, whatever way the first one wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.core.configuration import row_id
from collector.core.errors import PlanError
from collector.core.follow_up import Wanted, configuration_with, follow_up_plan
from collector.core.plan import parse_plan

PLANS = Path(__file__).parents[2] / "plans"


@pytest.mark.parametrize("name", ["cpu-tiny", "dual-3090", "follow-up", "schedule", "windows", "acceptance"])
def test_all_cells_of_a_plan_can_be_asked_for_again_with_more_repeats(name: str) -> None:
    text = (PLANS / f"{name}.yaml").read_text()
    plan = parse_plan(text, name)
    cells = [
        Wanted(configuration=run.configuration, stage=stage, repeats=2)
        for run in plan.runs
        if run.repeat == 1
        for stage in run.stages
    ]
    again = parse_plan(follow_up_plan(text, cells, ["why"]), "again.yaml")
    assert (again.campaign, again.continues, again.engine) == (plan.campaign, plan.digest, plan.engine)
    assert {row_id(run.configuration, stage, run.repeat) for run in again.runs for stage in run.stages} == {
        row_id(one.configuration, one.stage, repeat) for one in cells for repeat in (1, 2)
    }


def test_the_off_side_of_a_configuration_has_the_id_that_a_plan_gives_it() -> None:
    plan = parse_plan((PLANS / "dual-3090.yaml").read_text(), "p")
    ids = {one.configuration_id for one in plan.configurations}
    on = [one for one in plan.configurations if one.speculation != "off"]
    assert on
    assert {configuration_with(one, None).configuration_id for one in on} <= ids


def test_a_block_may_be_repeated_more_often_than_the_plan() -> None:
    text = (
        (PLANS / "schedule.yaml").read_text().replace("  prompt_tokens: 655\n", "  prompt_tokens: 655\n  repeats: 4\n")
    )
    assert {run.repeat for run in parse_plan(text, "p").runs} == {1, 2, 3, 4}
    with pytest.raises(PlanError, match="repeats"):
        parse_plan(text.replace("repeats: 4", "repeats: 0"), "p")
