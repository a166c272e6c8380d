"""Two window methods: divided only where all else is equal, exactly by two factors, and pooled nowhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.acceptance import acceptance_elsewhere
from collector.analysis.between import compare
from collector.analysis.compared import compared
from collector.analysis.curves import curves
from collector.analysis.drafters import drafters
from collector.analysis.figures import Figure, Labels
from collector.analysis.lede import lede
from collector.analysis.needed import needed
from collector.analysis.noise import noise_of
from collector.analysis.pairing import SPECULATION
from collector.analysis.panels import like_main, panels
from collector.analysis.published import as_published
from collector.analysis.recommend import advice
from collector.analysis.repeats import repeat_errors
from collector.analysis.scope import cells_of
from collector.analysis.settings import loads
from collector.analysis.under_load import home
from collector.analysis.windows import windows
from collector.core.rows import Row
from collector.report.sections import energy, latency
from collector.report.words import Words
from tests.analysis.arms import MTP, arm, asked, pair_of, study_of

REPEATS = (1, 2, 3)


def steady(rows: list[Row], factor: float = 1.0, **changes: Any) -> list[Row]:
    """Return the same cells in steady windows, all rates `factor` times as high."""
    return [
        replace(
            row,
            row_id=f"s{row.row_id}",
            window_method="steady",
            system_throughput_tok_s=(row.system_throughput_tok_s or 0.0) * factor,
            **changes,
        )
        for row in rows
    ]


def repeated(ratios: dict[int, float]) -> list[Row]:
    """Return three repeats that scatter by a thousandth."""
    rows = []
    for repeat in REPEATS:
        wobble = 1 + (repeat - 2) / 1000
        rows += [
            replace(row, system_throughput_tok_s=(row.system_throughput_tok_s or 0.0) * wobble)
            for row in pair_of(ratios, repeat=repeat)
        ]
    return rows


rates = st.floats(1.0, 1000.0)


@given(st.lists(st.tuples(rates, rates, rates, rates), min_size=1, max_size=4))
def test_the_ratio_of_throughputs_is_that_of_decode_rates_times_that_of_requests_decoding(
    drawn: list[tuple[float, float, float, float]],
) -> None:
    whole = [arm({8: one[0]}, repeat=n, request_decode_rate_tok_s=one[1])[0] for n, one in enumerate(drawn, 1)]
    there = [
        replace(
            row, row_id=f"s{row.row_id}", window_method="steady", system_throughput_tok_s=one[2],
            request_decode_rate_tok_s=one[3],
        )
        for row, one in zip(whole, drawn, strict=True)
    ]  # fmt: skip
    found = windows(study_of(*whole, *there))
    assert found
    (cell,) = found.cells
    assert cell.decode
    assert cell.decoding
    assert cell.system.value == pytest.approx(cell.decode.value * cell.decoding.value)
    assert set(cell.system.ids) == {row.row_id for row in there}
    assert set(cell.system.base) == {row.row_id for row in whole}
    # Put the other way round, every ratio is the inverse.
    swapped = {"steady": "whole_stage", "whole_stage": "steady"}
    back = windows(study_of(*(replace(row, window_method=swapped[row.window_method]) for row in (*whole, *there))))
    assert back
    assert back.cells[0].system.value == pytest.approx(1 / cell.system.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"campaign": "another"},
        {"provenance": "emulated"},
        {"configuration_id": "another"},
        {"prompt_set": "general/code"},
        {"prompt_set_digest": "another"},
        {"output_tokens": 128},
        {"concurrency": 4},
        {"checks": "not_steady"},
    ],
)
def test_no_cell_is_made_of_windows_that_are_unlike_in_anything_else(changes: dict[str, Any]) -> None:
    rows = arm({8: 100.0})
    assert windows(study_of(*rows, *steady(rows)))
    assert windows(study_of(*rows, *steady(rows, **changes))) is None


def test_several_stages_of_one_method_at_one_concurrency_are_not_pooled() -> None:
    rows = arm({8: 100.0})
    again = [replace(rows[0], row_id="longer", requests=64)]
    assert windows(study_of(*rows, *again, *steady(rows))) is None
    # A steady window may count other requests than the stage does.
    assert windows(study_of(*rows, *steady(rows, requests=64)))


def test_a_verdict_that_turns_with_the_method_is_found_and_one_that_does_not_is_not() -> None:
    rows = repeated({1: 1.5, 8: 1.1})
    there = steady([row for row in rows if row.speculation == "off"])
    there += steady([row for row in rows if row.speculation != "off" and row.concurrency == 1])
    there += steady([row for row in rows if row.speculation != "off" and row.concurrency == 8], 0.8)
    found = windows(study_of(*rows, *there))
    assert found
    assert [(one.concurrency, one.sides, one.turns) for one in found.effects] == [
        (1, (1, 1), False),
        (8, (1, -1), True),
    ]
    assert found.turning == found.differing == found.effects[1:]
    ratio = next(one.system for one in found.cells if one.record.speculation != "off" and one.record.concurrency == 8)
    assert found.system.judge(ratio).standing == "larger"


def test_rows_of_an_acceptance_that_was_asked_for_are_not_among_them_and_a_lone_steady_row_is_counted() -> None:
    rows = arm({8: 100.0})
    told = arm({8: 90.0}, **MTP, speculative_config=asked(2.0))
    lone = steady(arm({16: 120.0}))
    found = windows(study_of(*rows, *steady(rows), *lone, *told, *steady(told)))
    assert found
    assert [one.record.row_id for one in found.cells] == [rows[0].row_id]
    assert found.alone == (lone[0].row_id,)
    assert windows(study_of(*rows, *lone)) is None


# --- nothing else mixes the two -----------------------------------------------------------------------------


def both() -> tuple[list[Row], list[Row]]:
    """Return whole-stage rows and steady ones that say the absurd: 50 times the throughput, every draft accepted."""
    whole = [*repeated({1: 1.5, 8: 0.8, 32: 0.5})]
    absurd = {"accepted_tokens": 10**6, "tokens_per_step": 5.0, "ttft_mean_s": 1e-3, "prefill_mean_s": 1e-3}
    odd = steady([row for row in whole if row.speculation != "off"], 50.0, **absurd)
    return whole, [*steady([row for row in whole if row.speculation == "off"]), *odd]


def test_where_whole_stages_were_measured_no_other_finding_depends_on_steady_rows() -> None:
    whole, there = both()
    without, beside = study_of(*whole), study_of(*whole, *there)
    assert beside.pairs(SPECULATION) == without.pairs(SPECULATION)
    assert noise_of(beside).effects == noise_of(without).effects
    assert repeat_errors(beside) == repeat_errors(without)
    assert drafters(beside) == drafters(without)
    assert advice(beside)[1] == advice(without)[1]
    assert lede(beside) == lede(without)
    assert [load.known for load in loads(beside, noise_of(beside))] == [
        load.known for load in loads(without, noise_of(without))
    ]
    (pair,) = without.pairs(SPECULATION)
    assert needed(pair, beside.rows) == needed(pair, without.rows)
    assert acceptance_elsewhere(beside, pair) == acceptance_elsewhere(without, pair)
    assert beside.basis == without.rows


def test_a_load_that_only_steady_windows_measured_speaks_by_them() -> None:
    whole, _ = both()
    general = steady(pair_of({1: 1.2, 8: 1.1}, prompt_set="general/code"))
    study = study_of(*whole, *general)
    assert set(study.basis) == {*whole, *general}
    assert {pair["window_method"] for pair in study.pairs(SPECULATION)} == {"steady", "whole_stage"}
    # ... but it is no part of what is said of the main panel, nor of a drafter's pool.
    assert {pair["window_method"] for pair in like_main(panels(study.pairs(SPECULATION)))} == {"whole_stage"}
    (drafter,) = drafters(study)
    assert {row.window_method for row in drafter.rows} == {"whole_stage"}


def test_pairs_curves_cells_and_campaigns_keep_the_methods_apart_by_themselves() -> None:
    whole, there = both()
    for pair in compared(SPECULATION, (*whole, *there)):
        ids = {name for point in pair.points for name in (*point.row_ids_on, *point.row_ids_off)}
        assert len({row.window_method for row in (*whole, *there) if row.row_id in ids}) == 1
    assert all(len({row.window_method for row in curve.rows}) == 1 for curve in curves((*whole, *there)))
    assert set(cells_of((*whole, *there)).values()) == {len(REPEATS)}
    refused = compare(study_of(*whole), study_of(*there))
    assert refused.cells == ()
    assert {one.names for one in refused.refused} == {("window_method",)}


def test_acceptance_on_other_prompts_is_of_the_same_method_and_of_real_drafts() -> None:
    whole, _ = both()
    (pair,) = study_of(*whole).pairs(SPECULATION)
    counted = {"prompt_set": "general/code", "draft_tokens": 100, "drafts": 25}
    own = arm({4: 90.0}, **MTP, **counted, accepted_tokens=50)
    odd = steady(arm({2: 90.0}, **MTP, **counted), accepted_tokens=100)
    told = arm({1: 90.0}, **MTP, **counted, accepted_tokens=100, speculative_config=asked(5.0))
    for rows in (own, [*own, *odd, *told]):
        found = acceptance_elsewhere(study_of(*whole, *rows), pair)
        assert found
        assert found.value == 0.5
    assert acceptance_elsewhere(study_of(*whole, *odd), pair) is None


def test_published_figures_are_held_against_whole_stages_and_real_drafts_alone() -> None:
    rows = arm({8: 100.0})
    figure = Figure(
        figure_id="F1", section="throughput", metric="system_throughput", value=100.0, unit="tok/s", resolution=0.1,
        labels=Labels(model="alpha-30b"),
    )  # fmt: skip
    told = arm({8: 1.0}, **MTP, speculative_config=asked(5.0))
    assert as_published([figure], [*rows, *steady(rows, 9.0), *told]) == rows


def test_the_pair_that_speaks_for_a_drafter_is_of_the_drafters_own_window() -> None:
    whole, there = both()
    (drafter,) = drafters(study_of(*whole))
    pairs = compared(SPECULATION, (*whole, *there))
    assert {pair["window_method"] for pair in pairs} == {"steady", "whole_stage"}
    for order in (pairs, pairs[::-1]):
        spoken = home(drafter, order)
        assert spoken
        assert spoken["window_method"] == "whole_stage"


def test_no_curve_of_latency_or_energy_is_of_what_was_asked_or_of_the_other_method() -> None:
    whole, there = both()
    told = arm({8: 9e6}, **MTP, speculative_config=asked(5.0))
    words = Words("en")
    found = latency.section(study_of(*whole, *there, *told), words)
    assert found == latency.section(study_of(*whole), words)
    energy_of = [replace(row, energy_j=10.0, power_mean_w=5.0) for row in (*whole, *there, *told)]
    drawn = energy.section(study_of(*energy_of), words)
    assert {row.row_id for line in drawn["lines"] for use in line.uses.uses for row in use.stage.rows} <= {
        row.row_id for row in whole
    }
