"""`collector emulate`: whoever measures it over a port learns that nothing was measured."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from collector.cli import main

PLAN = """\
plan: 1
campaign: emulated-over-a-port
engine: {kind: url, url: URL}
models: {muse-glimmer-30b: {path: org/muse}}
extra: [{model: muse-glimmer-30b}]
stages: {concurrency: {2: 4}, prompt_tokens: 120, output_tokens: 16}
"""


def test_rows_and_the_log_of_an_embedded_engine_on_a_port_say_emulated(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "collector.cli", "emulate", "--port", "0", "--speed", "50"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as engine:
        try:
            assert engine.stderr is not None
            assert engine.stdout is not None
            address = engine.stderr.readline().split(" on ")[1].strip()
            assert "collector's embedded engine: emulates vLLM" in engine.stdout.readline()  # at once, not at its end
            while "Application startup complete." not in engine.stdout.readline():
                pass
            plan = tmp_path / "plan.yaml"
            plan.write_text(PLAN.replace("URL", address))
            assert main(["sweep", str(plan), "--out", str(tmp_path)]) in (0, 1)  # a busy machine may be too slow
        finally:
            engine.terminate()
    with (tmp_path / "emulated-over-a-port" / "rows.csv").open(newline="") as file:
        assert [row["provenance"] for row in csv.DictReader(file)] == ["emulated"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--port", "99999"], "--port: found 99999, expected 0 to 65535"),
        (["--port", "-1"], "--port: found -1, expected 0 to 65535"),
        (["--tensor-parallel-size", "0"], "--tensor-parallel-size: found 0, expected 1 or more"),
        (["--max-num-seqs", "0"], "--max-num-seqs: found 0, expected 1 or more"),
        (["--max-model-len", "-5"], "--max-model-len: found -5, expected 1 or more"),
        (["--speed", "nan"], "--speed: found nan, expected more than 0"),
    ],
)
def test_an_argument_out_of_its_bounds_is_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert main(["emulate", *arguments]) == 2
    assert capsys.readouterr().err == f"collector: {told}\n"
