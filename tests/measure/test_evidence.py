"""Stored evidence: it gives the same row again, and what is damaged is named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.core.codec import line_of
from collector.core.configuration import Configuration, Stage
from collector.core.errors import DataError
from collector.core.record import make_row
from collector.measure import evidence
from collector.measure.stage import Measured
from tests.data_files import CONTEXT, PAIRS, Pair, cell_of, pair, window_of

SPEC = pair("metrics/vllm-0.27.0-spec")


def measured(recorded: Pair) -> Measured:
    window = window_of(recorded)
    return Measured(
        method=window.method,
        window_s=window.window_s,
        scrape_s=window.scrape_s,
        client_cpu_s=window.client_cpu_s,
        before=recorded.text("before"),
        after=recorded.text("after"),
        confirm=recorded.text("after"),
        requests_sent=window.requests_sent,
        requests=window.requests,
        samples=window.samples,
        tokenized=window.tokenized,
        telemetry=window.telemetry,
        gpus=window.gpus,
        prompt_set_digest="abcdef",
    )


def stored(folder: Path, recorded: Pair = SPEC, **changes: Any) -> tuple[Configuration, Stage]:
    of = cell_of(recorded)
    evidence.store(folder, "row", CONTEXT, of, replace(measured(recorded), **changes))
    return of


def file(folder: Path, part: str) -> Path:
    return folder / f"row-{part}"


def told(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        evidence.load(folder, "row")
    return str(caught.value)


def rewrite(folder: Path, change: Callable[[Any], object]) -> None:
    """Store the description again after a change in place, or what the change returns."""
    path = file(folder, "stage.json.gz")
    content = json.loads(gzip.decompress(path.read_bytes()))
    returned = change(content)
    path.write_bytes(gzip.compress(json.dumps(content if returned is None else returned).encode()))


@pytest.mark.parametrize("recorded", PAIRS, ids=lambda one: one.label)
def test_stored_evidence_gives_the_same_row_again(tmp_path: Path, recorded: Pair) -> None:
    of = stored(tmp_path, recorded)
    row, positions = make_row(CONTEXT, *of, window_of(recorded))
    again, positions_again = make_row(*evidence.load(tmp_path, "row"))
    assert line_of(again) == line_of(row)
    assert "".join(map(line_of, positions_again)) == "".join(map(line_of, positions))
    assert again == row


def test_everything_that_was_stored_comes_back(tmp_path: Path) -> None:
    """Flags of every kind, figures of many digits and signs of any language included."""
    configuration, stage = cell_of(SPEC)
    flags = (("a", [1, "b"]), ("b", {"c": {"d": None}}), ("e", True), ("f", 0.1), ("g", "가\n\u2028"))
    odd = replace(configuration, flags=flags, environment=(("X", "1"), ("Y", "")), model_path="/모델/ü")
    window = replace(window_of(SPEC), window_s=0.1 + 0.2, client_cpu_s=None, tokenized=None)
    first = replace(window.requests[0], error="왜?\x00", status=None, completion_tokens=None)
    window = replace(window, requests=(first, *window.requests[1:]))
    kept = replace(
        measured(SPEC), window_s=window.window_s, client_cpu_s=None, tokenized=None, requests=window.requests
    )
    context = replace(CONTEXT, cpu_model="Prozessor™", start_s=1 / 3)
    evidence.store(tmp_path, "row", context, (odd, stage), kept)
    assert evidence.load(tmp_path, "row") == (context, odd, stage, window)


def test_the_same_evidence_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        stored(folder)
    names = sorted(path.name for path in one.iterdir())
    assert names == ["row-after.prom.gz", "row-before.prom.gz", "row-confirm.prom.gz", "row-stage.json.gz"]
    assert [(one / name).read_bytes() for name in names] == [(other / name).read_bytes() for name in names]


@pytest.mark.parametrize("part", ["before.prom.gz", "after.prom.gz", "confirm.prom.gz", "stage.json.gz"])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"", id="emptied"),
        pytest.param(lambda data: data[:-9], id="cut short"),
        pytest.param(lambda data: data[: len(data) // 2], id="cut in half"),
        pytest.param(lambda data: data[:40] + bytes(40) + data[80:], id="overwritten inside"),
        pytest.param(lambda data: data[:-8] + bytes(8), id="wrong checksum"),
        pytest.param(lambda data: b"not gzip at all", id="another kind of file"),
        pytest.param(lambda data: gzip.compress(b"\xff\xfe\x00"), id="not UTF-8"),
        pytest.param(lambda data: gzip.compress(b"{ a b"), id="not of its format"),
        pytest.param(None, id="removed"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, part: str, damage: Callable[[bytes], bytes] | None) -> None:
    stored(tmp_path)
    path = file(tmp_path, part)
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    assert told(tmp_path).startswith(f"{path}: ")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda one: one["measured"].pop("window_s"), id="a figure is missing"),
        pytest.param(lambda one: one["measured"].pop("tokenized"), id="a part is missing"),
        pytest.param(lambda one: one.pop("stage"), id="the stage is missing"),
        pytest.param(lambda one: one["stage"].update(more=1), id="the stage has more"),
        pytest.param(lambda one: one["configuration"].update(more=1), id="the configuration has more"),
        pytest.param(lambda one: one["configuration"].update(flags=[["a"]]), id="a flag is half"),
        pytest.param(lambda one: one["configuration"].update(flags=7), id="flags are a number"),
        pytest.param(lambda one: one["context"].pop("facts"), id="the facts are missing"),
        pytest.param(lambda one: one["context"]["facts"].update(more=1), id="the facts have more"),
        pytest.param(lambda one: one.update(context="text"), id="the context is text"),
        pytest.param(lambda one: one.update(measured=[]), id="the measurement is a list"),
        pytest.param(lambda one: one["measured"].update(requests=[1]), id="a request is a number"),
        pytest.param(lambda one: one["measured"]["requests"][0].pop("lane"), id="a request lacks its lane"),
        pytest.param(lambda one: one["measured"]["samples"][0].update(more=1), id="a sample has more"),
    ],
)
def test_a_description_of_another_shape_is_named(tmp_path: Path, change: Callable[[Any], object]) -> None:
    stored(tmp_path)
    rewrite(tmp_path, lambda one: (change(one), one)[1])
    assert told(tmp_path).startswith(f"{file(tmp_path, 'stage.json.gz')}: not evidence of this version: ")


@pytest.mark.parametrize(
    "change", [lambda one: one.update(evidence=2), lambda one: one.pop("evidence"), lambda one: []]
)
def test_evidence_of_another_version_is_refused(tmp_path: Path, change: Callable[[Any], object]) -> None:
    stored(tmp_path)
    rewrite(tmp_path, lambda one: [] if change(one) == [] else one)
    path = file(tmp_path, "stage.json.gz")
    assert told(tmp_path) == f"{path}: evidence of another version; this collector reads 1"


def test_a_scrape_that_is_none_is_named_with_what_is_wrong(tmp_path: Path) -> None:
    stored(tmp_path, after="<html>502 Bad Gateway</html>")
    path = file(tmp_path, "after.prom.gz")
    assert told(tmp_path).startswith(f"{path}: a scrape is not Prometheus text: ")
