"""A sweep on the embedded engine: virtual time, the same bytes each time, and never called a measurement."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PLAN = """\
plan: 1
campaign: emulated
engine: {kind: emulated, version: 0.27.0}
models:
  muse-glimmer-30b: {path: org/muse, drafter: org/muse-dflash}
  exaone-4.5-33b: {path: org/exaone}
speculation:
  dflash-15: {method: dflash, model: "{drafter}", num_speculative_tokens: 15}
  mtp-1: {method: mtp, num_speculative_tokens: 1}
defaults: {tensor_parallel: 2, max_model_len: 16384, max_num_seqs: 32, nvlink: on}
matrix:
  model: muse-glimmer-30b
  kv_cache_dtype: fp8_e5m2
  speculation: [off, dflash-15]
extra:
  - {model: exaone-4.5-33b, kv_cache_dtype: fp8_e5m2, speculation: mtp-1}
stages:
  concurrency: {1: 2, 8: 16}
  prompt_tokens: 200
  output_tokens: 64
repeats: {count: 2}
"""


def _sweep(folder: Path, plan: str = PLAN, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    (folder / "plan.yaml").write_text(plan)
    return subprocess.run(
        [sys.executable, "-m", "collector.cli", "sweep", "plan.yaml", *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "data" / "emulated" / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emulated")
    done = _sweep(folder)
    assert done.returncode == 1, done.stdout + done.stderr
    return folder


def test_all_checks_hold_and_every_row_says_emulated(swept: Path) -> None:
    rows = _table(swept, "rows.csv")
    assert len(rows) == 2 * 2 * 2
    assert {row["checks"] + row["checks_not_run"] for row in rows} == {""}
    assert {(row["provenance"], row["engine_kind"], row["host_id"]) for row in rows} == {
        ("emulated", "emulated", "emulated-dual-3090")
    }
    assert {row["client_cpu_s"] for row in rows} == {""}, "what an emulation costs says nothing about a client"
    assert {row["gpu_model"] for row in rows} == {"NVIDIA GeForce RTX 3090"}


def test_speculation_gains_alone_and_loses_under_load_and_moves_more_over_nvlink(swept: Path) -> None:
    rows = [row for row in _table(swept, "rows.csv") if row["repeat"] == "1"]
    off, on = ([row for row in rows if row["speculation"] == one] for one in ("off", "dflash"))
    alone, loaded = (
        float(with_["system_throughput_tok_s"]) / float(without["system_throughput_tok_s"])
        for with_, without in zip(on, off, strict=True)
    )
    assert alone > 1 > loaded
    assert all(int(a["nvlink_bytes"]) > int(b["nvlink_bytes"]) > 0 for a, b in zip(on, off, strict=True))


def test_a_start_that_the_profile_scripts_fails_with_its_published_cause(swept: Path) -> None:
    failures = _table(swept, "failures.csv")
    assert {(one["category"], one["provenance"]) for one in failures} == {("oom_unknown", "emulated")}
    assert len(failures) == 1, "a start that fails by the configuration is not tried again"
    assert (swept / "data" / "emulated" / failures[0]["log"]).read_text()


def test_the_same_plan_gives_the_same_bytes_under_any_hash_seed(swept: Path, tmp_path: Path) -> None:
    for seed in ("1", "77"):
        folder = tmp_path / seed
        _sweep(folder, PYTHONHASHSEED=seed)
        for name in ("rows.csv", "failures.csv", "positions.csv", "host.json", "journal.jsonl"):
            ours, theirs = (one / "data" / "emulated" / name for one in (swept, folder))
            assert ours.read_bytes() == theirs.read_bytes(), name


def test_repeats_of_a_cell_differ(swept: Path) -> None:
    rows = [row for row in _table(swept, "rows.csv") if row["speculation"] == "dflash"]
    assert {row["repeat"] for row in rows} == {"1", "2"}
    first, second = ([row["accepted_tokens"] for row in rows if row["repeat"] == one] for one in ("1", "2"))
    assert first != second


def test_auto_emulates_where_no_gpu_is_and_says_so_loudly(tmp_path: Path) -> None:
    plan = PLAN.replace("kind: emulated", "kind: auto").replace("count: 2", "count: 1")
    plan = plan[: plan.index("extra:")] + plan[plan.index("stages:") :]
    done = _sweep(tmp_path, plan)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("NO GPU HERE: the embedded engine EMULATES")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("muse-glimmer-30b", "muse-glimmer-31b", "has no model 'muse-glimmer-31b'"),
        ("kind: emulated,", "kind: emulated, profile: dual-3091,", "did you mean 'dual-3090'?"),
        ("method: mtp", "method: eagle", "has no acceptance of eagle for exaone-4.5-33b"),
    ],
)
def test_what_the_profile_does_not_know_is_refused_before_anything_starts(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    done = _sweep(tmp_path, PLAN.replace(old, new))
    assert done.returncode == 2, done.stdout + done.stderr
    assert told in done.stderr
    assert not (tmp_path / "data").exists()


def test_an_interrupted_emulated_sweep_goes_on_with_the_same_rows(swept: Path, tmp_path: Path) -> None:
    _sweep(tmp_path)
    table = tmp_path / "data" / "emulated" / "rows.csv"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(lines[:4]) + lines[4][:50])
    _sweep(tmp_path)
    # Another start of the virtual clock rounds its seconds otherwise; what is counted is the same.
    counted = ("row_id", "generation_tokens", "drafts", "accepted_tokens", "prompt_tokens", "nvlink_bytes", "checks")
    again, whole = (
        sorted(tuple(row[name] for name in counted) for row in _table(one, "rows.csv")) for one in (tmp_path, swept)
    )
    assert again == whole


@pytest.mark.parametrize("arguments", [(), ("--engine", "emulated"), ("--engine", "process")])
def test_a_sweep_of_another_provenance_is_refused_before_it_starts(
    swept: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Rows of the embedded engine never come beside measured ones, whichever were there first."""
    shutil.copytree(swept / "data", tmp_path / "data")
    table = tmp_path / "data" / "emulated" / "rows.csv"
    theirs, ours = "emulated", "measured"
    if "process" not in arguments:
        table.write_text(table.read_text().replace(",emulated,2", ",measured,2"))
        theirs, ours = ours, theirs
    folder = {path: path.read_bytes() for path in table.parent.rglob("*") if path.is_file()}
    plan = PLAN.replace("version: 0.27.0", f"version: 0.27.0, command: ['{sys.executable}']")
    done = _sweep(tmp_path, plan, *arguments, "--retry-failed")
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"data/emulated: its rows are {theirs}, those of this sweep would be {ours}" in done.stderr
    assert "with --out, or the plan another campaign name" in done.stderr
    assert {path: path.read_bytes() for path in table.parent.rglob("*") if path.is_file()} == folder
