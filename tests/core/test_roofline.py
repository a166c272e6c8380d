"""A step's time, traffic and memory: what must hold for any load, and the published traffic."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.core import footprint, hardware, roofline
from collector.core.dimensions import DrafterDimensions, Gpu, Link, ModelDimensions
from collector.core.roofline import Efficiencies, StepModel, step_model
from collector.core.step import StepLoad

GPU = Gpu(memory_bytes=24e9, bandwidth_bytes_s=936e9, flops_s=71e12)
NVLINK = Link(peak_bytes_s=56e9, efficiency=0.8, latency_s=1e-5)
PCIE = Link(peak_bytes_s=15.75e9, efficiency=0.6, latency_s=2e-5)
MODEL = ModelDimensions(
    layers=64,
    hidden=5120,
    intermediate=27392,
    heads=40,
    kv_heads=8,
    head_dim=128,
    vocabulary=153600,
    tied=False,
    sliding_layers=48,
    window=4096,
)
SEQUENTIAL = DrafterDimensions(
    parallel=False,
    layers=1,
    hidden=5120,
    body_parameters=536_000_000,
    context_parameters=0,
    head_hidden=5120,
    weight_bytes=1e9,
)
PARALLEL = replace(SEQUENTIAL, parallel=True, layers=5)
REAL = Efficiencies(
    w4_bandwidth=0.9,
    w4_compute=0.8,
    bf16_bandwidth=0.8,
    bf16_compute=0.6,
    kv_read={"FLASH_ATTN": 0.3, "FLASHINFER": 0.9},
    head_sharing=0.8,
    step_host_s=1e-3,
    request_host_s=1e-5,
    pass_host_s=1e-4,
    piecewise_host_s=2e-3,
    overlap_norm=3,
)
ONE = StepLoad(
    prefill_positions=0,
    decode_positions=1,
    requests=1,
    decoding=1,
    kv_read_tokens=700,
    kv_read_tokens_sliding=700,
    drafted_per_request=0,
    drafting=0,
    sampled=1,
)
PROFILE = Path(roofline.__file__).parents[1] / "emulator" / "profiles" / "dual-3090.json"


def model(drafter: DrafterDimensions | None = None, **changes: Any) -> StepModel:
    facts: dict[str, Any] = {"kv_dtype": "auto", "backend": "FLASH_ATTN", "tensor_parallel": 2} | changes
    link, efficiencies = facts.pop("link", NVLINK), facts.pop("efficiencies", REAL)
    return step_model(GPU, link, MODEL, drafter, efficiencies, **facts)


@st.composite
def loads(draw: st.DrawFn) -> StepLoad:
    decoding, k = draw(st.integers(0, 32)), draw(st.integers(0, 15))
    prefill = draw(st.integers(0 if decoding else 1, 2048))
    ending = draw(st.integers(0, 3)) if prefill else 0
    read = draw(st.integers(0, 500_000))
    return StepLoad(
        prefill_positions=prefill,
        decode_positions=decoding * (1 + k),
        requests=decoding + max(ending, prefill > 0),
        decoding=decoding,
        kv_read_tokens=read,
        kv_read_tokens_sliding=draw(st.integers(0, read)),
        drafted_per_request=k,
        drafting=decoding + ending if k else 0,
        sampled=decoding * (1 + k) + ending,
    )


LOADS = ("prefill_positions", "decode_positions", "requests", "kv_read_tokens", "kv_read_tokens_sliding", "sampled")
each_drafter = pytest.mark.parametrize("drafter", [None, SEQUENTIAL, PARALLEL], ids=["none", "sequential", "parallel"])


@each_drafter
@given(load=loads())
def test_no_part_of_a_step_is_negative_and_the_parts_are_the_whole(
    drafter: DrafterDimensions | None, load: StepLoad
) -> None:
    step = model(drafter).step_time(load)
    assert min(step) >= 0
    assert sum(step[:-1]) == pytest.approx(step.total)


@each_drafter
@pytest.mark.parametrize("field", LOADS)
@given(load=loads(), more=st.integers(1, 500))
def test_a_step_never_gets_shorter_by_more_of_anything(
    drafter: DrafterDimensions | None, field: str, load: StepLoad, more: int
) -> None:
    larger = load._replace(**{field: getattr(load, field) + more})
    assert model(drafter).seconds(larger) >= model(drafter).seconds(load)


@each_drafter
@given(load=loads())
def test_a_step_is_what_it_takes_without_kv_and_the_reads_of_it(
    drafter: DrafterDimensions | None, load: StepLoad
) -> None:
    step = model(drafter)
    without = load._replace(kv_read_tokens=0, kv_read_tokens_sliding=0)
    assert step.seconds(without) + step.read_seconds(load) == pytest.approx(step.seconds(load), rel=1e-12)
    assert step.read_seconds(without) == 0


@each_drafter
@given(load=loads())
def test_a_faster_link_is_never_slower(drafter: DrafterDimensions | None, load: StepLoad) -> None:
    assert model(drafter, link=NVLINK).seconds(load) <= model(drafter, link=PCIE).seconds(load)


@given(load=loads())
def test_one_card_has_nothing_to_reduce(load: StepLoad) -> None:
    assert model(tensor_parallel=1).step_time(load).all_reduce == 0


def test_one_position_takes_the_time_of_reading_the_weights() -> None:
    reading = MODEL.body_bytes() / 2 / (GPU.bandwidth_bytes_s * REAL.w4_bandwidth)
    assert model().step_time(ONE).weights == pytest.approx(reading, rel=1e-3)


def test_a_long_prefill_takes_the_time_of_its_flops() -> None:
    load = ONE._replace(prefill_positions=100_000)
    computing = 2 * MODEL.body_parameters() * 100_001 / 2 / (GPU.flops_s * REAL.w4_compute)
    assert model().step_time(load).weights == pytest.approx(computing, rel=1e-3)


def test_a_norm_of_one_adds_memory_and_compute_time() -> None:
    product = roofline.Product(2.0, 1.0, 1.0)
    assert product.seconds(3) == pytest.approx(5.0)


def test_one_byte_kv_halves_the_read_of_the_same_backend() -> None:
    load = ONE._replace(kv_read_tokens=100_000, kv_read_tokens_sliding=100_000)
    auto, fp8 = model().step_time(load), model(kv_dtype="fp8_e5m2").step_time(load)
    assert fp8.attention == pytest.approx(auto.attention / 2)


def test_speculation_with_one_byte_kv_pays_for_the_lost_graphs_and_nothing_else_does() -> None:
    def overhead(drafter: DrafterDimensions | None, kv_dtype: str) -> float:
        return model(drafter, kv_dtype=kv_dtype).step_time(ONE).overhead

    assert overhead(SEQUENTIAL, "fp8_e5m2") - overhead(SEQUENTIAL, "auto") == pytest.approx(REAL.piecewise_host_s)
    assert overhead(None, "fp8_e5m2") == overhead(None, "auto")


def test_a_parallel_drafter_makes_one_pass_and_a_sequential_one_k() -> None:
    load = ONE._replace(decode_positions=20, decoding=4, requests=4, sampled=20, drafted_per_request=4, drafting=4)
    assert roofline.passes(True, load) == [(20, 16)]
    assert roofline.passes(False, load) == [(20, 4), (4, 4), (4, 4), (4, 4)]


@pytest.mark.parametrize("part", roofline.FRACTIONS)
@pytest.mark.parametrize("value", [0.0, 1.01])
def test_an_efficiency_is_a_fraction_of_a_peak(part: str, value: float) -> None:
    with pytest.raises(ValueError, match=part):
        replace(REAL, **{part: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"overlap_norm": 0.5}, {"head_sharing": 1.5}, {"step_host_s": -1e-6}])
def test_parameters_without_physical_meaning_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="not physical"):
        replace(REAL, **change)  # type: ignore[arg-type]


def test_the_mtp_layer_of_exaone_has_its_published_size() -> None:
    layer = MODEL.body_parameters() / MODEL.layers + 2 * MODEL.hidden**2
    assert 2 * layer / 2**30 == pytest.approx(1.00, abs=0.005)


@pytest.mark.parametrize(("name", "prompt", "gib"), [("muse-glimmer-30b", 640, 305.8), ("exaone-4.5-33b", 640, 281.6)])
def test_the_published_traffic_follows_from_positions(name: str, prompt: int, gib: float) -> None:
    """64 requests without speculation: the prompt and all tokens but the last are computed, each token sampled."""
    target = hardware.model_dimensions(json.loads(PROFILE.read_text())["models"][name]["dimensions"])
    load = ONE._replace(prefill_positions=64 * prompt, decode_positions=64 * 255, sampled=64 * 256)
    assert footprint.nvlink_bytes(target, None, load) / 2**30 == pytest.approx(gib, rel=0.1)


def test_kv_bytes_count_both_layouts_of_a_model_that_has_two() -> None:
    two = replace(MODEL, sliding_layers=60, full_kv_heads=4, full_head_dim=512)
    assert footprint.kv_bytes_per_token(two, "auto") == 2 * 2 * (60 * 8 * 128 + 4 * 4 * 512)
    assert footprint.kv_bytes_per_token(two, "fp8_e5m2") == footprint.kv_bytes_per_token(two, "auto") / 2


def test_a_drafter_takes_room_from_the_kv_cache() -> None:
    alone = footprint.free_bytes(GPU, MODEL, None, 0.92, 2e9)
    beside = footprint.free_bytes(GPU, MODEL, SEQUENTIAL, 0.92, 2e9)
    assert alone - beside == pytest.approx(SEQUENTIAL.weight_bytes / 2)
    assert footprint.kv_capacity_tokens(alone, MODEL, "auto") > footprint.kv_capacity_tokens(beside, MODEL, "auto") > 0
