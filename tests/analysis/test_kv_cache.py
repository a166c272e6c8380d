"""What a KV cache dtype gains, what else differs between both sides, and what did not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.analysis.kv_cache import ROOM_BELOW_PERCENT, Effect, effects, plain, refused, without_ratio
from collector.analysis.study import PUBLISHED, Study
from collector.core.rows import Row
from collector.report.build import read_published
from tests.report.sample import make_failure, make_row

DATA = Path(__file__).resolve().parents[2] / "data"
FP8 = {"kv_cache_dtype": "fp8_e5m2"}


def line(gains: dict[int, float], **changes: object) -> list[Row]:
    """Return both sides by concurrency; auto makes 100 tok/s."""
    found = []
    for concurrency, gain in gains.items():
        stage = {"concurrency": concurrency, "requests": 2 * concurrency} | changes
        found += [
            make_row(**({"system_throughput_tok_s": 100.0} | stage)),
            make_row(**(stage | FP8 | {"system_throughput_tok_s": 100.0 + gain})),
        ]
    return found


def study(*rows: Row, **changes: object) -> Study:
    return Study(name="sample-dual", rows=rows, **changes)  # type: ignore[arg-type]  # names fit


def only(*rows: Row) -> Effect:
    (found,) = effects(study(*rows))
    return found


def published() -> Study:
    found = read_published(DATA / PUBLISHED)
    assert found is not None
    return Study(name=PUBLISHED, figures=found.figures, published_failures=found.failures)


@pytest.mark.parametrize(
    ("gains", "trend"),
    [
        ({1: 3, 8: 11, 32: 24}, "grows"),
        ({1: 24, 8: 11, 32: 3}, "shrinks"),
        ({1: 3, 8: 24, 32: 11}, "mixed"),
        ({1: 3, 8: 3}, "mixed"),
        ({8: 3}, None),
    ],
)
def test_the_trend_needs_every_step_to_go_one_way(gains: dict[int, float], trend: str | None) -> None:
    assert only(*line(gains)).trend == trend


def test_the_top_is_the_highest_concurrency_with_a_ratio() -> None:
    found = only(*line({1: 3, 8: 11}), *line({32: 24}, checks="throttled"))
    assert found.top.concurrency == 8


@pytest.mark.parametrize(
    ("auto", "fp8", "expected"),
    [("FLASH_ATTN", "FLASHINFER", True), ("FLASH_ATTN", "FLASH_ATTN", False), (None, "FLASHINFER", None)],
)
def test_a_backend_pair_is_told_from_one_that_varies_the_dtype_alone(
    auto: str | None, fp8: str, expected: bool | None
) -> None:
    found = only(make_row(attention_backend=auto), make_row(attention_backend=fp8, **FP8))
    assert found.backends_differ is expected
    assert found.with_it.backends == (fp8,)


def test_capacity_is_compared_and_usage_and_preemptions_are_the_largest_of_the_repeats() -> None:
    rows = [
        make_row(kv_cache_tokens=1000, kv_usage_peak=0.9, preemptions=0),
        make_row(kv_cache_tokens=1000, kv_usage_peak=0.5, preemptions=4, repeat=2),
        make_row(kv_cache_tokens=2000, **FP8),
    ]
    found = only(*rows)
    assert found.capacity is not None
    assert found.without.usage is not None
    assert found.without.preemptions is not None
    assert (found.capacity.value, found.without.usage.value, found.without.preemptions.value) == (2.0, 0.9, 4)


@pytest.mark.parametrize(
    ("usage", "preemptions", "expected"),
    [
        (ROOM_BELOW_PERCENT / 100 - 0.01, 0, True),
        (ROOM_BELOW_PERCENT / 100, 0, False),
        (0.1, 1, False),
        (None, 1, False),
        (None, 0, None),
        (0.1, None, None),
        (0.99, None, False),
    ],
)
def test_there_was_room_only_where_nothing_was_preempted_and_the_cache_was_not_full(
    usage: float | None, preemptions: int | None, expected: bool | None
) -> None:
    found = only(make_row(kv_usage_peak=usage, preemptions=preemptions), make_row(**FP8))
    assert found.without.room is expected


def test_the_main_comparison_is_without_speculation_and_with_the_link_as_it_is() -> None:
    mtp = {"speculation": "mtp", "num_speculative_tokens": 1, "tokens_per_step": 1.5}
    every = effects(study(*line({1: 3}), *line({1: 4}, nvlink="off"), *line({1: 5}, **mtp)))
    assert [(one.pair["nvlink"], one.pair["speculation"]) for one in plain(every)] == [("on", "off")]
    assert len(plain([one for one in every if one.pair["nvlink"] == "off"])) == 1
    assert len(plain([one for one in every if one.pair["speculation"] == "mtp"])) == 1
    assert plain([]) == []


def test_with_speculation_both_acceptances_are_compared() -> None:
    mtp = {"speculation": "mtp", "num_speculative_tokens": 4}
    (drafting,) = only(make_row(tokens_per_step=3.0, **mtp), make_row(tokens_per_step=2.0, **mtp, **FP8)).drafting
    assert drafting.mixed
    assert only(*line({1: 3})).drafting == ()


def test_what_was_measured_and_cannot_be_compared_is_told_unless_only_the_prompts_differ() -> None:
    throttled = study(make_row(checks="throttled"), make_row(**FP8))
    assert len(without_ratio(throttled)) == 1
    other_prompts = study(make_row(), make_row(prompt_set="general/code", **FP8))
    assert without_ratio(other_prompts) == []
    never_started = study(make_row(), failures=(make_failure(model="alpha-30b", **FP8),))
    assert without_ratio(never_started) == []


def test_refused_dtypes_come_first_in_the_engines_words_and_alike_ones_once() -> None:
    oom = [make_failure(nvlink=link, **FP8) for link in ("on", "off")]
    dtype = make_failure(model="beta", nvlink=None, category="kv_dtype", cause="not supported", **FP8)
    auto = make_failure(model="beta", category="kv_dtype")
    found = refused(study(failures=(*oom, dtype, auto)))
    assert [(one.model, one.category, one.words, one.links) for one in found] == [
        ("beta", "kv_dtype", "not supported", ()),
        ("gamma-33b", "oom_weights", "torch.OutOfMemoryError: CUDA out of memory.", ("on", "off")),
    ]
    assert set(found[1].failure_ids) == {one.failure_id for one in oom}


def test_published_gains_carry_the_backend_that_was_printed_beside_them() -> None:
    found = {one.pair["model"]: one for one in effects(published())}
    assert {name: one.with_it.backends for name, one in found.items()} == {
        "exaone-4.5-33b": ("FLASHINFER",),
        "muse-glimmer-30b": ("FLASH_ATTN",),
    }
    assert all(one.trend == "grows" and one.backends_differ is None for one in found.values())
    assert [(one.model, one.category) for one in refused(published())] == [
        ("gemma-4-31b", "kv_dtype"),
        ("exaone-4.5-33b", "oom_unknown"),
    ]
