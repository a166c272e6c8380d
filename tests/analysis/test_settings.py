"""What to paste for a load, how sure a verdict is, and what would overturn it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.analysis.doubts import Basis, Doubt, confidence, doubts
from collector.analysis.noise import noise_of
from collector.analysis.recommend import Judged, advice
from collector.analysis.settings import Load, loads, withheld
from collector.analysis.study import Study
from collector.core.rows import Row
from collector.core.serving import command_text
from collector.core.speculative import SCHEDULE, TOKENS, check_speculation, reachable, schedule_of
from collector.report.build import read_campaign
from collector.report.sections.recommendations import cards
from collector.report.setting_files import setting_files
from collector.report.words import Words
from tests.analysis.arms import MTP, arm, pair_of, study_of

CAMPAIGNS = ("dual-3090", "follow-up", "schedule", "windows", "acceptance")
DATA = Path(__file__).resolve().parents[2] / "data"


def only(*rows: Row, target: float | None = None) -> Load:
    study = study_of(*rows)
    (load,) = loads(study, noise_of(study), ttft_p95_s=target)
    return load


def limits(load: Load) -> list[tuple[str, tuple[int, ...], str | None]]:
    return [(one.row.speculation, one.concurrencies, one.serving.option("max-num-seqs")) for one in load.settings]


def test_what_turns_is_two_settings_and_the_lower_one_may_not_get_higher() -> None:
    load = only(*pair_of({1: 1.7, 8: 0.7, 32: 0.4}))
    assert [bool(one.varying) for one in load.settings] == [False, True, False], "off is at worst 0.59, mtp 0.4"
    assert limits(load)[:2] == [("mtp", (1,), "1"), ("off", (8, 32), "32")]
    assert [one.limit for one in load.settings] == ["other", None, None]


def test_where_the_sign_changes_a_schedule_stands_beside_them_marked_as_a_prediction() -> None:
    load = only(*pair_of({1: 1.7, 8: 0.7, 32: 0.4}))
    scheduled = load.settings[-1]
    config = json.loads(scheduled.serving.option("speculative-config") or "")
    assert check_speculation(config) is None
    assert config[SCHEDULE][0][2] == 4
    assert config[SCHEDULE][-1][1:] == [32, 0]
    assert scheduled.suggested is not None
    assert scheduled.serving.option("max-num-seqs") == "32"
    assert len({one.file for one in load.settings}) == 3


def test_a_schedule_that_was_measured_is_no_prediction_any_more() -> None:
    rows = pair_of({1: 1.7, 8: 0.7, 32: 0.4})
    config = only(*rows).settings[-1].serving.option("speculative-config")
    run = [
        replace(row, row_id=f"{row.row_id}s", configuration_id="scheduled", speculative_config=config)
        for row in rows
        if row.speculation != "off"
    ]
    assert [one for one in only(*rows, *run).settings if one.suggested] == []


@pytest.mark.parametrize("ratios", [{1: 1.7, 8: 1.3}, {1: 0.7, 8: 0.5}])
def test_what_never_turns_has_one_setting_and_no_schedule(ratios: dict[int, float]) -> None:
    (one,) = only(*pair_of(ratios)).settings
    assert (one.limit, one.suggested, one.concurrencies) == (None, None, (1, 8))


def test_more_sequences_than_bring_throughput_are_not_let_in() -> None:
    load = only(*arm({1: 50.0, 16: 300.0, 32: 290.0}), *arm({1: 75.0, 16: 420.0, 32: 400.0}, **MTP))
    assert [(one.limit, one.serving.option("max-num-seqs")) for one in load.settings] == [("no_gain", "16")]


def test_a_schedule_that_may_not_reach_its_end_is_written_without_it() -> None:
    ranges = {TOKENS: 4, SCHEDULE: [[1, 2, 4], [3, 8, 1], [9, 32, 0]]}
    assert json.loads(reachable(json.dumps(ranges), 5) or "")[SCHEDULE] == [[1, 2, 4], [3, 5, 1]]
    assert json.loads(reachable(json.dumps(ranges), 2) or "") == {TOKENS: 4}
    assert reachable('{"method":"mtp"}', 2) == '{"method":"mtp"}'
    assert reachable(None, 2) is None


def test_no_setting_of_the_stored_campaigns_has_a_branch_that_it_cannot_reach() -> None:
    for name in CAMPAIGNS:
        study = read_campaign(DATA / name)
        for one in (setting for load in loads(study, advice(study)[0]) for setting in load.settings):
            most = int(one.serving.option("max-num-seqs") or 0)
            ranges = schedule_of(one.serving.option("speculative-config"))
            assert all(first <= most for first, _, _ in ranges), (name, one.file)


def test_of_the_measured_schedule_and_both_pure_settings_each_has_its_load() -> None:
    study = read_campaign(DATA / "schedule")
    (load,) = loads(study, advice(study)[0])
    varying, few, many = load.settings
    assert varying.varying is not None
    assert varying.concurrencies == load.compared
    assert schedule_of(varying.row.speculative_config) == ((1, 3, 15), (4, 32, 0))
    assert (few.row.speculation, few.concurrencies, few.row.speculative_config) == (
        "dflash",
        (1, 2, 3),
        few.serving.option("speculative-config"),
    ), "within noise the schedule is not the plainer one"
    assert (many.row.speculation, many.concurrencies) == ("off", (4, 8, 16, 32))


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_the_article_prints_lines_of_the_commands_that_recommend_prints(name: str) -> None:
    study = read_campaign(DATA / name)
    noise, found = advice(study)
    every = loads(study, noise)
    commands = [command_text(one.serving).replace(" \\\n", "\n") for load in every for one in load.settings]
    shown = [flags for card in cards(study, found, every, Words("en")) for flags in (*card.flags, *card.predicted)]
    assert shown
    for flags in shown:
        lines = {line.strip() for line in flags.text.replace(" \\\n", "\n").splitlines()}
        assert any(lines <= {line.strip() for line in command.splitlines()} for command in commands)
        assert f"--max-num-seqs {flags.setting.serving.option('max-num-seqs')}" in lines


def test_a_configuration_without_another_is_withheld() -> None:
    load = only(*arm({1: 60.0, 8: 300.0}))
    assert (load.settings, load.missing) == ((), "alone")


def test_rows_that_failed_a_check_are_set_to_nothing() -> None:
    assert loads(study_of(*arm({1: 60.0}, checks="throttled")), noise_of(study_of())) == ()


def test_emulated_and_measured_rows_are_two_loads() -> None:
    rows = [*pair_of({1: 1.5}), *pair_of({1: 0.5}, provenance="emulated", series="e")]
    found = loads(study_of(*rows), noise_of(study_of()))
    assert {one["provenance"] for one in found} == {"measured", "emulated"}
    for one in found:
        assert {each.row.provenance for each in one.settings} == {one["provenance"]}


def test_nvlink_on_and_off_are_two_loads_with_a_setting_of_their_own() -> None:
    rows = [*pair_of({1: 1.5, 8: 1.2}, nvlink="on"), *pair_of({1: 0.8, 8: 0.5}, nvlink="off")]
    found = {one["nvlink"]: one for one in loads(study_of(*rows), noise_of(study_of(*rows)))}
    assert set(found) == {"on", "off"}
    assert {name: [one.row.speculation for one in load.settings] for name, load in found.items()} == {
        "on": ["mtp"],
        "off": ["off"],
    }
    texts = setting_files(found.values())
    for name, load in found.items():
        (one,) = load.settings
        assert f", NVLink {name}, " in texts[f"{one.file}.sh"]


def timed(buckets: dict[int, tuple[float, float]], rows: list[Row]) -> list[Row]:
    return [
        replace(row, ttft_p95_low_s=buckets[row.concurrency][0], ttft_p95_high_s=buckets[row.concurrency][1])
        for row in rows
    ]


def test_a_target_for_ttft_gives_the_most_throughput_within_it() -> None:
    slow = timed({1: (0.1, 0.25), 8: (2.5, 5)}, arm({1: 90.0, 8: 700.0}, **MTP))
    quick = timed({1: (0.1, 0.25), 8: (0.5, 1)}, arm({1: 50.0, 8: 400.0}))
    (one,) = only(*slow, *quick, target=1).settings
    assert (one.row.speculation, one.concurrencies, one.serving.option("max-num-seqs")) == ("off", (8,), "8")
    (one,) = only(*slow, *quick, target=5).settings
    assert one.row.speculation == "mtp"


@pytest.mark.parametrize(("target", "missing"), [(0.05, "too_slow"), (0.2, "undecided")])
def test_a_target_that_nothing_is_sure_to_meet_is_withheld(target: float, missing: str) -> None:
    rows = timed({1: (0.1, 0.25)}, pair_of({1: 1.2}))
    assert only(*rows, target=target).missing == missing
    assert only(*pair_of({1: 1.2}), target=target).missing == "no_p95"


# --- how sure, and what would overturn it ---------------------------------------------------------------------


def judged(*rows: Row, **changes: Any) -> tuple[Study, Judged]:
    study = study_of(*rows, **changes)
    _, (found,) = advice(study)
    return study, found.speculation[0]


def basis(*rows: Row) -> Basis:
    study, one = judged(*rows)
    return confidence(one, noise_of(study)).basis


def again(rows: list[Row]) -> list[Row]:
    """Return two more repeats of these rows."""
    return [
        replace(
            row,
            row_id=f"{row.row_id}{repeat}",
            repeat=repeat,
            system_throughput_tok_s=(1 + repeat / 1000) * (row.system_throughput_tok_s or 0.0),
        )
        for repeat in (2, 3)
        for row in rows
    ]


def test_confidence_says_how_often_it_was_measured() -> None:
    rows = pair_of({1: 1.7, 8: 1.4})
    assert basis(*rows) == "unknown"
    assert basis(*rows, *again(rows)) == "repeated"
    assert basis(*rows, *again([row for row in rows if row.concurrency == 1])) == "partly"


def test_the_effect_nearest_to_noise_is_named() -> None:
    study, one = judged(*pair_of({1: 1.7, 8: 1.1, 32: 1.01}))
    found = confidence(one, noise_of(study))
    assert found.weakest is not None
    assert found.weakest.concurrency == 8  # at 32 it is within noise and decides nothing


def told_of(*rows: Row) -> dict[str, Doubt]:
    study, one = judged(*rows)
    return {doubt.kind: doubt for doubt in doubts(study, one, noise_of(study))}


def test_only_an_effect_that_decides_alone_would_overturn_a_verdict_and_the_nearest_to_noise_is_named() -> None:
    assert told_of(*pair_of({1: 1.08, 2: 1.7, 4: 1.4, 8: 0.8, 16: 0.9}))["weakest"].at == (8,), "1 and 16 move no edge"
    assert "weakest" not in told_of(*pair_of({1: 1.7, 8: 1.1})), "one gain fewer is still a gain and no loss"
    assert told_of(*pair_of({1: 1.7, 8: 1.01}))["weakest"].at == (1,)
    assert told_of(*pair_of({1: 1.01, 8: 0.97}))["strongest"].at == (8,)


def test_of_intervals_the_one_nearest_to_leaving_out_nothing_is_the_weakest_however_large_its_effect() -> None:
    """In the campaign that measured it, the schedule's 1.37 at 2 is surer by less than its 0.88 at 32."""
    study = read_campaign(DATA / "schedule")
    noise, (found,) = advice(study)
    (one,) = [each for each in found.speculation if schedule_of(each.pair["speculative_config"])]
    weakest = confidence(one, noise).weakest
    assert weakest is not None
    assert weakest.value is not None
    margins = {point.concurrency: noise.margin(point.value) for point in one.pair.measured if point.value}
    assert margins[weakest.concurrency] == min(margins.values())
    assert min(margins.values()) > 1, "all of them count"


def test_neighbours_and_what_was_measured_between_are_no_place_where_nothing_is_decided() -> None:
    assert not {"between", "tied"} & told_of(*pair_of({1: 1.7, 3: 1.3, 4: 0.8})).keys()
    assert told_of(*pair_of({1: 1.7, 3: 1.3, 4: 1.01, 5: 0.8}))["tied"].at == (3, 5, 4)
    assert "between" in told_of(*pair_of({1: 1.7, 3: 1.3, 4: 1.01, 6: 0.8}))


def kinds(*rows: Row) -> dict[str, tuple[int, ...]]:
    study, one = judged(*rows)
    return {doubt.kind: doubt.at for doubt in doubts(study, one, noise_of(study))}


def test_what_turns_may_turn_elsewhere_in_between() -> None:
    assert kinds(*pair_of({1: 1.7, 8: 0.7}))["between"] == (1, 8)


def test_a_gain_may_end_above_and_a_loss_below_what_was_measured() -> None:
    assert kinds(*pair_of({1: 1.7, 8: 1.4}))["above"] == (8,)
    assert kinds(*pair_of({4: 0.7, 8: 0.6}))["below"] == (4,)
    assert "below" not in kinds(*pair_of({1: 0.7, 8: 0.6}))


def test_emulated_rows_are_doubted_for_it_and_measured_ones_are_not() -> None:
    assert "emulated" in kinds(*pair_of({1: 1.7}, provenance="emulated"))
    assert "emulated" not in kinds(*pair_of({1: 1.7}))


def test_a_gain_is_lost_below_a_yield_that_is_lower_than_the_measured_one_and_a_loss_the_other_way_round() -> None:
    study, one = judged(*pair_of({1: 1.7, 8: 0.7}))
    found = {doubt.kind: doubt for doubt in doubts(study, one, noise_of(study))}
    for doubt, sign in ((found["yields_less"], 1), (found["yields_more"], -1)):
        bound, now = doubt.bound, doubt.now
        assert bound is not None
        assert now is not None
        assert sign * (now.value - bound.value) > 0


def test_a_withheld_verdict_names_the_missing_measurement_and_its_load_says_so() -> None:
    rows = pair_of({1: 0.9, 8: 0.7}, tokens_per_step=1.0)
    assert "unproved" in kinds(*rows)
    study, _ = judged(*rows)
    noise, found = advice(study)
    (load,) = loads(study, noise)
    assert [one.pair.speculation for one in withheld(load, found)] == ["mtp"]
    assert [one.row.speculation for one in load.settings] == ["off"]


def test_the_stored_campaigns_give_the_settings_of_the_article() -> None:
    """Muse: drafting for one request, none under load; Gemma: drafting throughout; EXAONE: withheld."""
    study = read_campaign(DATA / "dual-3090")
    noise, found = advice(study)
    known = {one.model: one for one in loads(study, noise) if one["prompt_set"] == "synthetic"}
    assert [one[:2] for one in limits(known["muse-glimmer-30b"])[:2]] == [("dflash", (1,)), ("off", (8, 16, 32))]
    assert [one[:2] for one in limits(known["gemma-4-31b"])] == [("mtp", (1, 8, 16, 32))]
    assert withheld(known["exaone-4.5-33b"], found)
    assert not withheld(known["gemma-4-31b"], found)
