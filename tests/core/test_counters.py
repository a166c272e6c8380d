"""Every figure of a window against recorded scrapes whose truth is known, by arithmetic of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from collector.core import series
from collector.core.checks import lane_seconds
from collector.core.counters import Percentile, StageResult, deltas, percentile, stage_result, trimmed
from collector.core.errors import DataError
from collector.core.series import Histogram, LabelSet, Samples
from collector.core.window import Sample
from collector.measure.scrape import gauges, parse
from tests.data_files import BUSY, PAIRS, Pair, pair, window_of

#: Recorded with several API servers, which count an engine step once each.
SEVERAL_API_SERVERS = ("vllm-0.27.0-nospec-api2", "vllm-0.27.0-nospec-dp2")
#: Filled from the samples inside the window, not from the two scrapes.
SAMPLED = ("kv_usage_peak", "waiting_peak", "running_mean")

each_pair = pytest.mark.parametrize("recorded", PAIRS, ids=lambda one: one.label)


def result_of(before: Samples, after: Samples, recorded: Pair) -> StageResult:
    window = replace(window_of(recorded), before=before, after=after)
    return stage_result(window, deltas(before, after), lane_s=lane_seconds(window))


def result(recorded: Pair) -> StageResult:
    return result_of(recorded.samples("before"), recorded.samples("after"), recorded)


def counted(recorded: Pair, name: str, label: str = "") -> float | None:
    """Return after minus before of a series, summed over its labels, read line by line."""
    totals = []
    for when in ("before", "after"):
        lines = [one for one in recorded.text(when).splitlines() if re.match(rf"{re.escape(name)}[{{ ]", one)]
        found = [float(one.rsplit(" ", 1)[1]) for one in lines if label in one]
        totals.append(sum(found) if found else None)
    return None if None in totals else totals[1] - totals[0]  # type: ignore[operator]


def truth_of(recorded: Pair) -> dict[str, Any]:
    """Return the pair's truth under one set of names, whichever kind of pair it is."""
    truth = recorded.truth
    told = {key: truth[key] for key in ("requests", "completion_tokens", "prompt_tokens", "wall_seconds")}
    if not recorded.real:
        return told | {
            "itl_count": truth["itl_observations"],
            "itl_sum": truth["itl_sum"],
            "ttft_sum": truth["ttft_sum"],
            "drafts": truth["drafts"],
            "draft_tokens": truth["draft_tokens"],
            "accepted": truth["accepted"],
            "preemptions": 0,
        }
    delta = truth["delta"]
    return told | {
        "itl_count": delta["vllm:inter_token_latency_seconds_count"],
        "itl_sum": delta["vllm:inter_token_latency_seconds_sum"],
        "ttft_sum": delta["vllm:time_to_first_token_seconds_sum"],
        "drafts": delta.get("vllm:spec_decode_num_drafts_total"),
        "draft_tokens": delta.get("vllm:spec_decode_num_draft_tokens_total"),
        "accepted": delta.get("vllm:spec_decode_num_accepted_tokens_total"),
        "preemptions": delta["vllm:num_preemptions_total"],
    }


def near(value: float) -> Any:
    """The truth is rounded to six places; a sum of few observations is small."""
    return pytest.approx(value, rel=1e-4, abs=2e-6)


def without(samples: Samples, *names: str) -> Samples:
    """Return a scrape that lacks a series, the parts of a histogram included."""
    parts = {name + end for name in names for end in ("", "_sum", "_count", "_bucket")}
    return {name: values for name, values in samples.items() if name not in parts}


# --- recorded pairs --------------------------------------------------------------------------------------


def test_the_recorded_pairs_cover_the_versions_and_variants() -> None:
    assert {one.version for one in PAIRS} == {"0.10.2", "0.14.1", "0.18.1", "0.27.0", "0.32.0"}
    assert {one.name for one in PAIRS} >= {*SEVERAL_API_SERVERS, "vllm-0.27.0-nospec-preempt", "vllm-0.27.0-spec"}


@each_pair
def test_tokens_and_requests_are_those_of_the_responses(recorded: Pair) -> None:
    truth, found = truth_of(recorded), result(recorded)
    assert found.generation_tokens == truth["completion_tokens"]
    assert found.prompt_tokens == truth["prompt_tokens"]
    d = deltas(recorded.samples("before"), recorded.samples("after"))
    assert d.counter("requests_succeeded") == truth["requests"]
    assert d.count("ttft") == truth["requests"]
    assert d.fell == ()


@each_pair
def test_histogram_counts_are_exact_and_sums_are_the_recorded_ones(recorded: Pair) -> None:
    truth = truth_of(recorded)
    d = deltas(recorded.samples("before"), recorded.samples("after"))
    assert d.count("itl") == truth["itl_count"]
    assert d.sum("itl") == near(truth["itl_sum"])
    assert d.sum("ttft") == near(truth["ttft_sum"])


@each_pair
def test_rates_and_means_follow_their_formulas(recorded: Pair) -> None:
    truth, found = truth_of(recorded), result(recorded)
    after_first = truth["completion_tokens"] - truth["requests"]
    assert found.system_throughput_tok_s == near(truth["completion_tokens"] / truth["wall_seconds"])
    assert found.ttft_mean_s == near(truth["ttft_sum"] / truth["requests"])
    assert found.tpot_mean_s == near(truth["itl_sum"] / after_first)
    assert found.request_decode_rate_tok_s == near(after_first / truth["itl_sum"])
    assert found.step_time_mean_s == near(truth["itl_sum"] / truth["itl_count"])
    assert found.tokens_per_step == near(after_first / truth["itl_count"])
    assert found.occupancy == near(BUSY)


@pytest.mark.parametrize("recorded", [one for one in PAIRS if not one.speculation], ids=lambda one: one.label)
def test_without_speculation_a_step_gives_one_token_and_nothing_is_said_about_drafts(recorded: Pair) -> None:
    found = result(recorded)
    assert found.tokens_per_step == 1
    assert found.trimmed_tokens == 0
    drafting = (
        found.drafts,
        found.draft_tokens,
        found.accepted_tokens,
        found.acceptance_rate,
        found.accepted_per_forward,
        found.drafted_step_share,
        found.positions,
    )
    assert drafting == (None,) * 7


@pytest.mark.parametrize("recorded", [one for one in PAIRS if one.speculation], ids=lambda one: one.label)
def test_drafts_are_those_of_the_truth(recorded: Pair) -> None:
    truth, found = truth_of(recorded), result(recorded)
    drafts, proposed, accepted = truth["drafts"], truth["draft_tokens"], truth["accepted"]
    assert (found.drafts, found.draft_tokens, found.accepted_tokens) == (drafts, proposed, accepted)
    assert found.acceptance_rate == near(accepted / proposed)
    assert found.accepted_per_forward == near(accepted / drafts)
    assert found.drafted_step_share == near(drafts / truth["itl_count"])
    cut = truth["requests"] + truth["itl_count"] + accepted - truth["completion_tokens"]
    assert found.trimmed_tokens == cut
    assert 0 <= cut <= 4 * truth["requests"]


@pytest.mark.parametrize("recorded", [one for one in PAIRS if one.speculation], ids=lambda one: one.label)
def test_positions_add_up_to_the_accepted_tokens(recorded: Pair) -> None:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    expected = [counted(recorded, name, f'position="{position}"') for position in range(4)]
    found = result(recorded).positions
    assert found is not None
    assert list(found) == [0, 1, 2, 3]
    assert list(found.values()) == expected == recorded.truth.get("per_pos", expected)
    assert sum(found.values()) == truth_of(recorded)["accepted"]
    assert all(before >= after for before, after in pairwise(found.values()))


def test_the_recorded_speculation_gives_these_figures() -> None:
    """Spelled out once: 256 tokens of 4 requests in 141 steps, 40 drafts, 119 of 145 accepted, 8 cut off."""
    found = result(pair("metrics/vllm-0.27.0-spec"))
    assert found.acceptance_rate == 119 / 145
    assert found.accepted_per_forward == 119 / 40
    assert found.tokens_per_step == 252 / 141
    assert found.trimmed_tokens == 4 + 141 + 119 - 256 == 8
    assert found.decode_steps == 77


@each_pair
def test_preemptions_are_counted_where_there_were_any(recorded: Pair) -> None:
    expected = 2 if recorded.name.endswith("preempt") else 0
    assert result(recorded).preemptions == expected == truth_of(recorded)["preemptions"]


@each_pair
def test_steps_are_not_known_with_several_api_servers(recorded: Pair) -> None:
    expected = None if recorded.name in SEVERAL_API_SERVERS else counted(recorded, "vllm:iteration_tokens_total_count")
    assert result(recorded).decode_steps == expected


@each_pair
def test_what_other_series_say_is_read_from_their_lines(recorded: Pair) -> None:
    found, requests = result(recorded), recorded.truth["requests"]
    computed = counted(recorded, "vllm:prompt_tokens_by_source_total", 'source="local_compute"')
    assert found.prompt_tokens_computed == computed
    assert (computed is None) == (recorded.version in ("0.10.2", "0.14.1"))
    expected_rate = None if computed is None else near(computed / recorded.truth["wall_seconds"])
    assert found.prefill_throughput_tok_s == expected_rate
    for name, mean in (("queue", found.queue_mean_s), ("prefill", found.prefill_mean_s)):
        total = counted(recorded, f"vllm:request_{name}_time_seconds_sum")
        assert total is not None
        assert mean == near(total / requests)
    latency = counted(recorded, "vllm:e2e_request_latency_seconds_sum")
    assert latency is not None
    assert found.e2e_mean_s == near(latency / requests)
    assert found.prefix_hit_rate == 0
    cpu = counted(recorded, "process_cpu_seconds_total")
    assert found.frontend_cpu_s == (None if cpu is None else near(cpu))
    assert (cpu is None) == (recorded.name in SEVERAL_API_SERVERS)


@each_pair
def test_the_kv_capacity_is_the_engine_s_own_statement(recorded: Pair) -> None:
    info = series.cache_info(recorded.samples("after"))
    stated = [
        re.findall(rf'{key}="(\d+)"', recorded.text("after")) for key in ("kv_cache_size_tokens", "num_gpu_blocks")
    ]
    (block_size,) = set(re.findall(r'[{,]block_size="(\d+)"', recorded.text("after")))
    sizes, blocks = ([int(one) for one in found] for found in stated)
    assert info.tokens == (sum(sizes) if sizes else None)
    assert bool(sizes) == (recorded.version in ("0.27.0", "0.32.0"))
    assert info.block_tokens == blocks[0] * int(block_size)
    assert info.prefix_caching is True


def test_with_two_engines_token_sizes_add_up_and_blocks_are_a_sum_already() -> None:
    info = series.cache_info(pair("metrics/vllm-0.27.0-nospec-dp2").samples("after"))
    assert info.tokens == info.block_tokens == 2 * 1_048_576


def test_a_preempting_engine_states_its_small_cache() -> None:
    assert series.cache_info(pair("metrics/vllm-0.27.0-nospec-preempt").samples("after")).tokens == 1152


@each_pair
def test_percentiles_lie_in_the_bucket_of_their_rank(recorded: Pair) -> None:
    """By the lines themselves: below the bucket fewer than the rank, with it at least the rank."""
    found = result(recorded)
    names = {
        "ttft": "vllm:time_to_first_token_seconds",
        "queue": "vllm:request_queue_time_seconds",
        "prefill": "vllm:request_prefill_time_seconds",
    }
    for (metric, name), (end, share) in product(names.items(), {"p50": 0.5, "p95": 0.95}.items()):
        of = getattr(found, f"{metric}_{end}")
        rank = share * recorded.truth["requests"]
        assert of.low is not None
        assert of.high is not None
        assert of.value is not None
        assert of.low <= of.value <= of.high
        within = counted(recorded, f"{name}_bucket", f'le="{of.high}"')
        below = counted(recorded, f"{name}_bucket", f'le="{of.low}"') if of.low else 0.0
        assert within is not None
        assert below is not None
        assert below < rank <= within


@pytest.mark.parametrize("kind", ["nospec", "spec"])
def test_a_version_without_the_per_request_histogram_has_no_tpot_percentiles(kind: str) -> None:
    found = result(pair(f"metrics-synthetic/vllm-0.10.2-{kind}"))
    assert found.tpot_p50 == found.tpot_p95 == Percentile()
    assert found.tpot_mean_s is not None


# --- old names, missing names ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nospec", "spec"])
def test_old_and_new_names_side_by_side_are_never_added_up(kind: str) -> None:
    recorded = pair(f"metrics-synthetic/vllm-0.10.2-{kind}")
    after = recorded.samples("after")
    for old, new in (
        ("vllm:time_per_output_token_seconds_count", "vllm:inter_token_latency_seconds_count"),
        ("vllm:gpu_prefix_cache_queries_total", "vllm:prefix_cache_queries_total"),
        ("vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"),
    ):
        assert after[old] == after[new]
    d = deltas(recorded.samples("before"), after)
    assert d.count("itl") == recorded.truth["itl_observations"]
    assert d.counter("prefix_queries") == recorded.truth["prompt_tokens"]


def test_the_new_name_is_believed_where_old_and_new_differ() -> None:
    samples: Samples = {
        "vllm:gpu_prefix_cache_hits_total": {(): 1.0},
        "vllm:prefix_cache_hits_total": {(): 2.0},
        "vllm:time_per_output_token_seconds_count": {(): 3.0},
        "vllm:inter_token_latency_seconds_count": {(): 4.0},
    }
    assert series.total(samples, series.COUNTERS["prefix_hits"]) == 2
    steps = series.histogram(samples, series.HISTOGRAMS["itl"])
    assert steps is not None
    assert steps.count == 4
    text = 'vllm:gpu_cache_usage_perc{engine="0"} 0.9\nvllm:kv_cache_usage_perc{engine="0"} 0.1\n'
    assert gauges(text)["kv_usage"] == 0.1
    assert gauges(text.splitlines()[0] + "\n")["kv_usage"] == 0.9


def test_old_names_alone_give_the_same_figures() -> None:
    recorded = pair("metrics-synthetic/vllm-0.10.2-spec")
    new = (
        "vllm:inter_token_latency_seconds",
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
        "vllm:kv_cache_usage_perc",
    )
    before, after = (without(recorded.samples(when), *new) for when in ("before", "after"))
    assert result_of(before, after, recorded) == result(recorded)


#: What each series feeds: the figures that are None, and nothing less, when it is gone.
FED = {
    "vllm:generation_tokens_total": {
        "generation_tokens",
        "system_throughput_tok_s",
        "request_decode_rate_tok_s",
        "tpot_mean_s",
        "tokens_per_step",
        "trimmed_tokens",
    },
    "vllm:prompt_tokens_total": {"prompt_tokens"},
    "vllm:prompt_tokens_by_source_total": {"prompt_tokens_computed", "prefill_throughput_tok_s"},
    "vllm:num_preemptions_total": {"preemptions"},
    "vllm:prefix_cache_queries_total": {"prefix_hit_rate"},
    "vllm:prefix_cache_hits_total": {"prefix_hit_rate"},
    "vllm:spec_decode_num_drafts_total": {"drafts", "accepted_per_forward", "drafted_step_share"},
    "vllm:spec_decode_num_draft_tokens_total": {"draft_tokens", "acceptance_rate"},
    "vllm:spec_decode_num_accepted_tokens_total": {
        "accepted_tokens",
        "acceptance_rate",
        "accepted_per_forward",
        "trimmed_tokens",
    },
    "vllm:spec_decode_num_accepted_tokens_per_pos_total": {"positions"},
    "process_cpu_seconds_total": {"frontend_cpu_s"},
    "vllm:time_to_first_token_seconds": {
        "ttft_mean_s",
        "tpot_mean_s",
        "request_decode_rate_tok_s",
        "tokens_per_step",
        "trimmed_tokens",
        "occupancy",
    },
    "vllm:inter_token_latency_seconds": {
        "tpot_mean_s",
        "step_time_mean_s",
        "request_decode_rate_tok_s",
        "tokens_per_step",
        "drafted_step_share",
        "trimmed_tokens",
        "occupancy",
    },
    "vllm:request_queue_time_seconds": {"queue_mean_s"},
    "vllm:request_prefill_time_seconds": {"prefill_mean_s"},
    "vllm:e2e_request_latency_seconds": {"e2e_mean_s"},
    "vllm:iteration_tokens_total": {"decode_steps"},
}
#: Series whose percentiles go as well.
PERCENTILES = {
    "vllm:time_to_first_token_seconds": {"ttft_p50", "ttft_p95"},
    "vllm:request_time_per_output_token_seconds": {"tpot_p50", "tpot_p95"},
    "vllm:request_queue_time_seconds": {"queue_p50", "queue_p95"},
    "vllm:request_prefill_time_seconds": {"prefill_p50", "prefill_p95"},
}


@pytest.mark.parametrize("gone", sorted(FED.keys() | PERCENTILES.keys()))
def test_a_missing_series_empties_its_own_figures_and_no_other(gone: str) -> None:
    recorded = pair("metrics/vllm-0.27.0-spec")
    whole = result(recorded)
    before, after = (without(recorded.samples(when), gone) for when in ("before", "after"))
    found = result_of(before, after, recorded)
    changed = {item.name for item in fields(StageResult) if getattr(found, item.name) != getattr(whole, item.name)}
    assert changed == FED.get(gone, set()) | PERCENTILES.get(gone, set())
    assert all(getattr(found, name) is None for name in FED.get(gone, set()))
    assert all(getattr(found, name) == Percentile() for name in PERCENTILES.get(gone, set()))


def test_every_series_is_in_the_table_above() -> None:
    """But request_success, which feeds checks only."""
    known = [*series.COUNTERS.values(), *series.HISTOGRAMS.values(), series.POSITION_COUNTER]
    known += [names for names, _, _ in series.LABELLED.values()]
    assert {names[0] for names in known} == FED.keys() | PERCENTILES.keys() | {"vllm:request_success_total"}


@pytest.mark.parametrize(
    "gone",
    [
        "vllm:generation_tokens_total",
        "vllm:prompt_tokens_total",
        "vllm:request_success_total",
        "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds",
    ],
)
def test_a_renamed_series_is_named_as_missing(gone: str) -> None:
    recorded = pair("metrics/vllm-0.32.0-nospec")
    renamed = parse(recorded.text("after").replace(gone.removesuffix("_total"), "vllm:something_else"))
    assert series.missing_series(renamed) == (gone,)
    assert series.missing_series(recorded.samples("after")) == ()


def test_an_empty_scrape_lacks_every_required_series_and_gives_no_figure() -> None:
    recorded = pair("metrics/vllm-0.27.0-nospec")
    assert len(series.missing_series({})) == 5
    found = result_of({}, {}, recorded)
    for item in fields(StageResult):
        if item.name not in SAMPLED:
            assert getattr(found, item.name) in (None, Percentile()), item.name


# --- deltas ----------------------------------------------------------------------------------------------


@each_pair
@pytest.mark.parametrize("when", ["before", "after"])
def test_identical_scrapes_differ_by_nothing(recorded: Pair, when: str) -> None:
    samples = recorded.samples(when)
    d = deltas(samples, samples)
    assert d.fell == ()
    assert set(d.counters.values()) <= {0, None}
    for one in d.histograms.values():
        if one is not None:
            assert (one.sum, one.count) == (0, 0)
            assert {count for _, count in one.buckets} == {0}
    found = result_of(samples, samples, recorded)
    assert (found.generation_tokens, found.prompt_tokens, found.trimmed_tokens) == (0, 0, 0)
    undefined = (found.ttft_mean_s, found.tokens_per_step, found.acceptance_rate, found.prefix_hit_rate)
    assert undefined == (None,) * 4
    assert found.ttft_p50 == Percentile()


FALLING: dict[str, tuple[str, str]] = {
    **{name: (names[0], name) for name, names in series.COUNTERS.items()},
    **{name: (names[0], name) for name, (names, _, _) in series.LABELLED.items()},
    **{name: (f"{names[0]}_count", name) for name, names in series.HISTOGRAMS.items()},
    "process start": (series.PROCESS_START, "process_start"),
    "counter start": (series.COUNTER_START, "process_start"),
}


@given(st.sampled_from(sorted(FALLING)), st.floats(min_value=0.5, max_value=1e6))
def test_a_counter_that_fell_voids_everything(quantity: str, by: float) -> None:
    """One label of one series is enough: the engine was started anew, so no difference means anything."""
    recorded = pair("metrics/vllm-0.27.0-spec")
    before, after = dict(recorded.samples("before")), dict(recorded.samples("after"))
    name, told = FALLING[quantity]
    labels = next(one for one in after[name] if dict(one).get("source", "local_compute") == "local_compute")
    others = sum(number for one, number in after[name].items() if one != labels)
    after[name] = {**after[name], labels: sum(before[name].values()) - others - by}
    d = deltas(before, after)
    assert told in d.fell
    assert set(d.counters.values()) == {None}
    assert set(d.histograms.values()) == {None}
    assert d.positions is None
    assert trimmed(d) is None
    found = result_of(before, after, recorded)
    for item in fields(StageResult):
        if item.name not in SAMPLED:
            assert getattr(found, item.name) in (None, Percentile()), item.name


def test_an_engine_that_went_from_several_api_servers_to_one_was_restarted() -> None:
    several, one = (pair(f"metrics/vllm-0.27.0-nospec{kind}").samples("after") for kind in ("-api2", ""))
    assert "process_start" in deltas(several, one).fell
    assert "process_start" in deltas(one, several).fell


def test_a_zero_or_missing_denominator_gives_nothing_rather_than_zero() -> None:
    recorded = pair("metrics/vllm-0.27.0-spec")
    after = dict(recorded.samples("after"))
    for name in ("vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_draft_tokens_total"):
        after[name] = recorded.samples("before")[name]
    found = result_of(recorded.samples("before"), after, recorded)
    assert (found.drafts, found.draft_tokens) == (0, 0)
    assert (found.acceptance_rate, found.accepted_per_forward) == (None, None)


def test_gauges_are_the_peaks_and_the_mean_of_the_samples() -> None:
    recorded = pair("metrics/vllm-0.27.0-nospec")
    window = window_of(recorded)
    first, second = window.samples
    blind = replace(first, kv_usage=None, running=None, waiting=None)
    d = deltas(window.before, window.after)

    def seen(*samples: Sample) -> tuple[object, ...]:
        found = stage_result(replace(window, samples=samples), d, lane_s=None)
        assert found.occupancy is None
        return found.kv_usage_peak, found.waiting_peak, found.running_mean

    assert seen(first, second) == seen(second, blind, first) == (0.5, 1, 2.0)
    assert seen() == seen(blind) == (None, None, None)


def test_positions_of_two_engines_add_up() -> None:
    per_engine: dict[LabelSet, float] = {
        (("engine", engine), ("position", position)): count
        for engine, position, count in (("0", "1", 2.0), ("0", "0", 5.0), ("1", "0", 3.0), ("1", "1", 1.0))
    }
    assert series.by_position({series.POSITION_COUNTER[0]: per_engine}) == {0: 8.0, 1: 3.0}


def test_positions_without_their_label_are_unknown() -> None:
    name = series.POSITION_COUNTER[0]
    assert series.by_position({name: {(("engine", "0"),): 3.0}}) is None
    assert series.by_position({name: {(("position", "first"),): 3.0}}) is None


def test_a_capacity_that_is_no_number_is_unknown() -> None:
    for stated in ("None", "", "inf", "nan", "many"):
        info = series.cache_info({series.CACHE_INFO: {(("kv_cache_size_tokens", stated),): 1.0}})
        assert (info.tokens, info.block_tokens, info.prefix_caching) == (None, None, None)


# --- percentiles -----------------------------------------------------------------------------------------

bounds = st.lists(st.floats(min_value=0.001, max_value=100), min_size=1, max_size=12, unique=True).map(sorted)
observations = st.lists(st.floats(min_value=0, max_value=150), min_size=1, max_size=60)
shares = st.floats(min_value=0.001, max_value=1)


def histogram_of(seen: list[float], limits: list[float]) -> Histogram:
    buckets = [(limit, float(sum(one <= limit for one in seen))) for limit in [*limits, math.inf]]
    return Histogram(sum=sum(seen), count=float(len(seen)), buckets=tuple(buckets))


@given(observations, bounds, shares)
def test_a_percentile_is_within_a_bucket_of_the_observations_own(
    seen: list[float], limits: list[float], share: float
) -> None:
    found = percentile(histogram_of(seen, limits), share)
    true = sorted(seen)[math.ceil(share * len(seen)) - 1]
    if true > limits[-1]:
        assert found == Percentile(low=limits[-1])
        return
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= true <= found.high
    assert found.low <= found.value <= found.high
    assert abs(found.value - true) <= found.high - found.low
    assert found.high in limits
    assert found.low == 0 or found.low in limits


@given(observations, bounds, shares, shares)
def test_a_percentile_never_falls_with_its_share(
    seen: list[float], limits: list[float], one: float, other: float
) -> None:
    lower, higher = (percentile(histogram_of(seen, limits), share).value for share in sorted((one, other)))
    assert (math.inf if lower is None else lower) <= (math.inf if higher is None else higher)


@given(observations, observations, bounds, shares)
def test_what_was_observed_before_the_window_does_not_matter(
    old: list[float], seen: list[float], limits: list[float], share: float
) -> None:
    def scrape(of: list[float]) -> Samples:
        made, name = histogram_of(of, limits), "vllm:time_to_first_token_seconds"
        engine: LabelSet = (("engine", "0"),)
        buckets: dict[LabelSet, float] = {(*engine, ("le", str(bound))): count for bound, count in made.buckets}
        return {f"{name}_bucket": buckets, f"{name}_sum": {engine: made.sum}, f"{name}_count": {engine: made.count}}

    delta = deltas(scrape(old), scrape(old + seen)).histograms["ttft"]
    assert delta is not None
    assert (delta.buckets, delta.count) == (histogram_of(seen, limits).buckets, len(seen))
    assert percentile(delta, share) == percentile(histogram_of(seen, limits), share)


def test_a_percentile_is_interpolated_inside_its_bucket() -> None:
    """Two below 0.1, six from 0.1 to 0.2, two above: rank 5 is the third of six."""
    made = Histogram(sum=1.5, count=10, buckets=((0.1, 2.0), (0.2, 8.0), (0.4, 8.0), (math.inf, 10.0)))
    half = percentile(made, 0.5)
    assert half.value == pytest.approx(0.15)
    assert (half.low, half.high) == (0.1, 0.2)
    assert percentile(made, 0.2) == Percentile(value=0.1, low=0.0, high=0.1)
    assert percentile(made, 0.95) == Percentile(value=None, low=0.4, high=None)
    assert percentile(None, 0.5) == Percentile()
    late = Histogram(sum=1.5, count=1, buckets=((0.1, 0.0), (0.2, 1.0), (math.inf, 1.0)))
    assert percentile(late, 0) == Percentile(value=0.1, low=0.1, high=0.2)


# --- the sampler's short way through a scrape -------------------------------------------------------------


def by_full_parse(text: str) -> dict[str, float | None]:
    samples = parse(text)
    names = {**series.GAUGES, "generation_tokens": series.COUNTERS["generation_tokens"]}
    found: dict[str, float | None] = {}
    for quantity, known in names.items():
        values = next((list(samples[name].values()) for name in known if name in samples), None)
        how: Callable[[list[float]], float] = max if quantity == "kv_usage" else sum
        found[quantity] = None if values is None else how(values)
    return found


@each_pair
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_sampler_sees_what_the_full_parse_sees(recorded: Pair, when: str) -> None:
    text = recorded.text(when)
    assert gauges(text) == by_full_parse(text)
    assert gauges(text)["generation_tokens"] is not None


names_of_models = st.one_of(
    st.sampled_from(['a} 7"', "{a}", '"', "\\", 'x",engine="9', "a b", "}\n 5", "# TYPE", "모델", "a}\u2028 3", "\r"]),
    st.text(max_size=12),
)
values = st.floats(min_value=0, max_value=1e15)


@given(names_of_models, st.lists(st.tuples(values, values, values), min_size=1, max_size=3))
def test_odd_model_names_do_not_mislead_the_sampler(model: str, engines: list[tuple[float, float, float]]) -> None:
    registry = CollectorRegistry()
    names = ("vllm:kv_cache_usage_perc", "vllm:num_requests_running", "vllm:num_requests_waiting")
    exposed = [Gauge(name, name, ["engine", "model_name"], registry=registry) for name in names]
    for index, readings in enumerate(engines):
        for gauge, reading in zip(exposed, readings, strict=True):
            gauge.labels(str(index), model).set(reading)
    text = generate_latest(registry).decode()
    usage, running, waiting = zip(*engines, strict=True)
    assert gauges(text) == by_full_parse(text)
    assert gauges(text) == {
        "kv_usage": max(usage),
        "running": sum(running),
        "waiting": sum(waiting),
        "generation_tokens": None,
    }


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_value_that_is_no_finite_number_counts_as_missing(value: str) -> None:
    text = f'vllm:num_requests_running{{engine="0"}} {value}\nvllm:num_requests_waiting{{engine="0"}} 2.0\n'
    assert gauges(text) == by_full_parse(text)
    assert (gauges(text)["running"], gauges(text)["waiting"]) == (None, 2.0)


@pytest.mark.parametrize("text", ["<html>502</html>", "vllm:num_requests_running{", "a{b} 1", "vllm:x one", "{}"])
def test_what_is_no_scrape_is_refused_by_the_parse_and_gives_the_sampler_nothing(text: str) -> None:
    with pytest.raises(DataError, match="a scrape is not Prometheus text"):
        parse(text)
    assert set(gauges(text).values()) == {None}


def test_the_sampler_is_not_misled_by_a_longer_name_that_comes_first() -> None:
    longer = 'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 7.0\n'
    own = 'vllm:num_requests_waiting{engine="0"} 2.0\nvllm:num_requests_waiting{engine="1"} 3.0\n'
    for text in (longer + "# HELP vllm:num_requests_waiting About.\n" + own, own + longer):
        assert gauges(text) == by_full_parse(text)
        assert gauges(text)["waiting"] == 5.0


# --- the full parse, which reads names and labels once ------------------------------------------------------


def by_the_library(text: str) -> Samples:
    samples: dict[str, dict[LabelSet, float]] = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name == series.COUNTER_START or not one.name.endswith("_created"):
                samples.setdefault(one.name, {})[tuple(sorted(one.labels.items()))] = one.value
    return samples


@each_pair
def test_a_scrape_parsed_again_with_other_values_is_what_the_library_reads(recorded: Pair) -> None:
    for when in ("before", "after", "before"):
        assert parse(recorded.text(when)) == by_the_library(recorded.text(when))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('a{x="1"} 5 1700000000000', 'a{x="1"} 6 1700000000001'),
        ('a{x="1"} 5', 'a{x="1"} 6 1700000000001'),
        ("a 5", "a\t6"),
        ("a 5\r", "a 6\r"),
        ("# TYPE a counter\na 5", "# TYPE a counter\na 6"),
        ("# HELP a b\n# TYPE a gauge\na 5\n\n# HELP c d\nc 7", "# HELP a b\n# TYPE a gauge\na 6\n\n# HELP c d\nc 8"),
        ('a{x="1 2",y="# HELP"} 5', 'a{x="1 2",y="# HELP"} 6'),
    ],
)
def test_unusual_lines_are_read_as_the_library_reads_them(first: str, second: str) -> None:
    for text in (first, second, first):
        assert parse(f"{text}\n") == by_the_library(f"{text}\n")


@pytest.mark.parametrize("value", ["1_0", "one", "0x1"])
def test_a_value_that_is_no_number_is_refused_however_often_its_series_was_read(value: str) -> None:
    assert parse('a{x="1"} 5\n') == {"a": {(("x", "1"),): 5.0}}
    with pytest.raises(DataError, match="not Prometheus text"):
        parse(f'a{{x="1"}} {value}\n')
