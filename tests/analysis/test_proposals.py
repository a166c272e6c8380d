"""What to measure next: the same whatever the order of the rows, with costs from the campaign, into the same ids."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from collector.analysis.proposal import KINDS, Proposal
from collector.analysis.proposals import proposals
from collector.analysis.schedule import is_pure
from collector.analysis.study import Study
from collector.core.configuration import row_id
from collector.core.follow_up import follow_up_plan
from collector.core.plan import parse_plan
from collector.core.speculative import SAMPLER, synthetic_of
from collector.report.build import read_campaign
from collector.report.proposal_words import minutes, reason
from collector.report.words import Words, plain

DATA = Path(__file__).parents[2] / "data"


def _study(name: str) -> Study:
    return read_campaign(DATA / name)


@pytest.fixture(scope="module")
def found() -> list[Proposal]:
    study = _study("dual-3090")
    return proposals(study, study.plans)


#: Muse's schedule waits for its bracket.
OPEN = tuple(kind for kind in KINDS if kind != "schedule")


def test_the_best_of_each_kind_comes_first(found: list[Proposal]) -> None:
    assert tuple(one.kind for one in found[: len(OPEN)]) == OPEN


def test_a_schedule_waits_until_the_bracket_that_it_turns_in_is_narrow(found: list[Proposal]) -> None:
    assert not [one for one in found if one.kind == "schedule"], "Muse turns somewhere between 1 and 8"
    (known,) = [one for one in proposals(_study("follow-up"), _study("follow-up").plans) if one.kind == "schedule"]
    assert (known.pair["model"], known.turns) == ("muse-glimmer-30b", ()), "there it turns between 3 and 4"


def test_what_is_within_noise_asks_for_no_schedule() -> None:
    study = _study("follow-up")
    assert not [one for one in proposals(study, study.plans) if (one.kind, one.pair["model"]) == ("schedule", GEMMA)]


GEMMA = "gemma-4-31b"


def test_what_another_campaign_beside_it_has_measured_is_named_with_it() -> None:
    names = ("dual-3090", "follow-up", "schedule", "acceptance")
    studies = {name: _study(name) for name in names}

    def told(name: str) -> set[tuple[str, str, str | None]]:
        study = studies[name]
        others = [one for one in studies.values() if one is not study]
        return {(one.kind, one.pair["model"], one.measured_in) for one in proposals(study, study.plans, others)}

    assert told("schedule") == {("acceptance", "muse-glimmer-30b", "acceptance")}
    assert told("acceptance") == {("bracket", "muse-glimmer-30b", "schedule")}
    assert ("schedule", "muse-glimmer-30b", "schedule") in told("follow-up")
    dual = told("dual-3090")
    assert {(kind, where) for kind, model, where in dual if model == GEMMA} == {
        ("partner", "follow-up"),
        ("repeat", None),  # drafting was repeated nowhere in it
    }
    assert ("bracket", "muse-glimmer-30b", "follow-up") in dual
    assert {where for kind, _, where in dual if kind == "repeat"} == {None}


def test_another_host_or_other_drafts_settle_nothing() -> None:
    study, other = _study("schedule"), _study("acceptance")
    for change in (
        {"host_id": "elsewhere"},
        {"num_speculative_tokens": 3},
        {"concurrency": 9},
        {"checks": "throttled"},
    ):
        changed = replace(other, rows=tuple(replace(row, **change) for row in other.rows))
        assert [one.measured_in for one in proposals(study, study.plans, [changed])] == [None]


def test_an_acceptance_that_was_asked_for_here_is_not_asked_again_for_its_last_digit() -> None:
    study = _study("acceptance")
    assert "acceptance" not in {one.kind for one in proposals(study, study.plans)}


def test_a_schedule_lacks_no_partner_of_its_own() -> None:
    study = _study("schedule")
    lost = [row for row in study.rows if row.speculation == "off" and row.concurrency in (2, 16)]
    rows = tuple(row for row in study.rows if row not in lost)
    found = [one for one in proposals(replace(study, rows=rows), study.plans) if one.kind == "partner"]
    assert found
    assert all(is_pure(one.pair) for one in found)


def test_the_pace_of_an_acceptance_that_was_asked_for_is_nobodys() -> None:
    study = _study("acceptance")
    (plain,) = [one for one in proposals(study, study.plans) if one.kind == "bracket"]
    slow = tuple(
        replace(row, system_throughput_tok_s=0.1, start_s=9e4) if synthetic_of(row.speculative_config) else row
        for row in study.rows
    )
    (again,) = [one for one in proposals(replace(study, rows=slow), study.plans) if one.kind == "bracket"]
    assert again.cost == plain.cost


def test_muses_bracket_is_halved_where_its_estimate_says_and_exaone_gets_real_text_under_load(
    found: list[Proposal],
) -> None:
    first = {kind: next(one for one in found if one.kind == kind) for kind in OPEN}
    bracket, withheld = first["bracket"], first["withheld"]
    assert (bracket.pair["model"], bracket.bracket, bracket.concurrencies) == ("muse-glimmer-30b", (1, 8), (4, 5))
    assert withheld.pair["model"] == "exaone-4.5-33b"
    assert {cell.configuration.speculation for cell in withheld.cells} == {"off", "mtp"}
    assert {cell.stage.concurrency for cell in withheld.cells} == {1, 32}
    assert len(withheld.prompt_sets) == 4
    assert {cell.configuration.speculation for cell in first["partner"].cells} == {"off"}
    assert SAMPLER in (first["acceptance"].cells[0].configuration.speculative_config or "")
    assert {cell.repeats for cell in first["repeat"].cells} == {3}


def test_costs_come_from_the_campaigns_own_starts_and_windows(found: list[Proposal]) -> None:
    assert {one.cost.source for one in found} == {"rows"}
    bracket = next(one for one in found if one.kind == "bracket")
    study = _study("dual-3090")
    assert bracket.cost.starts == 2
    starts = [row.start_s for row in study.rows if row.row_id in bracket.row_ids and row.start_s]
    assert bracket.cost.seconds > 2 * min(starts), "two engine starts and four stages"
    assert bracket.cost.seconds < 2 * max(starts) + 4 * 60


def test_without_rows_to_go_by_the_cost_is_the_plans_estimate() -> None:
    study = _study("dual-3090")
    rows = tuple(replace(row, start_s=None) for row in study.rows)
    told = proposals(replace(study, rows=rows), study.plans)
    assert {one.cost.source for one in told} == {"both"}


def test_proposals_and_their_plan_do_not_depend_on_the_order_of_rows() -> None:
    study = _study("follow-up")
    rows, failures = list(study.rows), list(study.failures)
    stored = study.plan_text or ""
    expected = proposals(study, study.plans)
    for seed in range(2):
        random.Random(seed).shuffle(rows)
        again = replace(study, rows=tuple(rows), failures=tuple(failures))
        told = proposals(again, study.plans)
        assert [(one.kind, one.concurrencies, one.row_ids, one.cost) for one in told] == [
            (one.kind, one.concurrencies, one.row_ids, one.cost) for one in expected
        ]
        assert follow_up_plan(stored, told[0].cells) == follow_up_plan(stored, expected[0].cells)


@pytest.mark.parametrize("name", ["dual-3090", "follow-up", "schedule", "windows", "acceptance"])
def test_every_proposal_is_a_plan_of_its_own_that_keeps_the_ids_of_known_configurations(name: str) -> None:
    study = _study(name)
    known = {row.configuration_id for row in study.rows}
    for one in proposals(study, study.plans):
        plan = parse_plan(follow_up_plan(study.plan_text or "", one.cells), "next.yaml")
        assert (plan.campaign, plan.continues) == (name, study.plans[0].digest)
        cells = {row_id(run.configuration, stage, run.repeat) for run in plan.runs for stage in run.stages}
        assert cells - {row.row_id for row in study.rows}, "there is something left to measure"
        changed = {run.configuration.configuration_id for run in plan.runs} - known
        assert bool(changed) == (one.kind in ("schedule", "acceptance"))


@pytest.mark.parametrize("language", ["ko", "en"])
def test_each_reason_says_what_to_measure_in_both_languages(found: list[Proposal], language: str) -> None:
    words = Words(language)
    for one in found:
        told = plain(reason(one, words))
        assert all(str(at) in told for at in one.concurrencies)
        assert "None" not in told
        assert str(one.cost.starts) in plain(minutes(one, words))


def test_rows_with_failed_checks_rest_under_no_proposal() -> None:
    study = _study("dual-3090")
    bad = {row.row_id for row in study.rows if row.concurrency == 8}
    rows = tuple(replace(row, checks="client_bound") if row.row_id in bad else row for row in study.rows)
    for one in proposals(replace(study, rows=rows), study.plans):
        assert not bad & set(one.row_ids)
