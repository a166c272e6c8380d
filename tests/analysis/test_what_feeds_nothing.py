"""No rule fires on rows with failed checks, on provenances that do not belong together, or on an unlike pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from collector.analysis.interconnect import links
from collector.analysis.mixed import drafting, mixed_at
from collector.analysis.noise import noise_of
from collector.analysis.pairing import KV_CACHE, NVLINK, OFF, SPECULATION, Factor
from collector.analysis.recommend import Advice, advice
from collector.analysis.repeats import repeat_errors
from collector.analysis.settings import loads
from collector.analysis.study import Study
from collector.core.rows import Row
from collector.report.build import read_campaign

DATA = Path(__file__).resolve().parents[2] / "data"
NAMES = ("dual-3090", "follow-up", "schedule", "windows", "acceptance")
Which = Callable[[Row], bool]


@cache
def campaign(name: str) -> Study:
    return read_campaign(DATA / name)


def changed(study: Study, which: Which, **changes: object) -> Study:
    """Return a campaign whose failures are left out: they may only add refusals."""
    rows = (replace(row, **changes) if which(row) else row for row in study.rows)  # type: ignore[arg-type]
    return replace(study, rows=tuple(rows), failures=())


def advised(study: Study) -> tuple[Advice, ...]:
    return advice(study)[1]


def fed(study: Study) -> set[str]:
    """Return every row that a verdict, a setting or a change by concurrency rests on."""
    noise, found = advice(study)
    ids = {name for load in loads(study, noise) for one in load.settings for name in one.ids}
    for one in found:
        ids |= {name for judged in one.judged for name in judged.ids}
        if one.batching:
            ids |= {*one.batching.change.ids, *one.batching.change.base}
    return ids


@pytest.mark.parametrize("name", NAMES)
def test_with_all_rows_failing_a_check_nothing_is_advised(name: str) -> None:
    study = changed(campaign(name), lambda row: True, checks="throttled")
    assert fed(study) == set()
    assert repeat_errors(study) == {}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", [lambda row: row.speculation != OFF, lambda row: row.concurrency == 8])
def test_rows_with_a_failed_check_feed_no_advice_whatever_they_say(name: str, which: Which) -> None:
    """Their figures may be absurd: the advice is the same as without the rows."""
    bad = {"checks": "throttled client_bound"}
    study = changed(campaign(name), which, **bad)
    absurd = changed(campaign(name), which, **bad, system_throughput_tok_s=1e6)
    without = replace(study, rows=tuple(row for row in study.rows if not row.checks))
    assert not fed(study) & {row.row_id for row in study.rows if row.checks}
    told = [
        [(one.pair.way, one.verdict, one.evidence, one.ids) for of in advised(each) for one in of.judged]
        for each in (study, absurd, without)
    ]
    assert told[0] == told[1] == told[2]


#: What may not differ between the sides of a ratio, with another value for one side.
UNLIKE: dict[str, object] = {
    "provenance": "measured",
    "engine_version": "0.28.0",
    "host_id": "another",
    "gpu_model": "another",
    "driver_version": "999.1",
    "tensor_parallel": 1,
    "max_model_len": 8192,
    "max_num_seqs": 16,
    "prompt_set_digest": "another",
    "output_tokens": 128,
    "window_method": "another",
    "series": "another",
    "model_revision": "another",
    "requests": 3,
    "warmup_requests": 77,
}


@pytest.mark.parametrize("column", UNLIKE)
@pytest.mark.parametrize(
    ("factor", "on"),
    [
        (SPECULATION, lambda row: row.speculation != OFF),
        (KV_CACHE, lambda row: row.kv_cache_dtype != "auto"),
        (NVLINK, lambda row: row.nvlink == "on"),
    ],
    ids=["speculation", "dtype", "link"],
)
def test_no_rule_fires_on_a_pair_that_is_unlike_in_anything_else(column: str, factor: Factor, on: Which) -> None:
    study = campaign("dual-3090")
    assert any(pair.measured for pair in study.pairs(factor))
    unlike = changed(study, on, **{column: UNLIKE[column]})
    assert not any(pair.measured for pair in unlike.pairs(factor))
    judged = {
        SPECULATION: [one for of in advised(unlike) for one in of.speculation],
        KV_CACHE: [one for of in advised(unlike) for one in of.kv_cache],
        NVLINK: [one for of in advised(unlike) for one in of.nvlink],
    }
    assert judged[factor] == []


def test_every_ratio_and_choice_is_of_one_provenance_when_a_campaign_has_two() -> None:
    study = campaign("dual-3090")
    both = changed(study, lambda row: row.concurrency > 1, provenance="measured")
    provenance = {row.row_id: row.provenance for row in both.rows}
    for one in advised(both):
        for judged in one.judged:
            for point in judged.pair.measured:
                assert point.value
                assert len({provenance[name] for name in (*point.value.ids, *point.value.base)}) == 1
        if one.batching:
            assert len({provenance[name] for name in (*one.batching.change.ids, *one.batching.change.base)}) == 1


def test_drafts_accepted_differently_on_both_sides_of_a_link_are_found_on_measured_rows_as_on_emulated_ones() -> None:
    emulated = campaign("dual-3090")
    measured = changed(emulated, lambda row: True, provenance="measured")
    marked = []
    for study in (emulated, measured):
        noise = noise_of(study)
        pairs = [pair for pair in study.pairs(NVLINK) if pair.measured]
        marked.append([mixed_at(pair, drafting(study, pair, noise)) for pair in pairs])
    assert marked[0] == marked[1]
    found = {one.pair["model"]: one for one in links(measured, 1) if one.pair["speculation"] != OFF}
    assert [at.concurrency for at in found["gemma-4-31b"].drafting if at.mixed][:1] == [1]
    gemma = next(one for one in advised(measured) if one.model == "gemma-4-31b")
    assert any(1 in one.evidence.mixed for one in gemma.nvlink)
