"""What a speculation ratio is made of, and what it must never be made of."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.speculation import Pair, pairs, verdict
from collector.core.rows import Row
from tests.report.sample import make_failure, make_row

DFLASH = {"speculation": "dflash", "num_speculative_tokens": 15, "tokens_per_step": 3.9}
THROUGHPUTS = st.floats(min_value=1.0, max_value=5000.0)


def off(throughput: float | None = 50.0, **changes: object) -> Row:
    return make_row(system_throughput_tok_s=throughput, **changes)


def on(throughput: float | None = 100.0, **changes: object) -> Row:
    return make_row(system_throughput_tok_s=throughput, **(DFLASH | changes))


def only(found: list[Pair]) -> Pair:
    assert len(found) == 1
    return found[0]


def ratios(pair: Pair) -> list[float | None]:
    return [point.ratio for point in pair.points]


def test_a_ratio_is_throughput_with_speculation_over_that_without() -> None:
    pair = only(pairs([off(57.6), on(101.2)]))
    (point,) = pair.points
    assert point.ratio == pytest.approx(101.2 / 57.6)
    assert (pair["model"], pair.speculation, pair.num_speculative_tokens) == ("alpha-30b", "dflash", 15)
    assert (point.n_on, point.n_off, point.reason) == (1, 1, None)


def test_points_come_in_the_order_of_concurrency() -> None:
    rows = [one(concurrency=c, requests=2 * c) for c in (32, 1, 8) for one in (on, off)]
    assert [point.concurrency for point in only(pairs(rows)).points] == [1, 8, 32]


def test_repeats_give_a_ratio_of_means_and_the_range_of_all_ratios_between_them() -> None:
    (point,) = only(pairs([off(50), off(40, repeat=2), on(90), on(108, repeat=2)])).points
    assert point.ratio == pytest.approx(99 / 45)
    assert point.low == pytest.approx(90 / 50)
    assert point.high == pytest.approx(108 / 40)
    assert (point.n_on, point.n_off) == (2, 2)


@pytest.mark.parametrize("repeats", [{"extra": []}, {"extra": [on(90, repeat=2)]}, {"extra": [off(40, repeat=2)]}])
def test_one_measurement_of_either_arm_gives_no_spread(repeats: dict[str, list[Row]]) -> None:
    (point,) = only(pairs([off(50), on(100), *repeats["extra"]])).points
    assert point.ratio is not None
    assert (point.low, point.high) == (None, None)


def test_every_point_carries_the_rows_that_prove_it() -> None:
    rows = [off(50), off(51, repeat=2), on(100), on(70, repeat=2, checks="throttled")]
    (point,) = only(pairs(rows)).points
    assert set(point.row_ids_off) == {rows[0].row_id, rows[1].row_id}
    assert point.row_ids_on == (rows[2].row_id,)
    assert point.row_ids_left_out == (rows[3].row_id,)


@pytest.mark.parametrize("checked", ["on", "off"])
def test_a_row_with_a_failed_check_feeds_no_ratio_and_is_named_as_the_reason(checked: str) -> None:
    checks = "throttled prefix_hits"
    rows = [off(checks=checks if checked == "off" else ""), on(checks=checks if checked == "on" else "")]
    (point,) = only(pairs(rows)).points
    assert point.ratio is None
    assert point.reason is not None
    assert (point.reason.kind, point.reason.arm) == ("checks", checked)
    assert point.reason.names == ("prefix_hits", "throttled")


def test_a_stage_that_only_one_arm_has_says_that_its_partner_is_missing() -> None:
    pair = only(pairs([off(), on(), off(concurrency=8, requests=32), on(concurrency=16, requests=48)]))
    reasons = [(point.concurrency, point.reason and (point.reason.kind, point.reason.arm)) for point in pair.points]
    assert reasons == [(1, None), (8, ("missing", "on")), (16, ("missing", "off"))]


def test_a_configuration_that_failed_to_start_is_a_reason_with_its_category() -> None:
    failure = make_failure(model="alpha-30b", speculation="dflash", num_speculative_tokens=15, category="kv_cache")
    pair = only(pairs([off(), off(concurrency=8, requests=32)], [failure]))
    assert pair.speculation == "dflash"
    assert ratios(pair) == [None, None]
    for point in pair.points:
        assert point.reason is not None
        assert (point.reason.kind, point.reason.arm, point.reason.names) == ("failed", "on", ("kv_cache",))
        assert point.reason.failure_ids == (failure.failure_id,)


def test_a_failed_start_without_speculation_is_a_reason_as_well() -> None:
    failure = make_failure(model="alpha-30b", category="oom_weights")
    (point,) = only(pairs([on()], [failure])).points
    assert point.reason is not None
    assert (point.reason.kind, point.reason.arm, point.reason.names) == ("failed", "off", ("oom_weights",))


def test_a_failure_of_another_setting_explains_nothing() -> None:
    failure = make_failure(model="alpha-30b", kv_cache_dtype="fp8_e5m2", speculation="dflash")
    assert pairs([off()], [failure]) == []


def test_a_start_that_failed_once_and_then_ran_is_no_reason() -> None:
    row = on()
    failure = make_failure(
        model="alpha-30b",
        speculation="dflash",
        num_speculative_tokens=15,
        configuration_id=row.configuration_id,
    )
    assert ratios(only(pairs([off(), row], [failure]))) == [pytest.approx(2.0)]


@pytest.mark.parametrize(
    ("column", "other"),
    [
        ("series", "k3"),
        ("model", "beta-31b"),
        ("kv_cache_dtype", "fp8_e5m2"),
        ("nvlink", "off"),
        ("tensor_parallel", 1),
        ("max_model_len", 8192),
        ("max_num_seqs", 16),
        ("extra_flags", "--enforce-eager"),
        ("engine_version", "0.28.0"),
        ("image", "example/engine:other"),
        ("attention_backend", "TRITON_ATTN"),
        ("provenance", "emulated"),
        ("campaign", "another"),
        ("host_id", "h-other"),
        ("driver_version", "570.0"),
        ("prompt_set", "general"),
        ("prompt_set_digest", "other"),
        ("output_tokens", 128),
        ("window_method", "steady_state"),
        ("requests", 16),
        ("concurrency", 2),
    ],
)
def test_nothing_but_speculation_may_differ_within_a_pair(column: str, other: object) -> None:
    found = pairs([replace(off(), row_id="a", **{column: other}), replace(on(), row_id="b")])  # type: ignore[arg-type]
    assert [ratio for pair in found for ratio in ratios(pair) if ratio is not None] == []


def test_a_partner_under_other_settings_is_named_by_what_differs() -> None:
    found = pairs([off(max_num_seqs=16, attention_backend="TRITON_ATTN"), on()])
    (point,) = only(found).points
    assert point.reason is not None
    assert (point.reason.kind, point.reason.names) == ("settings_differ", ("max_num_seqs", "attention_backend"))


def test_two_ways_of_speculating_are_two_pairs() -> None:
    found = pairs([off(), on(), on(80, num_speculative_tokens=7), on(70, speculation="ngram")])
    assert [(pair.speculation, pair.num_speculative_tokens) for pair in found] == [
        ("dflash", 7),
        ("dflash", 15),
        ("ngram", 15),
    ]
    assert all(point.ratio for pair in found for point in pair.points)


def test_configurations_that_the_columns_cannot_tell_apart_are_never_pooled() -> None:
    """They differ in something without a column, such as an environment variable."""
    twin = replace(off(60), configuration_id="another", row_id="another")
    (point,) = only(pairs([off(50), twin, on()])).points
    assert point.ratio is None
    assert point.off_tok_s is None
    assert point.reason is not None
    assert (point.reason.kind, point.reason.arm) == ("ambiguous", "off")


@pytest.mark.parametrize("throughput", [None, 0.0])
def test_without_a_throughput_there_is_no_ratio(throughput: float | None) -> None:
    broken = replace(off(), system_throughput_tok_s=throughput)
    (point,) = only(pairs([broken, on()])).points
    assert point.ratio is None
    assert point.reason is not None
    assert point.reason.kind == "no_throughput"


def test_without_rows_or_without_speculation_there_is_no_pair() -> None:
    assert pairs([]) == []
    assert pairs([off(), off(concurrency=8, requests=32)]) == []
    assert pairs([], [make_failure(speculation="mtp")]) == []


@pytest.mark.parametrize(
    ("measured", "outcome", "bracket"),
    [
        ({1: 2.1, 8: 1.3}, "gain", None),
        ({1: 2.1, 8: 1.0}, "no_loss", None),
        ({1: 1.004, 8: 0.996}, "even", None),
        ({1: 1.0, 8: 0.9}, "no_gain", None),
        ({1: 0.9, 8: 0.7}, "loss", None),
        ({1: 1.7, 8: 0.9, 32: 0.4}, "falls", (1, 8)),
        ({1: 1.7, 8: 1.0, 32: 0.4}, "falls", (1, 32)),
        ({1: 0.9, 8: 1.2}, "rises", (1, 8)),
        ({1: 1.2, 8: 0.9, 32: 1.1}, "mixed", None),
    ],
)
def test_a_verdict_follows_from_the_ratios(
    measured: dict[int, float], outcome: str, bracket: tuple[int, int] | None
) -> None:
    rows = [off(100, concurrency=c, requests=2 * c) for c in measured]
    rows += [on(100 * ratio, concurrency=c, requests=2 * c) for c, ratio in measured.items()]
    found = verdict(only(pairs(rows)))
    assert found is not None
    assert (found.outcome, found.bracket) == (outcome, bracket)
    assert found.best.ratio == pytest.approx(max(measured.values()))
    assert found.worst.ratio == pytest.approx(min(measured.values()))


def test_a_pair_without_a_ratio_has_no_verdict() -> None:
    assert verdict(only(pairs([on()]))) is None


@st.composite
def campaigns(draw: st.DrawFn) -> list[Row]:
    rows = []
    for concurrency in draw(st.sets(st.sampled_from([1, 2, 8, 32]), min_size=1)):
        for arm in (off, on):
            for repeat in range(1, draw(st.integers(0, 3)) + 1):
                checks = draw(st.sampled_from(["", "", "", "throttled"]))
                stage = {"concurrency": concurrency, "requests": 2 * concurrency, "repeat": repeat}
                rows.append(arm(draw(THROUGHPUTS), **stage, checks=checks))
    return rows


@given(campaigns(), st.randoms(use_true_random=False))
def test_findings_do_not_depend_on_the_order_of_rows(rows: list[Row], order: random.Random) -> None:
    shuffled = list(rows)
    order.shuffle(shuffled)
    assert pairs(shuffled) == pairs(rows)


@given(campaigns())
def test_exchanging_the_arms_inverts_the_ratio(rows: list[Row]) -> None:
    def exchanged(row: Row) -> Row:
        speculating = row.speculation != "off"
        twin = make_row(**(DFLASH if not speculating else {}))
        columns = ("speculation", "num_speculative_tokens", "drafter", "speculative_config", "configuration_id")
        return replace(row, **{name: getattr(twin, name) for name in columns})

    there = {point.concurrency: point for pair in pairs(rows) for point in pair.points}
    back = {point.concurrency: point for pair in pairs([exchanged(row) for row in rows]) for point in pair.points}
    for concurrency in set(there) & set(back):
        one, other = there[concurrency], back[concurrency]
        assert (one.ratio is None) == (other.ratio is None)
        if one.ratio is not None and other.ratio is not None:
            assert one.ratio * other.ratio == pytest.approx(1)
        if one.low is not None and other.high is not None:
            assert one.low * other.high == pytest.approx(1)


@given(campaigns())
def test_rows_with_failed_checks_never_change_a_ratio(rows: list[Row]) -> None:
    kept = {
        (pair.speculation, point.concurrency): point.ratio
        for pair in pairs([row for row in rows if not row.checks])
        for point in pair.points
    }
    for pair in pairs(rows):
        for point in pair.points:
            assert point.ratio == kept.get((pair.speculation, point.concurrency))
            used = {*point.row_ids_on, *point.row_ids_off}
            assert not used & {row.row_id for row in rows if row.checks}
