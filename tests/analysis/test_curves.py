"""Curves hold one configuration under one load; what is drawn of them is the best of each model."""

from __future__ import annotations

import random

from collector.analysis.curves import curves, main_load, of_each_model
from collector.core.rows import Row
from tests.report.sample import make_row


def line(throughputs: dict[int, float], **changes: object) -> list[Row]:
    return [
        make_row(concurrency=at, requests=2 * at, system_throughput_tok_s=throughput, **changes)
        for at, throughput in throughputs.items()
    ]


def test_stages_rise_by_concurrency_and_hold_their_repeats() -> None:
    rows = [*line({8: 200.0, 1: 50.0}), *line({8: 220.0}, repeat=2)]
    random.Random(1).shuffle(rows)
    (curve,) = curves(rows)
    assert [(stage.concurrency, len(stage.rows)) for stage in curve.stages] == [(1, 1), (8, 2)]
    assert curve.highest is not None
    assert curve.highest.value == 210.0


def test_other_prompts_and_other_settings_are_other_curves() -> None:
    rows = [*line({1: 50.0}), *line({1: 50.0}, prompt_set="general/code"), *line({1: 50.0}, kv_cache_dtype="fp8_e5m2")]
    assert len(curves(rows)) == 3


def test_a_campaign_without_rows_has_no_curve_and_no_main_load() -> None:
    assert curves([]) == []
    assert main_load([]) == []
    assert of_each_model([], 8) == []


def test_the_main_load_is_that_of_most_configurations_then_of_most_concurrencies() -> None:
    rows = [*line({1: 50.0, 8: 90.0}), *line({1: 50.0}, kv_cache_dtype="fp8_e5m2")]
    rows += line({1: 50.0, 2: 60.0, 8: 90.0}, prompt_set="general/code")
    assert {one.record.prompt_set for one in main_load(curves(rows))} == {"synthetic"}
    more = rows + line({1: 50.0}, prompt_set="general/code", kv_cache_dtype="fp8_e5m2")
    assert {one.record.prompt_set for one in main_load(curves(more))} == {"general/code"}


def test_of_each_model_the_highest_and_the_fastest_at_the_start_are_drawn() -> None:
    rows = [*line({1: 50.0, 8: 400.0}), *line({1: 90.0, 8: 200.0}, kv_cache_dtype="fp8_e5m2")]
    rows += [*line({1: 60.0, 8: 300.0}, kv_cache_dtype="int8"), *line({1: 99.0, 8: 350.0}, model="beta")]
    drawn = [(one.record.model, one.record.kv_cache_dtype) for one in of_each_model(curves(rows), 8)]
    assert drawn == [("alpha-30b", "auto"), ("beta", "auto"), ("alpha-30b", "fp8_e5m2")]


def test_of_forty_models_those_of_highest_throughput_are_drawn() -> None:
    rows = [row for number in range(40) for row in line({1: 50.0 + number}, model=f"model-{number:02}")]
    drawn = [one.record.model for one in of_each_model(curves(rows), 8)]
    assert drawn == [f"model-{number}" for number in range(39, 31, -1)]


def test_a_curve_whose_checks_all_failed_is_not_drawn() -> None:
    assert of_each_model(curves(line({1: 50.0}, checks="throttled")), 8) == []
