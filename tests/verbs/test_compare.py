"""`collector compare A B`: what it prints, what programs read, and with which code it ends."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest

from collector.cli import main
from collector.core.rows import Failure, Row
from collector.report.pages import Campaign
from tests.analysis.arms import arm, pair_of
from tests.report.sample import make_failure, write

LABEL = "alpha-30b · KV auto · speculation off · NVLink on · synthetic · concurrency 8"


def stored(data: Path, name: str, rows: list[Row], failures: tuple[Failure, ...] = ()) -> None:
    named = tuple(replace(row, campaign=name) for row in rows)
    write(Campaign(name=name, rows=named, failures=failures, positions=(), plan_text=None, host_text=None), data)


def repeats(*values: float, **changes: Any) -> list[Row]:
    return [row for repeat, value in enumerate(values, 1) for row in arm({8: value}, repeat=repeat, **changes)]


def compare(data: Path, *arguments: str) -> int:
    return main(["compare", "before", "after", "--data", str(data), *arguments])


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    stored(tmp_path, "before", repeats(300.0, 303.0, 301.5))
    after = [*repeats(270.0, 270.5, 270.25, engine_version="0.28.0"), *arm({32: 400.0}, checks="throttled")]
    stored(tmp_path, "after", after)
    return tmp_path


def test_a_regression_ends_with_one_and_is_told_after_what_differs(
    slower: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(slower) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "differs: engine_version: 0.27.0 -> 0.27.0, 0.28.0"
    assert (
        "noise of A: System throughput: measured, speculation off: "
        "1.00 / 1.00 / 1.00 % between repeats (min / mean / max of 1 cells)"
    ) in lines
    (told,) = [line for line in lines if line.startswith("regression: ") and "throughput" in line]
    assert told.startswith(f"regression: {LABEL}: System throughput 301.5 -> 270.2 tok/s, -10.4 % [")
    low, high, multiple = map(float, re.findall(r"\[(\S+) %, (\S+) %\], (\S+)x noise$", told)[0])
    width = log(1 + high / 100) - log(1 + low / 100)
    assert multiple == pytest.approx(-log(270.2 / 301.5) / (width / 2), rel=0.03), "of half its interval"
    assert "not compared: 1 cells of B: failed checks (throttled); such as " in "\n".join(lines)
    assert lines[-1] == "left out: rows with failed checks: 0 of A, 1 of B"


def test_a_gain_and_no_change_end_with_zero(slower: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "after", "before", "--data", str(slower)]) == 0
    assert f"gain: {LABEL}: System throughput 270.2 -> 301.5 tok/s, +11.6 %" in capsys.readouterr().out
    assert main(["compare", str(slower / "before"), str(slower / "before")]) == 0
    assert "differs: nothing that rows tell" in capsys.readouterr().out


def test_a_change_of_unknown_noise_ends_with_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path, "before", arm({8: 300.0}))
    stored(tmp_path, "after", arm({8: 200.0}))
    assert compare(tmp_path) == 0
    told = capsys.readouterr().out
    assert f"noise unknown: {LABEL}: System throughput 300.0 -> 200.0 tok/s, -33.3 % no spread measured\n" in told


def test_a_configuration_that_no_longer_starts_ends_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, "before", arm({8: 300.0}))
    stored(tmp_path, "after", arm({8: 300.0}, nvlink="off"), (make_failure(model="alpha-30b", campaign="after"),))
    assert compare(tmp_path) == 1
    assert "the configuration failed in B (oom_weights)" in capsys.readouterr().out


def test_cells_of_a_that_b_lacks_end_with_one_unless_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, "before", arm({8: 300.0, 16: 400.0, 32: 500.0}))
    stored(tmp_path, "after", [*arm({8: 300.0}), *arm({32: 500.0}, checks="throttled")])
    assert compare(tmp_path) == 1
    told = capsys.readouterr().out
    assert "missing in B: 1 cells of A: the nearest cell of B differs in concurrency; such as " in told
    assert "missing in B: 1 cells of A: failed checks of its rows in B (throttled); such as " in told
    assert "2 cells of A have no comparable row in B, 0 of them as their configuration failed" in told
    assert "not compared" not in told
    assert compare(tmp_path, "--allow-missing") == 0
    capsys.readouterr()
    assert compare(tmp_path, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert sorted(one["kind"] for one in found["missing"]) == ["checks_there", "differs"]
    assert main(["compare", "after", "before", "--data", str(tmp_path)]) == 0  # B has more


def test_a_start_that_fails_in_b_alone_is_a_regression_even_where_a_repeat_ran(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, "before", repeats(300.0, 303.0))
    failed = make_failure(model="alpha-30b", kv_cache_dtype="auto", campaign="after", repeat=2, cause="out of memory")
    stored(tmp_path, "after", repeats(300.0), (failed,))
    assert compare(tmp_path, "--allow-missing") == 1
    told = capsys.readouterr().out
    assert (
        "regression: alpha-30b · KV auto · speculation off · NVLink on: failed in B and not in A: oom_weights" in told
    )
    stored(tmp_path, "before", repeats(300.0, 303.0), (replace(failed, campaign="before"),))
    assert compare(tmp_path) == 0, "it failed in A, too"


def test_a_failure_that_a_later_attempt_made_good_is_none(tmp_path: Path) -> None:
    rows = repeats(300.0)
    failed = make_failure(
        model="alpha-30b",
        campaign="after",
        configuration_id=rows[0].configuration_id,
        failed_at="2000-01-01T00:00:00Z",
    )
    stored(tmp_path, "before", rows)
    stored(tmp_path, "after", rows, (failed,))
    assert compare(tmp_path) == 0


def test_where_nothing_starts_any_more_it_is_one_and_not_two(tmp_path: Path) -> None:
    stored(tmp_path, "before", arm({8: 300.0}))
    stored(tmp_path, "after", [], (make_failure(model="alpha-30b", campaign="after"),))
    assert compare(tmp_path) == 1


def test_published_figures_are_no_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "published", "dual-3090", "--data", str(Path(__file__).parents[2] / "data")]) == 2
    assert "published: figures that others published, not rows; name a campaign" in capsys.readouterr().err


def test_programs_get_every_figure_with_its_rows(slower: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(slower, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["worse"] is True
    assert found["differs"]["engine_version"] == {"a": ["0.27.0"], "b": ["0.27.0", "0.28.0"]}
    (cell,) = found["cells"]
    metric = cell["metrics"]["system_throughput_tok_s"]
    assert cell["cell"]["concurrency"] == 8
    assert metric["ratio"] == pytest.approx(270.25 / 301.5)
    assert metric["verdict"] == "regression"
    assert metric["interval"][0] < metric["ratio"] < metric["interval"][1] < 1
    assert sorted(metric["rows_a"]) == sorted(row.row_id for row in repeats(300.0, 303.0, 301.5))
    assert found["rows_left_out"] == {"a": 0, "b": 1}
    (floor,) = found["noise_percent"]["system_throughput_tok_s"]["a"]
    assert floor["most"] == pytest.approx(1.0)
    assert (floor["provenance"], floor["speculating"]) == ("measured", False)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (arm({8: 300.0}), [], "rows.csv: no row yet, so there is nothing to compare"),
        (arm({8: 300.0}), arm({8: 300.0}, provenance="emulated"), "the two are never compared"),
        (arm({8: 300.0}), pair_of({8: 1.5}, nvlink="off"), "share no cell that may be compared"),
    ],
)
def test_what_cannot_be_compared_ends_with_two_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: list[Row], after: list[Row], told: str
) -> None:
    stored(tmp_path, "before", before)
    stored(tmp_path, "after", after)
    assert compare(tmp_path) == 2
    assert told in capsys.readouterr().err


def test_a_campaign_that_is_not_there_ends_with_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path, "before", arm({8: 300.0}))
    assert compare(tmp_path) == 2
    assert f"after: no campaign there (no rows.csv); name a folder such as {tmp_path}/NAME" in capsys.readouterr().err


def test_a_terminal_gets_a_table(slower: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "300")
    assert compare(slower) == 1
    told = capsys.readouterr().out
    assert "of noise" in told
    assert "regression" in told
