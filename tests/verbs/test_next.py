"""`collector next`, and what `sweep` makes of its plan: the same campaign, more rows, the same ids."""

from __future__ import annotations

import csv
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from collector.analysis.added import added
from collector.analysis.settings import asked_of
from collector.cli import main
from collector.core.configuration import row_id
from collector.core.plan import parse_plan
from collector.report.build import TEMPLATES, loader_of, read_campaign
from collector.report.downloads import data_page
from collector.report.environment import strict_environment
from collector.report.words import Words

ROOT = Path(__file__).parents[2]
PLAN = """\
plan: 1
campaign: muse
engine: {kind: emulated, version: 0.27.0}
models:
  muse-glimmer-30b: {path: org/muse, drafter: org/muse-dflash}
speculation:
  dflash-15: {method: dflash, model: "{drafter}", num_speculative_tokens: 15}
defaults: {tensor_parallel: 2, max_model_len: 16384, max_num_seqs: 32, nvlink: on, kv_cache_dtype: fp8_e5m2}
matrix: {model: muse-glimmer-30b, speculation: [off, dflash-15]}
stages: {concurrency: {1: 8, 8: 32, 32: 64}, prompt_tokens: 655}
"""

#: Gemma gains at both; Muse's own length is refused without speculation.
BOTH = """\
plan: 1
campaign: both
engine: {kind: emulated, version: 0.27.0}
models:
  muse-glimmer-30b: {path: org/muse, drafter: org/muse-dflash}
  gemma-4-31b: {path: org/gemma, drafter: org/gemma-mtp}
speculation:
  dflash-15: {method: dflash, model: "{drafter}", num_speculative_tokens: 15}
  mtp-4: {method: mtp, model: "{drafter}", num_speculative_tokens: 4}
defaults: {tensor_parallel: 2, max_num_seqs: 32, nvlink: on}
matrix:
  - {model: muse-glimmer-30b, speculation: dflash-15, max_model_len: 16384}
  - {model: muse-glimmer-30b, speculation: off, max_model_len: 16384000}
  - {model: gemma-4-31b, speculation: [off, mtp-4], max_model_len: 16384}
stages: {concurrency: {1: 8, 8: 32}, prompt_tokens: 655}
"""


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "rows.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("next")
    (folder / "muse.yaml").write_text(PLAN)
    assert main(["sweep", str(folder / "muse.yaml"), "--out", str(folder / "data")]) == 0
    return folder


@pytest.fixture
def campaign(swept: Path, tmp_path: Path) -> Path:
    shutil.copytree(swept / "data", tmp_path / "data")
    return tmp_path / "data" / "muse"


def test_its_plan_is_swept_into_the_same_campaign(campaign: Path, tmp_path: Path) -> None:
    plan, data = tmp_path / "next.yaml", str(campaign.parent)
    before = _rows(campaign)
    assert main(["next", "muse", "--data", data, "--out", str(plan), "--most", "6"]) == 0
    assert main(["sweep", str(plan), "--out", data]) == 0
    after = _rows(campaign)
    asked = parse_plan(plan.read_text(), "next.yaml")
    assert after[: len(before)] == before, "rows are added, none is changed"
    assert len(after) > len(before)
    assert {row["plan_digest"] for row in after} == {before[0]["plan_digest"], asked.digest}
    assert (campaign / "plan.yaml").read_text() == PLAN
    assert (campaign / f"plan-{asked.digest}.yaml").read_text() == plan.read_text()
    pure = {row["configuration_id"] for row in after if "batch_size" not in row["speculative_config"]}
    assert {row["configuration_id"] for row in before} < pure, "old ids stay; synthetic acceptance has one of its own"
    assert main(["check", str(campaign)]) == 0
    assert main(["status", str(campaign)]) == 0
    # With the acceptance asked for it nearly breaks even.
    synthetic = next(row for row in after if "synthetic_acceptance" in row["speculative_config"])
    off = next(row for row in after if row["speculation"] == "off" and row["concurrency"] == synthetic["concurrency"])
    ratio = float(synthetic["system_throughput_tok_s"]) / float(off["system_throughput_tok_s"])
    assert 0.95 < ratio < 1.05
    # Both plans go on where they stopped: nothing is measured twice.
    for one in (plan, campaign / "plan.yaml"):
        assert main(["sweep", str(one), "--out", data]) == 0
    assert _rows(campaign) == after
    # What is proposed next no longer holds what was just measured.
    again = tmp_path / "again.yaml"
    assert main(["next", "muse", "--data", data, "--out", str(again), "--most", "6"]) == 0
    if again.exists():
        assert parse_plan(again.read_text(), "again.yaml").continues == asked.continues


def test_a_program_gets_the_rows_the_cost_and_the_cells(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["next", str(campaign), "--json", "--most", "1"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["concurrencies"], told["cost_from"]) == ("bracket", [4, 5], "rows")
    assert set(told["rows"]) <= {row["row_id"] for row in _rows(campaign)}
    assert len(told["cells"]) == 4
    assert told["cost_s"] > 60


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["next", "nowhere"], "no campaign there"),
        (["next", str(ROOT / "data" / "published")], "figures that others printed"),
        (["next", "dual-3090", "--data", str(ROOT / "data"), "--most", "0"], "expected 1 or more"),
        (["next", "dual-3090", "--data", str(ROOT / "data"), "--out", "/nowhere/x.yaml"], "cannot be written"),
    ],
)
def test_wrong_use_is_exit_code_2_with_the_fix(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_only_a_plan_that_continues_this_very_campaign_is_added_to_it(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "other.yaml"
    digest = parse_plan(PLAN, "p").digest
    told = {
        PLAN.replace("32: 64", "16: 48"): f"`continues: {digest}`",
        PLAN + "continues: 0123456789ab\n": f"its plan's digest is {digest}",
        PLAN + "continues: nonsense\n": "continues",
    }
    for text, said in told.items():
        plan.write_text(text)
        assert main(["sweep", str(plan), "--out", str(campaign.parent)]) == 2
        assert said in capsys.readouterr().err
    plan.write_text(PLAN + f"continues: {digest}\n")
    assert main(["sweep", str(plan), "--out", str(tmp_path / "elsewhere")]) == 2
    assert "there is no campaign yet" in capsys.readouterr().err
    assert len(_rows(campaign)) == 6


def test_sweeping_until_the_break_even_narrows_muse_to_one_step_with_at_most_four_more(
    swept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "data"
    shutil.copytree(swept / "data", out)
    command = ["sweep", str(swept / "muse.yaml"), "--out", str(out), "--until", "break-even"]
    assert main(command) == 0
    rows = _rows(out / "muse")
    speed = {(row["speculation"], int(row["concurrency"])): float(row["system_throughput_tok_s"]) for row in rows}
    stages = sorted({at for _, at in speed})
    ratios = {at: speed["dflash", at] / speed["off", at] for at in stages}
    (turn,) = [at for at, later in pairwise(stages) if ratios[at] > 1 > ratios[later]]
    assert stages[stages.index(turn) + 1] == turn + 1, f"one step wide: {ratios}"
    assert len(set(stages) - {1, 8, 32}) <= 4
    events = [json.loads(line) for line in (out / "muse" / "journal.jsonl").read_text().splitlines()]
    added = [event for event in events if event["event"] == "stages_added"]
    assert sorted(at for event in added for at in event["concurrencies"]) == sorted(set(stages) - {1, 8, 32})
    assert all(set(event["because"]) <= {row["row_id"] for row in rows} for event in added)
    # The same ids as if the plan had listed them, and nothing more to do.
    seen = dict.fromkeys(f"{row['concurrency']}: {row['requests']}" for row in rows)
    listed = PLAN.replace("{1: 8, 8: 32, 32: 64}", "{" + ", ".join(seen) + "}")
    plan = parse_plan(listed, "p")
    assert {row["row_id"] for row in rows} == {
        row_id(run.configuration, stage, 1) for run in plan.runs for stage in run.stages
    }
    capsys.readouterr()
    assert main(command) == 0
    assert _rows(out / "muse") == rows
    told = capsys.readouterr().out
    assert "done: 6 of 6 rows" in told
    way = "muse-glimmer-30b dflash k=15, KV fp8_e5m2, NVLink on, synthetic"
    assert f"break-even of {way} lies between {turn} and {turn + 1} (neighbours)" in told, "also with nothing to add"
    # Now that its turning point is known, the schedule is what is left to measure.
    assert main(["next", "muse", "--data", str(out), "--json"]) == 0
    (schedule,) = [one for one in json.loads(capsys.readouterr().out) if one["kind"] == "schedule"]
    assert f"batch 1–{turn}: k=15, batch {turn + 1}–32: k=0" in schedule["reason"]
    assert schedule["concurrencies"] == stages


def test_a_sweep_until_the_break_even_says_of_each_pair_what_came_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gemma never loses; Muse without speculation never starts, so nothing of it can be compared."""
    plan = tmp_path / "both.yaml"
    plan.write_text(BOTH)
    command = ["sweep", str(plan), "--out", str(tmp_path / "data"), "--until", "break-even"]
    assert main(command) == 1
    told = capsys.readouterr().out
    assert (
        "no break-even of gemma-4-31b mtp k=4, KV auto, NVLink on, synthetic: it never loses at the measured "
        "concurrencies (1, 8)"
    ) in told
    assert "no break-even of muse-glimmer-30b dflash k=15, KV auto, NVLink on, synthetic: no ratio, at 1, 8 " in told
    assert "speculation off has no rows because its engine failed (max_model_len; failures.csv: " in told
    assert main(["next", "both", "--data", str(tmp_path / "data")]) == 0
    told = capsys.readouterr().out
    assert "nothing left" not in told
    assert "muse-glimmer-30b · KV auto · speculation off · NVLink on has no rows: max_model_len" in told


@pytest.mark.parametrize("verb", ["next", "status", "recommend"])
@pytest.mark.parametrize(("fault", "said"), [("twice", "stands twice"), ("moved", "as the folder is called")])
def test_rows_that_stand_twice_or_belong_elsewhere_are_refused_alike(
    verb: str, fault: str, said: str, campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = campaign / "rows.csv"
    text = table.read_text()
    table.write_text(text + text.splitlines(keepends=True)[-1] if fault == "twice" else text.replace(",muse,", ",x,"))
    assert main([verb, str(campaign)]) == 2
    assert said in capsys.readouterr().err


def test_a_sweep_until_the_break_even_that_was_interrupted_goes_on_with_the_same_stages(
    swept: Path, tmp_path: Path
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for one in (whole, cut):
        shutil.copytree(swept / "data", one)
        assert main(["sweep", str(swept / "muse.yaml"), "--out", str(one), "--until", "break-even"]) == 0
    table = cut / "muse" / "rows.csv"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(lines[:9]))  # header, six rows of the plan, and what one side got first
    assert main(["sweep", str(swept / "muse.yaml"), "--out", str(cut), "--until", "break-even"]) == 0
    assert {row["row_id"] for row in _rows(cut / "muse")} == {row["row_id"] for row in _rows(whole / "muse")}


def test_the_pages_tell_which_stages_were_added_and_how_to_measure_them_again(campaign: Path, tmp_path: Path) -> None:
    plan, data = tmp_path / "next.yaml", str(campaign.parent)
    assert added(read_campaign(campaign)) == ()
    before = {row["row_id"] for row in _rows(campaign)}
    assert main(["next", "muse", "--data", data, "--out", str(plan), "--most", "6"]) == 0
    assert main(["sweep", str(plan), "--out", data]) == 0
    (one,) = added(study := read_campaign(campaign))
    assert one.file is not None
    assert {row.row_id for row in one.rows} == {row["row_id"] for row in _rows(campaign)} - before
    page = data_page(study, Words("en"), strict_environment(loader_of(TEMPLATES), "en"), ())
    assert f"collector sweep {one.file} --engine emulated --out again" in page
    assert all(
        f">{at}</data>" in page.partition("Stages added later")[2] for _, _, stages in one.stages for at in stages
    )
    new = {row.configuration_id for row in one.rows} - {each.configuration_id for each in study.plans[0].configurations}
    assert new, "some of the added configurations are in no other plan"
    assert new <= set(asked_of(study)), "so that the settings page knows their environment"


def test_stages_that_a_sweep_chose_itself_are_told_apart_from_those_of_a_plan(campaign: Path) -> None:
    before = {row["row_id"] for row in _rows(campaign)}
    assert main(["sweep", str(campaign / "plan.yaml"), "--out", str(campaign.parent), "--until", "break-even"]) == 0
    (one,) = added(read_campaign(campaign))
    assert (one.plan, one.cells) == (None, None)
    assert {row.row_id for row in one.rows} == {row["row_id"] for row in _rows(campaign)} - before != set()
