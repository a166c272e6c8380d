"""The embedded engine against a live vLLM 0.27.0: what does not depend on time is equal, all of it.

Compared is everything under `vllm:` and the count of HTTP requests, but for what UNTIMED and UNEQUAL leave out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector.core.series import CACHE_INFO, LabelSet
from tests.real.environment import ensure
from tests.real.side_by_side import Seen, compare
from tests.real.workload import LANES, LEAVES, PARTS, PREEMPTS, TOGETHER, WRITES

pytestmark = pytest.mark.real

#: What the plan of side_by_side says.
MAX_NUM_SEQS = 4
SPECULATIVE_TOKENS = {"ample": 0, "small-cache": 0, "twin": 3, "ngram": 4}
STEPS = {"iteration_tokens_total_bucket", "iteration_tokens_total_count"}
#: What is left out of the comparison of a part, by the reason that the part has for it.
UNEQUAL: Mapping[str, set[str]] = {
    TOGETHER: STEPS,
    PREEMPTS: {"num_preemptions_total"},
    WRITES: {
        *STEPS,
        "inter_token_latency_seconds_count",
        "spec_decode_num_drafts_total",
        "spec_decode_num_draft_tokens_total",
        "spec_decode_num_accepted_tokens_total",
        "spec_decode_num_accepted_tokens_per_pos_total",
    },
    LEAVES: {
        *STEPS,
        "iteration_tokens_total_sum",
        "generation_tokens_total",
        "inter_token_latency_seconds_count",
    },
}
#: Families that only the real engine exposes, by what their names begin with.
ONLY_REAL = {
    "process_": "the process of an emulation says nothing about a front end; its start alone is told",
    "python_": "the garbage collector of the front end; no figure of collector is made of it",
    "http_request_": "sizes and durations by the web framework; no figure of collector is made of them",
    "http_response_": "as above",
}
#: Labels of the cache's statement that may differ.
CACHE_LABELS = {"mamba_ssm_cache_dtype": "the CPU build sets it to float32 on processors with AMX"}


class Both:
    """The two engines of one series."""

    def __init__(self, series: str, results: Mapping[str, Mapping[str, Seen]]) -> None:
        self.series = series
        self.parts = PARTS[series]
        self.real, self.embedded = results["real"], results["embedded"]
        self.each = (self.real, self.embedded)


@pytest.fixture(scope="module", params=list(PARTS))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = ensure()
    variables = {"COLLECTOR_VLLM": str(folder / "bin" / "vllm"), "COLLECTOR_TINY_MODELS": str(folder / "models")}
    return Both(request.param, compare(request.param, tmp_path_factory.mktemp("differential"), os.environ | variables))


def untimed(name: str) -> bool:
    """Of what is measured in seconds, only how often it was measured."""
    return "_seconds_" not in name or name.endswith("_count")


def deltas(seen: Seen, left_out: set[str]) -> dict[tuple[str, LabelSet], float]:
    before, after = seen.samples
    return {
        (name, labels): value - before.get(name, {}).get(labels, 0.0)
        for name, by_labels in after.items()
        if name.startswith("vllm:") or name == "http_requests_total"
        if untimed(name) and name != CACHE_INFO and name.removeprefix("vllm:") not in left_out
        for labels, value in by_labels.items()
    }


def added(seen: Seen, name: str) -> float:
    """Return by how much a series grew, 0 where it is not exposed."""
    before, after = (sum(one.get(f"vllm:{name}", {}).values()) for one in seen.samples)
    return after - before


def test_everything_that_does_not_depend_on_time_is_counted_alike(both: Both) -> None:
    for name, part in both.parts.items():
        left_out = set[str]().union(*(UNEQUAL[reason] for reason in part.unequal))
        real, embedded = (deltas(one[name], left_out) for one in both.each)
        assert embedded.keys() == real.keys(), name
        assert {key: (embedded[key], real[key]) for key in real if embedded[key] != real[key]} == {}, name


def test_clients_are_told_the_same(both: Both) -> None:
    for name in both.parts:
        real, embedded = (
            [(r.status, r.prompt_tokens, r.completion_tokens, r.finish_reason) for r in one[name].requests]
            for one in both.each
        )
        assert embedded == real, name


def test_an_idle_engine_shows_the_same_gauges(both: Both) -> None:
    for name in both.parts:
        real, embedded = (gauges_of(one[name].after) for one in both.each)
        assert embedded == real, name


def gauges_of(text: str) -> dict[tuple[str, LabelSet], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        if family.type == "gauge" and family.name.startswith("vllm:") and family.name != CACHE_INFO
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_families_have_the_same_names_types_labels_and_buckets(both: Both) -> None:
    first = next(iter(both.parts))
    real, embedded = (families(one[first].before) for one in both.each)
    only_real = real.keys() - embedded.keys()
    assert not embedded.keys() - real.keys()
    assert {name for name in only_real if not name.startswith(tuple(ONLY_REAL))} == set()
    assert {start for start in ONLY_REAL if any(name.startswith(start) for name in only_real)} == set(ONLY_REAL)
    for name, family in embedded.items():
        assert family == real[name], name


def families(text: str) -> dict[str, tuple[str, set[tuple[str, LabelSet]]]]:
    """Return the type of each family and the label sets of its samples; what the cache says is compared apart."""
    return {
        family.name: (family.type, {(one.name, tuple(sorted(one.labels.items()))) for one in family.samples})
        for family in text_string_to_metric_families(text)
        if family.name != CACHE_INFO
    }


def test_the_cache_is_stated_alike(both: Both) -> None:
    first = next(iter(both.parts))
    real, embedded = (dict(next(iter(one[first].samples[0][CACHE_INFO]))) for one in both.each)
    assert embedded.keys() == real.keys()
    differ = {name: (embedded[name], real[name]) for name in real if embedded[name] != real[name]}
    assert differ.keys() <= CACHE_LABELS.keys(), differ


def test_tokens_are_first_tokens_steps_and_accepted_drafts_less_those_cut_off(both: Both) -> None:
    """What is left out above is still held together by its identity, on either engine."""
    most = SPECULATIVE_TOKENS[both.series]
    for engine in both.each:
        for name, seen in engine.items():
            first = added(seen, "time_to_first_token_seconds_count")
            steps = added(seen, "inter_token_latency_seconds_count")
            accepted = added(seen, "spec_decode_num_accepted_tokens_total")
            trimmed = first + steps + accepted - added(seen, "generation_tokens_total")
            assert 0 <= trimmed <= most * len(seen.requests), name
            assert added(seen, "spec_decode_num_accepted_tokens_per_pos_total") == accepted, name
            assert accepted <= added(seen, "spec_decode_num_draft_tokens_total"), name


def test_there_are_preemptions_where_the_cache_is_too_small_and_nowhere_else(both: Both) -> None:
    for engine in both.each:
        for name, seen in engine.items():
            assert (added(seen, "num_preemptions_total") > 0) == (name == "preempted"), name


def test_the_workload_does_what_its_parts_are_named_after(both: Both) -> None:
    """Else what is equal would be equal because nothing happened."""
    for engine in both.each:
        if both.series == "ample":
            assert added(engine["repeats"], "prefix_cache_hits_total") > 1000
            peaks = engine["more than fit"].peaks
            assert peaks["running"] == MAX_NUM_SEQS
            # Where two requests end in one step, the token budget of the next may admit only one of those that wait.
            assert LANES - MAX_NUM_SEQS <= peaks["waiting"] < LANES
            assert {one.status for one in engine["too long"].requests} == {400}
            assert {one.status for one in engine["another model"].requests} == {404}
            assert added(engine["client gone"], "generation_tokens_total") >= 5
            assert added(engine["client gone"], "request_success_total") == 0
        if both.series == "small-cache":
            hits, asked = (added(engine["evicted"], f"prefix_cache_{one}_total") for one in ("hits", "queries"))
            assert 1000 < hits < asked - 1000
        if both.series == "twin":
            drafts = added(engine["four at once"], "spec_decode_num_draft_tokens_total")
            assert added(engine["four at once"], "spec_decode_num_accepted_tokens_total") == drafts > 100
        if both.series in ("twin", "ngram"):
            assert added(engine["one token"], "spec_decode_num_drafts_total") == 0
            assert added(engine["one by one"], "spec_decode_num_drafts_total") > 0
