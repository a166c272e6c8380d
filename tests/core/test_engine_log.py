"""Facts of an engine's log: recorded ones of a CPU build, and the lines of a GPU build."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.core.engine_log import EngineFacts, read_engine_log
from tests.data_files import LOGS

#: Before 0.22 and in 0.32 the CPU build does not name its backend.
UNNAMED = ("ok-0.14.1-nospec.log", "ok-0.18.1-nospec.log", "ok-0.32.0-nospec.log")
TWICE_AS_MANY = ("ok-kv_dtype_fp8_e5m2_cpu.log",)


@pytest.mark.parametrize("log", sorted(LOGS.glob("ok-*.log")), ids=lambda one: one.name)
def test_a_recorded_log_tells_backend_graphs_and_capacity(log: Path) -> None:
    assert read_engine_log(log.read_text(encoding="utf-8")) == EngineFacts(
        attention_backend=None if log.name in UNNAMED else "CPU_ATTN",
        cudagraph_mode="NONE",
        kv_cache_tokens=2_097_152 if log.name in TWICE_AS_MANY else 1_048_576,
    )


def test_colours_do_not_hide_a_fact() -> None:
    text = (LOGS / "ok-0.14.1-nospec.log").read_text(encoding="utf-8")
    assert "\x1b[" in text
    assert read_engine_log(text.replace("KV cache size:", "KV \x1b[0;36mcache\x1b[0;0m size:")) == read_engine_log(text)


# What a build for two GPUs prints, in the wording of 0.27.0.
WORKER = "(Worker_TP0 pid=41) INFO 08-20 10:00:00 "
ECHO = (
    "(EngineCore pid=40) INFO 08-20 10:00:00 [core.py:121] Initializing a V1 LLM engine (v0.27.0) with config: "
    "model='/m', enforce_eager=False, compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, "
    "'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, 'cudagraph_capture_sizes': [1, 2]}"
)
CHOSEN = (
    f"{WORKER}[cuda.py:483] Using FLASHINFER attention backend out of potential backends: "
    "['FLASHINFER', 'TRITON_ATTN']."
)
FORCED = f"{WORKER}[cuda.py:422] Using AttentionBackendEnum.FLASH_ATTN backend."
LAYOUT = f"{WORKER}[selector.py:202] Using HND KV cache layout for FLASHINFER backend."
DRAFTER = f"{WORKER}[gpu_model_runner.py:5388] Loading drafter model..."
DRAFTERS_OWN = CHOSEN.replace("FLASHINFER attention", "FLEX_ATTENTION attention")
ALL_REDUCE = (
    f"{WORKER}[cuda_communicator.py:267] Using ['CUSTOM', 'PYNCCL'] all-reduce backends (in dispatch order) for group "
    "'tp:0' out of potential backends: ['QUICK_REDUCE', 'CUSTOM', 'PYNCCL']."
)
LOADED = f"{WORKER}[gpu_model_runner.py:5406] Model loading took 12.53 GiB memory and 41.2 seconds"
OTHER_RANK = LOADED.replace("TP0", "TP1").replace("12.53", "12.61")
DOWNGRADE = (
    f"{WORKER}[compilation.py:1392] CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention "
    "backend FlashInferBackend; setting cudagraph_mode=PIECEWISE"
)
SCHEDULED = (
    f"{WORKER}[gpu_model_runner.py:1] Overriding cudagraph_mode from FULL_AND_PIECEWISE to PIECEWISE for reliability"
)
KV = "(EngineCore pid=40) INFO 08-20 10:00:00 [kv_cache_utils.py:2235] GPU KV cache size: 73,216 tokens"


def facts(*lines: str) -> EngineFacts:
    return read_engine_log("\n".join(lines) + "\n")


def test_a_gpu_build_tells_all_facts() -> None:
    assert facts(ECHO, ALL_REDUCE, CHOSEN, LAYOUT, LOADED, OTHER_RANK, KV) == EngineFacts(
        attention_backend="FLASHINFER",
        draft_attention_backend=None,
        cudagraph_mode="FULL_AND_PIECEWISE",
        all_reduce="CUSTOM,PYNCCL",
        model_load_gib=12.53,
        kv_cache_tokens=73_216,
    )


def test_a_silent_log_tells_nothing() -> None:
    assert (
        facts()
        == facts("(APIServer pid=1) INFO 08-20 10:00:00 [x.py:1] Application startup complete.")
        == EngineFacts()
    )


@pytest.mark.parametrize(
    ("lines", "backend"),
    [
        ((CHOSEN,), "FLASHINFER"),
        ((FORCED,), "FLASH_ATTN"),
        ((LAYOUT,), "FLASHINFER"),
        ((LAYOUT.replace("HND", "NHD"),), "FLASHINFER"),
        ((CHOSEN.replace("['FLASHINFER', 'TRITON_ATTN']", "('FLASHINFER',)"),), "FLASHINFER"),
        ((f"{WORKER}[cpu.py:82] Cannot use AttentionBackendEnum.FLASH_ATTN backend on CPU.",), None),
        ((f"{WORKER}[x.py:1] Using backend AttentionBackendEnum.FLASH_ATTN for vit attention",), None),
        ((f"{WORKER}[cuda.py:443] Some attention backends are not valid for cuda with head_size=64.",), None),
    ],
)
def test_the_attention_backend_is_the_one_in_use(lines: tuple[str, ...], backend: str | None) -> None:
    assert facts(*lines).attention_backend == backend


def test_the_drafter_s_backend_is_told_only_where_it_differs() -> None:
    both = facts(CHOSEN, DRAFTER, DRAFTERS_OWN)
    assert (both.attention_backend, both.draft_attention_backend) == ("FLASHINFER", "FLEX_ATTENTION")
    alone = facts(CHOSEN, DRAFTER)
    assert (alone.attention_backend, alone.draft_attention_backend) == ("FLASHINFER", None)
    same = facts(CHOSEN, DRAFTER, CHOSEN)
    assert (same.attention_backend, same.draft_attention_backend) == ("FLASHINFER", None)


@pytest.mark.parametrize(
    ("lines", "mode"),
    [
        ((ECHO,), "FULL_AND_PIECEWISE"),
        ((ECHO, DOWNGRADE), "PIECEWISE"),
        ((ECHO, SCHEDULED), "PIECEWISE"),
        ((ECHO, DOWNGRADE, DOWNGRADE.replace("PIECEWISE", "NONE")), "NONE"),
        ((ECHO, f"{WORKER}[vllm.py:1] Enforce eager set, disabling torch.compile and CUDAGraphs."), "NONE"),
        (
            (f"{WORKER}[vllm.py:1] Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup.",),
            "NONE",
        ),
        ((ECHO.replace("enforce_eager=False", "enforce_eager=True"),), "NONE"),
        ((), None),
    ],
)
def test_the_graph_mode_is_the_one_after_all_downgrades(lines: tuple[str, ...], mode: str | None) -> None:
    assert facts(*lines).cudagraph_mode == mode


@pytest.mark.parametrize(
    ("line", "gib"),
    [
        (LOADED, 12.53),
        (f"{WORKER}[model_runner.py:330] Model loading took 9 GiB and 3.1 seconds", 9.0),
        (f"{WORKER}[default_loader.py:430] Loading weights took 4.20 seconds", None),
    ],
)
def test_the_weights_are_those_of_the_first_card(line: str, gib: float | None) -> None:
    assert facts(line, OTHER_RANK if gib else "").model_load_gib == gib


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        (KV, 73_216),
        (KV.replace("GPU", "CPU") + ", Maximum concurrency for 2,048 tokens per request: 35.75x", 73_216),
        (KV.replace("73,216", "512"), 512),
        ("(EngineCore pid=40) INFO [x.py:1] Available KV cache memory: 6.03 GiB", None),
        ("(EngineCore pid=40) INFO [x.py:1] Maximum concurrency for 16,384 tokens per request: 4.47x", None),
    ],
)
def test_the_capacity_is_the_engine_s_own_number_of_tokens(line: str, tokens: int | None) -> None:
    assert facts(line).kv_cache_tokens == tokens


def test_all_reduce_backends_keep_their_order() -> None:
    assert facts(ALL_REDUCE).all_reduce == "CUSTOM,PYNCCL"
    assert facts(ALL_REDUCE.replace("['CUSTOM', 'PYNCCL'] all", "['PYNCCL'] all")).all_reduce == "PYNCCL"


pieces = st.sampled_from(
    ["KV cache size: ", ",", "1", " tokens", "Model loading took ", ".", " GiB", "\x1b[0m", "Using [", "] all-reduce",
     "setting cudagraph_mode=", "NONE", "\n", "Loading drafter model", " attention backend out of potential backends"]
)  # fmt: skip


@given(st.lists(pieces | st.text(max_size=5), max_size=12).map("".join))
def test_any_log_is_read_without_an_error(log: str) -> None:
    assert isinstance(read_engine_log(log), EngineFacts)
