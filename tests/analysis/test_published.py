"""Published figures beside rows: what is computed, from which rows, and what is left open rather than guessed."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from collector.analysis.figures import Figure, Labels, recomputed
from collector.analysis.published import Comparison, compare, summary
from collector.core.rows import SCHEMA_VERSION, Position, Row
from collector.report.published_files import parse_published
from tests.report.sample import make_row

FIGURES = Path(__file__).parents[2] / "data" / "published" / "figures.csv"
GIB = 2**30
MTP = {"speculation": "mtp", "num_speculative_tokens": 4, "tokens_per_step": 3.4}
BASE = Labels(
    model="alpha-30b", kv_cache_dtype="auto", speculation="off", nvlink="on", concurrency=1,
    prompt_set="synthetic", series="main",
)  # fmt: skip


def figure(metric: str, value: float, unit: str = "tok/s", resolution: float = 0.1, **labels: Any) -> Figure:
    return Figure(
        figure_id=f"{metric}-{value}",
        section="any",
        labels=replace(BASE, **labels),
        metric=metric,
        value=value,
        unit=unit,
        resolution=resolution,
    )


def one(figures: Figure | list[Figure], rows: list[Row]) -> Comparison:
    return compare(figures if isinstance(figures, list) else [figures], rows)[0]


def test_a_throughput_is_the_mean_of_its_repeats_and_names_them() -> None:
    rows = [make_row(system_throughput_tok_s=60.0), make_row(system_throughput_tok_s=62.0, repeat=2)]
    found = one(figure("system_throughput", 50.0), rows)
    assert found.computed == pytest.approx(61.0)
    assert found.error == pytest.approx(0.22)
    assert set(found.row_ids) == {row.row_id for row in rows}


def test_gains_are_percentages_whose_error_is_in_points() -> None:
    rows = [
        make_row(system_throughput_tok_s=50.0),
        make_row(system_throughput_tok_s=60.0, kv_cache_dtype="fp8_e5m2", attention_backend="FLASHINFER"),
        make_row(system_throughput_tok_s=40.0, nvlink="off", extra_flags="--disable-custom-all-reduce"),
    ]
    kv = one(figure("kv_fp8_gain", 18.5, "%", kv_cache_dtype="fp8_e5m2"), rows)
    assert [kv.computed, kv.error] == pytest.approx([20.0, 1.5])
    link = one(figure("nvlink_gain", 27.0, "%"), rows)
    assert [link.computed, link.error] == pytest.approx([25.0, -2.0])


def test_a_ratio_is_on_over_off_of_one_series_and_a_loss_is_off_less_on() -> None:
    rows = [
        make_row(system_throughput_tok_s=50.0),
        make_row(system_throughput_tok_s=99.0, series="k3"),
        make_row(system_throughput_tok_s=40.0, **MTP),
    ]
    labels: dict[str, Any] = {"speculation": "mtp", "num_speculative_tokens": 4}
    assert one(figure("speculation_ratio", 1.0, "x", **labels), rows).computed == pytest.approx(0.8)
    assert one(figure("throughput_loss", 9.0, **labels), rows).computed == pytest.approx(10.0)
    open_pair = one(figure("speculation_ratio", 1.0, "x", **labels, series="k3"), rows)
    assert (open_pair.computed, open_pair.reason) == (None, "missing")


def test_a_change_is_between_two_concurrencies_of_one_configuration() -> None:
    rows = [
        make_row(system_throughput_tok_s=tok_s, concurrency=c) for c, tok_s in ((8, 100.0), (16, 200.0), (32, 190.0))
    ]
    changes = [
        figure("throughput_change_c8_to_c32", 24.0, "%", concurrency=None),
        figure("throughput_change_c16_to_c32", -4.9, "%", concurrency=None),
    ]
    assert [found.computed for found in compare(changes, rows)] == [pytest.approx(90.0), pytest.approx(-5.0)]


def test_traffic_is_that_of_the_stage_at_32_in_gib() -> None:
    rows = [make_row(concurrency=c, nvlink_bytes=c * GIB) for c in (1, 32)]
    assert one(figure("nvlink_traffic", 40.0, "GiB", concurrency=None), rows).computed == pytest.approx(32.0)
    silent = [make_row(concurrency=32, nvlink="off", nvlink_bytes=0)]
    found = one(figure("nvlink_traffic", 0.0, "GiB", nvlink="off", concurrency=None), silent)
    assert (found.computed, found.error) == (0.0, 0.0)


def test_a_relative_error_to_zero_is_not_made_up() -> None:
    found = one(figure("nvlink_traffic", 0.0, "GiB"), [make_row(concurrency=32, nvlink_bytes=5 * GIB)])
    assert (found.computed, found.error) == (5.0, None)


def speculating(prompt_set: str, accepted: int, drafts: int, **changes: Any) -> Row:
    counts = {"accepted_tokens": accepted, "drafts": drafts, "draft_tokens": 4 * drafts}
    return make_row(**(MTP | {"prompt_set": prompt_set} | counts | changes))


def position(row: Row, **changes: int) -> Position:
    identity: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "acceptance_rate": None, "conditional_rate": None}
    identity |= {name: getattr(row, name) for name in ("campaign", "row_id", "configuration_id")}
    return Position(**(identity | changes))


GENERAL = [
    figure("accepted_per_forward", 2.0, "tokens", kv_cache_dtype=None, speculation="mtp", num_speculative_tokens=4,
           nvlink=None, concurrency=None, prompt_set=name)
    for name in ("general", "general/english", "general/code")
]  # fmt: skip


def test_the_pooled_accepted_per_forward_is_a_ratio_of_sums_not_a_mean_of_ratios() -> None:
    rows = [
        speculating("general/english", 100, 100),
        speculating("general/code", 90, 30),
        speculating("synthetic", 9, 9),
    ]
    pooled, english, code = compare(GENERAL, rows)
    assert pooled.computed == pytest.approx(190 / 130)  # the mean of the ratios would be 2
    assert [english.computed, code.computed] == pytest.approx([1.0, 3.0])
    assert set(pooled.row_ids) == {rows[0].row_id, rows[1].row_id}
    rate = replace(GENERAL[0], metric="acceptance_rate")
    assert one([rate, *GENERAL], rows).computed == pytest.approx(190 / 520)


def test_what_was_counted_from_drafts_carries_its_standard_error_in_the_figures_unit() -> None:
    (row,) = rows = [speculating("general/english", 60, 100)]
    accepted = enumerate((30, 20, 10, 0), start=1)
    told = [position(row, drafts=100, position=at, accepted_tokens=tokens) for at, tokens in accepted]
    rate = replace(GENERAL[1], metric="acceptance_rate")
    throughput = figure("system_throughput", 50.0, speculation="mtp", num_speculative_tokens=4)
    forward, share, other = compare([GENERAL[1], rate, replace(throughput, labels=GENERAL[1].labels)], rows, told)
    # E[n] = 0.6 and E[n^2] = 0.3 + 3 x 0.2 + 5 x 0.1 = 1.4
    assert forward.sampling_error == pytest.approx(sqrt((1.4 - 0.36) / 100))
    assert share.sampling_error == pytest.approx(sqrt((1.4 - 0.36) / 100) / 4)
    assert other.sampling_error is None
    assert compare(GENERAL, rows)[1].sampling_error is None  # no positions told


def test_a_pool_without_one_of_its_prompt_sets_is_left_open() -> None:
    pooled = one(GENERAL, [speculating("general/english", 100, 100)])
    assert (pooled.computed, pooled.reason) == (None, "missing")


def test_acceptance_pools_what_the_figure_leaves_open_also_over_series() -> None:
    rate = replace(GENERAL[0], metric="acceptance_rate", labels=replace(GENERAL[0].labels, prompt_set="synthetic"))
    rows = [speculating("synthetic", 100, 100), speculating("synthetic", 20, 20, series="k3", nvlink="off")]
    assert one(rate, rows).computed == pytest.approx(120 / 480)


def test_time_to_first_token_is_the_extreme_over_the_published_models() -> None:
    labels: dict[str, Any] = dict.fromkeys(("model", "kv_cache_dtype", "speculation", "nvlink"))
    extremes = [figure(name, 4.0, "s", **labels, concurrency=32) for name in ("ttft_min", "ttft_max")]
    seconds = {"auto": 4.5, "fp8_e5m2": 6.0}
    rows = [make_row(concurrency=32, kv_cache_dtype=kv, ttft_mean_s=s) for kv, s in seconds.items()]
    rows += [make_row(concurrency=32, model="other", ttft_mean_s=0.1), make_row(concurrency=1, ttft_mean_s=0.2)]
    low, high, _ = compare([*extremes, figure("system_throughput", 1.0)], rows)
    assert (low.computed, high.computed) == (4.5, 6.0)
    assert (low.row_ids, high.row_ids) == ((rows[0].row_id,), (rows[1].row_id,))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([{"checks": "throttled"}], "checks"),
        ([{"model": "other"}], "missing"),
        ([{"system_throughput_tok_s": None}], "no_value"),
        ([{}, {"extra_flags": "--enforce-eager"}], "ambiguous"),
    ],
)
def test_a_figure_that_rows_do_not_give_says_why(changes: list[dict[str, Any]], reason: str) -> None:
    found = one(figure("system_throughput", 50.0), [make_row(**change) for change in changes])
    assert (found.computed, found.error, found.row_ids, found.reason) == (None, None, (), reason)


def test_two_sides_under_other_settings_are_no_pair() -> None:
    rows = [make_row(), make_row(**MTP, max_model_len=4096)]
    found = one(figure("speculation_ratio", 1.0, "x", speculation="mtp", num_speculative_tokens=4), rows)
    assert (found.computed, found.reason) == (None, "settings_differ")


def test_a_setting_or_count_is_never_computed() -> None:
    assert one(figure("drafter_parameters", 2.56, "B"), [make_row()]).reason == "not_in_rows"


def test_rows_under_another_setup_than_the_published_one_are_not_compared() -> None:
    figures = [figure("system_throughput", 60.0), figure("max_num_seqs", 32, model=None, concurrency=None)]
    assert one(figures, [make_row(max_num_seqs=64)]).reason == "missing"
    assert one(figures, [make_row(max_num_seqs=32)]).computed == 60.0


def test_provenances_and_campaigns_are_never_mixed() -> None:
    for other in ({"provenance": "emulated"}, {"campaign": "other"}):
        with pytest.raises(ValueError, match="never compared as one"):
            compare([figure("system_throughput", 1.0)], [make_row(), make_row(**other, repeat=2)])


def test_a_summary_has_medians_of_sizes_and_counts_the_right_side_of_one() -> None:
    ways = {1: (2.0, 90.0), 8: (0.8, 50.0), 32: (0.9, 60.0)}  # printed ratio; with speculation, of 50 without
    labels: dict[str, Any] = {"speculation": "mtp", "num_speculative_tokens": 4}
    figures = [figure("speculation_ratio", ratio, "x", **labels, concurrency=c) for c, (ratio, _) in ways.items()]
    rows = [make_row(concurrency=c, system_throughput_tok_s=50.0) for c in ways]
    rows += [make_row(**MTP, concurrency=c, system_throughput_tok_s=tok_s) for c, (_, tok_s) in ways.items()]
    unknown = figure("speculation_ratio", 1.5, "x", **labels, concurrency=64)
    (line,) = summary(compare([*figures, figures[0], unknown], rows))
    # 1.8, 1.0, 1.2 for 2.0, 0.8, 0.9: errors -10 %, +25 %, +33.3 %; only 1.2 says gain where a loss was printed
    assert (line.n, line.open, line.right_side) == (3, 1, 2)
    assert [line.median, line.worst] == pytest.approx([0.25, 1 / 3])


# --- the published figures themselves ------------------------------------------------------------------------


def published() -> tuple[Figure, ...]:
    return parse_published({"figures.csv": FIGURES.read_text(encoding="utf-8")}, str).figures


def test_one_published_ratio_does_not_follow_from_its_own_throughputs() -> None:
    found = recomputed(published())
    (wrong,) = [one for one in found if not one.agrees]
    assert len(found) > 20
    assert (wrong.figure.figure_id, wrong.figure.value) == ("F020", 1.19)
    assert wrong.value == pytest.approx(338.9 / 286.1)
    assert [wrong.low, wrong.high] == pytest.approx([338.85 / 286.15, 338.95 / 286.05])
    assert wrong.high < 1.185


def test_without_rows_every_published_figure_is_open() -> None:
    found = compare(published(), [])
    assert {one.computed for one in found} == {None}
    assert {one.reason for one in found} == {"missing", "not_in_rows"}
