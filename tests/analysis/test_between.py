"""Two campaigns against each other: only like with like, and nothing worse than noise makes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.between import MAY_DIFFER, Change, Comparison, compare
from collector.analysis.noise import LEAST_EFFECT, NOISE_MULTIPLE
from collector.analysis.study import Study
from collector.analysis.unlike import LIKE, Refused
from collector.core.errors import UserError
from collector.core.rows import Failure, Row
from tests.analysis.arms import MTP, arm, pair_of
from tests.report.sample import make_failure

OTHER_HOST = {
    "host_id": "h-other",
    "driver_version": "590.10",
    "engine_version": "0.28.0",
    "image": "example/engine:0.28.0",
}
THROUGHPUT = "system_throughput_tok_s"


def study(*rows: Row, name: str = "before", failures: tuple[Failure, ...] = ()) -> Study:
    return Study(name=name, rows=rows, failures=failures)


def repeats(values: list[float], **changes: Any) -> list[Row]:
    return [row for repeat, value in enumerate(values, 1) for row in arm({8: value}, repeat=repeat, **changes)]


def change(found: Comparison, metric: str = THROUGHPUT) -> Change:
    (cell,) = found.cells
    return next(one for one in cell.changes if one.metric == metric)


def refused(found: Comparison, side: str = "A") -> list[Refused]:
    return [one for one in found.refused if one.side == side]


def test_what_differs_between_the_campaigns_is_told_and_does_not_keep_cells_apart() -> None:
    a, b = arm({8: 300.0}), arm({8: 300.0}, campaign="after", **OTHER_HOST)
    found = compare(study(*a), study(*b, name="after"))
    assert {name: found.differs[name] for name in OTHER_HOST} == {
        name: ((getattr(a[0], name),), (value,)) for name, value in OTHER_HOST.items()
    }
    assert len(found.cells) == 1
    assert not found.refused
    assert not found.worse


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"kv_cache_dtype": "fp8_e5m2"}, ("kv_cache_dtype",)),
        ({"nvlink": "off"}, ("nvlink",)),
        ({"tensor_parallel": 1}, ("tensor_parallel",)),
        ({"prompt_set": "general/code"}, ("prompt_set",)),
        ({"output_tokens": 128}, ("output_tokens",)),
        ({"max_num_seqs": 64}, ("max_num_seqs",)),
        ({"model_path": "example/alpha-30b-w8a8"}, ("model_path",)),
        (MTP, ("speculation",)),
    ],
)
def test_unlike_cells_are_refused_with_what_differs(changes: dict[str, Any], names: tuple[str, ...]) -> None:
    found = compare(study(*arm({8: 300.0})), study(*arm({8: 100.0}, **changes)))
    assert found.cells == ()
    assert [(one.kind, one.names) for one in found.refused] == [("differs", names)] * 2
    assert not found.worse


def test_the_nearest_cell_says_what_differs() -> None:
    b = [*arm({32: 500.0}), *arm({8: 300.0}, nvlink="off", tensor_parallel=1)]
    (one,) = refused(compare(study(*arm({8: 300.0})), study(*b)))
    assert one.names == ("concurrency",)


def test_another_folder_with_the_same_weights_is_no_difference() -> None:
    a = arm({8: 300.0}, **MTP, model_path="/models/x-30b", drafter="/models/d",
            speculative_config='{"method":"mtp","model":"/models/d"}')  # fmt: skip
    b = arm({8: 300.0}, **MTP, model_path="/srv/x-30b", drafter="/srv/d",
            speculative_config='{"model":"/srv/d","method":"mtp"}')  # fmt: skip
    assert len(compare(study(*a), study(*b)).cells) == 1


def test_emulated_and_measured_campaigns_are_refused_outright() -> None:
    emulated = study(*arm({8: 300.0}, provenance="emulated"), name="after")
    with pytest.raises(UserError, match="before is measured, after is emulated"):
        compare(study(*arm({8: 300.0})), emulated)


def test_of_a_campaign_with_both_only_rows_of_one_provenance_meet() -> None:
    both = [*arm({8: 300.0}), *arm({16: 300.0}, provenance="emulated")]
    found = compare(study(*both), study(*arm({8: 300.0, 16: 100.0})))
    assert [one.cell.concurrency for one in found.cells] == [8]
    assert ("differs", ("provenance",)) in {(one.kind, one.names) for one in refused(found)}


def test_without_any_repeat_a_change_of_any_size_is_unknown_and_fails_nothing() -> None:
    found = compare(study(*arm({8: 300.0})), study(*arm({8: 30.0})))
    assert {one.verdict for one in found.cells[0].changes} == {"unknown"}
    assert not found.worse


def test_repeats_of_either_campaign_are_a_noise_floor() -> None:
    a = repeats([300.0, 303.0])  # 1 %
    over = 1 - 1.1 * NOISE_MULTIPLE / 100
    for one, other in ((a, arm({8: 301.5 * over})), (arm({8: 301.5}), [])):
        b = other or [replace(row, system_throughput_tok_s=(row.system_throughput_tok_s or 0) * over) for row in a]
        found = change(compare(study(*one), study(*b)))
        assert found.judgement.interval is None
        assert found.verdict == "regression"
    within = change(compare(study(*a), study(*arm({8: 301.5 * 0.99}))))
    assert within.verdict == "within"


def test_with_repeats_on_both_sides_an_interval_decides() -> None:
    a = repeats([300.0, 300.5, 299.5])
    worse = change(compare(study(*a), study(*repeats([285.0, 286.0, 284.5]))))
    assert worse.judgement.interval is not None
    assert worse.judgement.interval[1] < 1
    assert worse.verdict == "regression"
    noisy = change(compare(study(*a), study(*repeats([285.0, 310.0, 260.0]))))
    assert noisy.verdict == "within"


def test_less_is_better_for_latency() -> None:
    calm = {"ttft_mean_s": 1.0}
    a = [
        *repeats([300.0, 300.1, 300.2], **calm),
        *arm({1: 50.0}, ttft_mean_s=0.1),
        *arm({1: 50.0}, repeat=2, ttft_mean_s=0.1001),
    ]
    b = [replace(row, ttft_mean_s=(row.ttft_mean_s or 0) * 1.2) for row in a]
    found = compare(study(*a), study(*b))
    verdicts = {one.verdict for cell in found.cells for one in cell.changes if one.metric == "ttft_mean_s"}
    assert verdicts == {"regression"}
    back = compare(study(*b), study(*a))
    assert {one.verdict for cell in back.cells for one in cell.changes if one.metric == "ttft_mean_s"} == {"gain"}


def test_what_nobody_would_notice_is_no_regression_however_well_it_was_measured() -> None:
    small = 1 - 0.5 * LEAST_EFFECT / 100
    a = repeats([300.0, 300.01, 300.02])
    found = compare(study(*a), study(*repeats([300.0 * small, 300.01 * small, 300.02 * small])))
    assert change(found).verdict == "small"
    assert not found.worse


def test_rows_with_failed_checks_feed_nothing_and_are_counted() -> None:
    a = [*repeats([300.0, 303.0]), *arm({8: 900.0}, repeat=3, checks="throttled")]
    b = [*repeats([300.0, 303.0]), *arm({32: 400.0}, checks="throttled client_bound")]
    found = compare(study(*a), study(*b))
    assert found.left_out == {"A": 1, "B": 1}
    assert change(found).ratio.value == pytest.approx(1.0)
    assert len(change(found).ratio.base) == 2
    assert [(one.kind, one.names) for one in refused(found, "B")] == [("checks", ("client_bound", "throttled"))]


def test_a_configuration_that_fails_now_is_worse_and_one_that_runs_now_is_not() -> None:
    ran, failed = arm({8: 300.0}, kv_cache_dtype="fp8_e5m2"), make_failure(model="alpha-30b", kv_cache_dtype="fp8_e5m2")
    rest = arm({8: 310.0})
    now = compare(study(*rest, *ran), study(*rest, failures=(failed,)))
    assert [(one.kind, one.names) for one in now.broke] == [("failed", ("oom_weights",))]
    assert now.worse
    assert not compare(study(*rest, failures=(failed,)), study(*rest, *ran)).worse


def test_an_engine_that_dies_on_its_way_is_why_its_last_cells_are_missing() -> None:
    a = arm({8: 300.0, 32: 500.0})
    died = make_failure(model="alpha-30b", category="crashed_serving", phase="serving", row_id="the-row")
    found = compare(study(*a), study(*arm({8: 300.0}), failures=(died,)))
    assert [(one.cell.concurrency, one.kind, one.names) for one in found.refused] == [
        (32, "failed", ("crashed_serving",))
    ]
    assert found.worse


def test_configurations_that_look_alike_are_told_apart_by_their_ids_or_not_at_all() -> None:
    one, other = arm({8: 300.0}, extra_flags="--a"), arm({8: 200.0}, extra_flags="--b")
    both = compare(study(*one, *other), study(*one, *other))
    assert {cell.changes[0].ratio.value for cell in both.cells} == {1.0}
    single = compare(study(*one, *other), study(*arm({8: 100.0}, extra_flags="--c")))
    assert single.cells == ()
    assert {kind.kind for kind in single.refused} == {"ambiguous"}


def test_the_same_plan_on_two_hosts_has_the_same_ids_and_is_still_compared() -> None:
    a = pair_of({8: 1.5})
    b = [replace(row, host_id="other", system_throughput_tok_s=(row.system_throughput_tok_s or 0) * 2) for row in a]
    found = compare(study(*a), study(*b))
    assert {one.changes[0].ratio.value for one in found.cells} == {2.0}


@given(st.permutations(range(12)), st.permutations(range(12)))
def test_the_order_of_rows_changes_nothing(first: list[int], second: list[int]) -> None:
    a = [
        *repeats([300.0, 303.0, 299.0]),
        *repeats([450.0, 440.0, 445.0], **MTP),
        *arm({1: 50.0, 2: 90.0}),
        *arm({1: 51.0, 2: 91.0}, repeat=2),
        *arm({4: 9.0, 3: 1.0}, checks="throttled"),
    ]
    b = [
        replace(row, engine_version="0.28.0", system_throughput_tok_s=(row.system_throughput_tok_s or 0) ** 0.98)
        for row in a
    ]
    shuffled = study(*(a[at] for at in first)), study(*(b[at] for at in second))
    assert compare(*shuffled) == compare(study(*a), study(*b))


def test_no_column_both_makes_alike_and_may_differ() -> None:
    assert not set(LIKE) & set(MAY_DIFFER)
