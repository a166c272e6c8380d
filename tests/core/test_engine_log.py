"""Facts of an engine's log: recorded ones of a CPU build, and the lines of a GPU build."""

from __future__ import annotations

from dataclasses import replace
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
    found = read_engine_log(log.read_text(encoding="utf-8"))
    assert found.weights_load_s is not None
    assert 0 <= found.weights_load_s < 1
    assert replace(found, weights_load_s=None) == EngineFacts(
        attention_backend=None if log.name in UNNAMED else "CPU_ATTN",
        cudagraph_mode="NONE",
        kv_cache_tokens=2_097_152 if log.name in TWICE_AS_MANY else 1_048_576,
        custom_all_reduce=False,  # which a CPU build switches off by itself
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


KERNEL = f"{WORKER}[auto_gptq.py:357] Using MarlinLinearKernel for AutoGPTQLinearMethod"
WEIGHTS = f"{WORKER}[default_loader.py:430] Loading weights took 40.25 seconds"
DRAFT_WEIGHTS = WEIGHTS.replace("40.25", "1.5")
COMPILED = f"{WORKER}[monitor.py:34] torch.compile took 63.11 s in total"
GRAPHS = f"{WORKER}[gpu_model_runner.py:6914] Graph capturing finished in 12 secs, took 0.94 GiB"
CHANNEL = "(Worker_TP0 pid=41) [hidden]:41:99 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"


def test_a_gpu_build_tells_all_facts() -> None:
    lines = (ECHO, CHANNEL, ALL_REDUCE, CHOSEN, LAYOUT, KERNEL, WEIGHTS, LOADED, OTHER_RANK, COMPILED, KV, GRAPHS)
    assert facts(*lines) == EngineFacts(
        attention_backend="FLASHINFER",
        draft_attention_backend=None,
        cudagraph_mode="FULL_AND_PIECEWISE",
        all_reduce="CUSTOM,PYNCCL",
        model_load_gib=12.53,
        kv_cache_tokens=73_216,
        nccl_p2p=True,
        custom_all_reduce=True,
        linear_kernel="MarlinLinearKernel",
        weights_load_s=40.25,
        compile_s=63.11,
        graph_gib=0.94,
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


SHM = "host:41:99 [0] NCCL INFO Channel 01 : 1[1] -> 0[0] via SHM/direct/direct"


@pytest.mark.parametrize(
    ("lines", "p2p"),
    [
        ((CHANNEL,), True),
        ((CHANNEL.replace("P2P/CUMEM", "P2P/direct pointer"),), True),
        ((CHANNEL.replace("0[0] -> 1[1]", "0[1000] -> 1[24000]").replace("CUMEM", "IPC/read"),), True),
        ((SHM,), False),
        ((SHM.replace("via SHM", "[send] via NET"),), False),
        ((SHM, CHANNEL), True),
        (("(Worker_TP0 pid=41) x:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1",), None),
        ((ALL_REDUCE,), None),
        ((), None),
    ],
)
def test_nccl_s_own_lines_say_whether_it_reaches_over(lines: tuple[str, ...], p2p: bool | None) -> None:
    assert facts(*lines).nccl_p2p is p2p


ALL_REDUCE_OFF = f"{WORKER}[custom_all_reduce.py:189] Custom allreduce is disabled because your platform lacks GPU P2P"


@pytest.mark.parametrize(
    ("lines", "active"),
    [
        ((ALL_REDUCE,), True),
        ((ALL_REDUCE.replace("['CUSTOM', 'PYNCCL'] all", "['PYNCCL'] all"),), False),
        ((ALL_REDUCE.replace("'tp:0'", "'world:0'").replace("['CUSTOM', ", "["), ALL_REDUCE), True),
        ((ALL_REDUCE_OFF,), False),
        (("INFO [api_utils.py:273] non-default args: {'disable_custom_all_reduce': True}",), False),
        ((ECHO.replace("enforce_eager=False", "disable_custom_all_reduce=True"),), False),
        ((ECHO.replace("enforce_eager=False", "disable_custom_all_reduce=False"),), None),
        ((), None),
    ],
)
def test_custom_all_reduce_is_active_only_where_the_engine_says_so(lines: tuple[str, ...], active: bool | None) -> None:
    assert facts(*lines).custom_all_reduce is active


@pytest.mark.parametrize(
    ("line", "kernel"),
    [
        (KERNEL, "MarlinLinearKernel"),
        (KERNEL.replace("AutoGPTQLinearMethod", "CompressedTensorsWNA16"), "MarlinLinearKernel"),
        ("Selected PerTensorTorchFP8ScaledMMLinearKernel for Fp8LinearMethod", "PerTensorTorchFP8ScaledMMLinearKernel"),
        ("Using MarlinNvFp4LinearKernel for NVFP4 GEMM", "MarlinNvFp4LinearKernel"),
        ("Using backend AttentionBackendEnum.FLASH_ATTN for vit attention", None),
    ],
)
def test_the_kernel_of_quantised_layers_is_named(line: str, kernel: str | None) -> None:
    assert facts(line).linear_kernel == kernel


def test_seconds_of_loading_are_target_s_and_drafter_s_of_the_first_card() -> None:
    other = WEIGHTS.replace("TP0", "TP1").replace("40.25", "41.00")
    assert facts(other, WEIGHTS, DRAFTER, DRAFT_WEIGHTS).weights_load_s == 41.75
    assert facts(WEIGHTS.replace("(Worker_TP0 pid=41)", "(VllmWorker rank=0 pid=41)")).weights_load_s == 40.25
    assert facts(WEIGHTS.replace("(Worker_TP0 pid=41)", "(VllmWorker rank=1 pid=42)")).weights_load_s is None


def test_compile_time_is_read_from_either_of_its_lines() -> None:
    init = "INFO [core.py:356] init engine (profile, create kv cache, warmup model) took 80.1 s (compilation: 61.20 s)"
    assert facts(init).compile_s == 61.2
    assert facts(init.replace("80.1 s", "80.1 seconds"), COMPILED).compile_s == 63.11
    assert facts(init.partition(" (comp")[0]).compile_s is None


def test_graphs_may_take_less_than_nothing() -> None:
    assert facts(GRAPHS.replace("0.94", "-0.02")).graph_gib == -0.02


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
