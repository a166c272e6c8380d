"""`collector recommend`: what it prints and writes, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # as vLLM reads it: YAML 1.1

from collector.cli import main
from tests.analysis.arms import pair_of
from tests.verbs.test_compare import stored

DATA = Path(__file__).resolve().parents[2] / "data"


def recommend(name: str, *arguments: str, data: Path = DATA) -> int:
    return main(["recommend", name, "--data", str(data), *arguments])


def test_a_person_reads_setting_conditions_rows_confidence_and_what_would_overturn_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert recommend("dual-3090", "--model", "muse-glimmer-30b") == 0
    told = capsys.readouterr().out
    for words in (
        "up to 1: on, from 8: off",
        "confidence: Measured once each",
        "overturned by: Between 1 and 8 nothing is decided",
        "2 x NVIDIA GeForce RTX 3090, vLLM 0.27.0",
        "For any concurrency (PREDICTION, not measured): a schedule of speculation dflash k=15, KV auto (2 x",
        "num_speculative_tokens_per_batch_size",
        "only known to lie between 1 and 8",
        "--max-num-seqs 1 limits the sequences; not measured at this limit",
        "For a load that varies from 1 to 32 it loses least",
        "rests on ",
    ):
        assert words in told
    assert "gemma" not in told


def test_from_the_published_figures_alone_come_the_verdicts_and_no_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend("published", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    told = {one["model"]: one for one in found["models"]}
    states = {
        model: {each["verdict"] for each in one["verdicts"] if each["factor"] == "speculation"}
        for model, one in told.items()
    }
    assert states == {"exaone-4.5-33b": {"withheld"}, "gemma-4-31b": {"use"}, "muse-glimmer-30b": {"up_to"}}
    for model in ("exaone-4.5-33b", "muse-glimmer-30b"):
        (kv,) = [one for one in told[model]["verdicts"] if one["factor"] == "kv_cache_dtype"]
        assert (kv["verdict"], kv["state"]) == ("use", "fp8_e5m2")
    assert [one["category"] for one in told["gemma-4-31b"]["did_not_run"]] == ["kv_dtype"]
    assert all(each["rows"] and each["overturned_by"] for one in told.values() for each in one["verdicts"])
    assert found["loads"] == []


def test_written_files_are_what_json_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend("dual-3090", "--json", "--write", str(tmp_path / "out")) == 0
    found = json.loads(capsys.readouterr().out)
    settings = [one for load in found["loads"] for one in load["settings"]]
    names = {f"{one['files']}{ending}" for one in settings for ending in (".sh", ".compose.yaml", ".config.yaml")}
    assert {str(one.relative_to(tmp_path / "out")) for one in (tmp_path / "out").rglob("*.*") if one.is_file()} == names
    for one in settings:
        config = yaml.safe_load((tmp_path / "out" / f"{one['files']}.config.yaml").read_text())
        assert config["model"] == one["arguments"][2]
        predicted = "PREDICTION" in (tmp_path / "out" / f"{one['files']}.sh").read_text()
        assert predicted == one["prediction"]
    withheld = [(load["nvlink"], load["withheld_speculation"]) for load in found["loads"] if load["settings"]]
    exaone = [
        ("on", ["mtp"]),
        ("on", ["mtp"]),
        ("off", ["mtp"]),
    ]  # series k3 and main; without NVLink mtp did not start in k3
    assert withheld == [*exaone, *[("on", []), ("off", [])] * 2]


def test_a_target_names_the_largest_concurrency_that_keeps_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend("follow-up", "--model", "muse-glimmer-30b", "--ttft-p95", "2.5", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    for load in found["loads"]:
        (one,) = load["settings"]
        assert one["ttft_p95_within_s"] == 2.5
        assert one["arguments"][one["arguments"].index("--max-num-seqs") + 1] == str(one["concurrencies"][0])


def test_a_model_that_would_leave_the_folder_stays_in_it(tmp_path: Path) -> None:
    stored(tmp_path, "bad", pair_of({1: 1.7}, model="../../etc/Evil Model"))
    assert recommend("bad", "--write", str(tmp_path / "out"), data=tmp_path) == 0
    assert {one.name for one in tmp_path.iterdir()} == {"bad", "out"}
    assert "../../etc/Evil Model" in next((tmp_path / "out").glob("*.sh")).read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dual-3090", "--model", "gemma"], "no such model"),
        (["nowhere"], "no campaign there"),
        (["dual-3090", "--ttft-p95", "0"], "expected seconds above 0"),
        (["dual-3090", "--ttft-p95", "nan"], "expected seconds above 0"),
        (["dual-3090", "--write", "/dev/null/x"], "cannot be written"),
    ],
)
def test_wrong_use_is_told_and_ends_with_two(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recommend(*arguments) == 2
    assert words in capsys.readouterr().err
