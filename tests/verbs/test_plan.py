"""`collector plan`: what a person and a program read of a plan, and what a wrong call says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from collector.cli import main
from collector.core.plan_schema import json_schema

ROOT = Path(__file__).parents[2]
CPU_TINY = ROOT / "plans" / "cpu-tiny.yaml"


def test_the_shipped_schema_is_the_one_that_validates() -> None:
    assert json.loads((ROOT / "plans" / "plan.schema.json").read_text()) == json_schema()


def test_a_plan_is_listed_with_ids_commands_stages_and_an_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(CPU_TINY)]) == 0
    told = capsys.readouterr().out
    assert "[2/8]" in told
    assert '--speculative-config \'{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4}\'' in told
    assert "8 configurations, 8 engine starts, 35 rows" in told
    assert "about 45 minutes (estimate for 27 to 33B on two RTX 3090s:" in told
    assert "240 s a start" in told


def test_a_program_gets_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(CPU_TINY), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [len(run["stages"]) for run in told["runs"]] == [5, 5, *[4] * 5, 5]
    assert len({run["configuration_id"] for run in told["runs"]}) == 8


def test_a_wrong_plan_is_exit_code_2_with_one_line_on_what_to_mend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "p.yaml"
    plan.write_text(CPU_TINY.read_text().replace("max_num_seqs", "max_num_sequences"))
    assert main(["plan", str(plan)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"collector: {plan}, line ")
    assert "defaults.max_num_sequences: unknown key; did you mean 'max_num_seqs'?" in told


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml: cannot be read: No such file or directory" in capsys.readouterr().err
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    assert main(["plan", str(tmp_path / "binary.yaml")]) == 2
    assert "not UTF-8 text" in capsys.readouterr().err


def test_no_plan_and_no_schema_asked_for_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan"]) == 2
    assert "name a plan file" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["plan", "sweep", "status", "check", "recompute", "diagnose", "build"])
def test_every_command_explains_itself(verb: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "collector.cli", verb, "--help"], capture_output=True, text=True, check=True
    )
    assert f"usage: collector {verb}" in done.stdout
