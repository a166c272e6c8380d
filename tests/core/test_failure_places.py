"""What refuses in words that no rule knows: the place tells, but only of what ended the process."""

from __future__ import annotations

import pytest

from collector.core.failures import diagnose

SITE = "/usr/lib/python3.12/dist-packages/"
ENTRY = "vllm/v1/engine/core.py:run_engine_core"
STRANGE = "ValueError: the moon is in the wrong phase"
GONE = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


def log(said: str, *frames: str, before: tuple[str, ...] = (), mark: str = "") -> str:
    """Print one process's traceback, outermost frame first, and what the front end makes of it."""
    engine, front = "(EngineCore pid=22) ERROR 11-29 10:02:01 [core.py:1349] ", "(APIServer pid=1) "
    files = [frame.rpartition(":") for frame in frames]
    raised = [f'  File "{SITE}{file}", line 7, in {function}' for file, _, function in files]
    lines = [
        *[engine + line for line in (*before, "Traceback (most recent call last):", *raised, said)],
        *[front + line for line in ("Traceback (most recent call last):", GONE)],
    ]
    return "\n".join(mark + line for line in lines)


@pytest.mark.parametrize(
    ("place", "category"),
    [
        ("vllm/v1/spec_decode/suffix.py:load", "speculation"),
        ("vllm/model_executor/models/llama_eagle9.py:load_weights", "speculation"),
        ("vllm/model_executor/layers/quantization/mxfp9.py:create_weights", "quantization"),
        ("vllm/v1/attention/backends/moon.py:build", "attention_backend"),
        ("flashinfer/prefill.py:plan", "attention_backend"),
        ("vllm/compilation/backends.py:split", "jit"),
        ("triton/compiler/compiler.py:compile", "jit"),
        ("vllm/distributed/device_communicators/pynccl.py:init", "nccl_p2p"),
        ("vllm/distributed/utils.py:divide", "tensor_parallel"),
        ("huggingface_hub/file_download.py:fetch", "model_unavailable"),
        ("transformers/models/auto/configuration_auto.py:for_model", "architecture"),
        ("vllm/model_executor/model_loader/weight_utils.py:iterate", "model_files"),
        ("vllm/tokenizers/moon.py:from_pretrained", "model_files"),
        ("vllm/config/cache.py:check", "cli"),
    ],
)
def test_an_unknown_error_is_named_by_the_part_that_raised_it(place: str, category: str) -> None:
    assert diagnose(log(STRANGE, ENTRY, place), exit_code=1).category == category
    helper = "vllm/utils/math.py:check"
    assert diagnose(log(STRANGE, ENTRY, place, "torch/nn/module.py:call", helper)).category == category
    assert diagnose(log(STRANGE, "vllm/entrypoints/x.py:handler", place)).category == "other", "it was caught"


@pytest.mark.parametrize(
    "place",
    [
        "vllm/v1/worker/gpu_model_runner.py:_dummy_run",
        "vllm/model_executor/models/qwen9.py:forward",
        "vllm/v1/core/kv_cache_utils.py:unify",
        "vllm/distributed/device_communicators/shm_broadcast.py:wait",
        "vllm/model_executor/model_loader/weight_utils.py:default_weight_loader",
        "lmcache/config.py:validate",
    ],
)
def test_a_place_that_serves_every_part_says_nothing(place: str) -> None:
    assert diagnose(log(STRANGE, ENTRY, place), exit_code=1).category == "other"


def test_the_innermost_frame_of_the_engine_decides_and_a_drafter_at_any_depth() -> None:
    loader, model = "vllm/model_executor/model_loader/base_loader.py:load", "vllm/model_executor/models/qwen9.py:init"
    assert diagnose(log(STRANGE, ENTRY, loader, model)).category == "other"
    assert diagnose(log(STRANGE, ENTRY, "vllm/v1/spec_decode/eagle.py:load", loader, model)).category == "speculation"


@pytest.mark.parametrize("kind", ["AttributeError", "TypeError", "RecursionError"])
def test_a_fault_of_the_code_is_believed_only_of_what_a_flag_can_replace(kind: str) -> None:
    said = f"{kind}: the moon has no such side"
    assert diagnose(log(said, ENTRY, "vllm/config/model.py:hash")).category == "other"
    assert diagnose(log(said, ENTRY, "vllm/tokenizers/hf.py:get")).category == "other"
    assert diagnose(log(said, ENTRY, "vllm/v1/spec_decode/eagle.py:load")).category == "speculation"


def test_an_error_that_was_caught_on_the_way_is_not_the_cause() -> None:
    caught = (
        "Traceback (most recent call last):",
        f'  File "{SITE}vllm/tokenizers/cache.py", line 7, in look',
        "ValueError: tried and left",
    )
    verdict = diagnose(log(STRANGE, ENTRY, "vllm/v1/attention/backends/moon.py:build", before=caught))
    assert (verdict.category, verdict.cause) == ("attention_backend", STRANGE)
    assert diagnose("\n".join(["(APIServer pid=1) " + line for line in caught])).category == "other"


def test_words_that_a_rule_knows_are_better_than_the_place() -> None:
    said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB."
    assert diagnose(log(said, ENTRY, "vllm/v1/spec_decode/eagle.py:load_model")).category == "oom_weights"


@pytest.mark.parametrize(
    ("category", "said", "place"),
    [
        ("model_files", "OSError: [Errno 5] Input/output error: '/m/model-2-of-3.safetensors'", "vllm/x.py:f"),
        ("model_files", "PermissionError: [Errno 13] Permission denied: '/m/tokenizer.json'", "vllm/x.py:f"),
        ("environment", "PermissionError: [Errno 13] Permission denied: '/cache/lock'", "vllm/x.py:f"),
        ("environment", "OSError: [Errno 28] No space left on device: '/m/model-2.safetensors'", "vllm/x.py:f"),
        ("model_files", "RuntimeError: shards are missing: ['model-2-of-3.safetensors']", "vllm/x.py:f"),
        ("model_unavailable", "HTTPError: 404 Client Error: not found: https://h/config.json", "vllm/x.py:f"),
        ("model_files", "_pickle.UnpicklingError: unsupported operand 118", "torch/serialization.py:load"),
        ("model_files", "Exception: expected ident at line 1 column 2", "transformers/tokenization_fast.py:init"),
        ("shm", "RuntimeError: shared memory file </torch_1>: No space left on device (28)", "torch/storage.py:share"),
        ("jit", "RuntimeError: Ninja build failed. attention.cu: type is not allowed", "vllm/x.py:f"),
        ("tensor_parallel", "ValueError: partition=3696 of layer 'down' is not divisible by group 128", "vllm/x.py:f"),
        ("speculation", "RuntimeError: target does not support drafter states", "vllm/x.py:f"),
        ("attention_backend", "AssertionError: FlashInfer backend currently only takes even windows", "vllm/x.py:f"),
        ("cli", "pydantic.ValidationError: 1 validation error for MoonConfig", "pydantic/x.py:f"),
    ],
)
def test_a_class_of_messages_is_known_in_words_not_met_before(category: str, said: str, place: str) -> None:
    assert diagnose(log(said, ENTRY, place), exit_code=1).category == category


def test_the_mark_of_a_collector_of_logs_before_every_line_hides_nothing() -> None:
    said = "OSError: We couldn't connect to 'https://huggingface.co' to load the files."
    for mark in ("vllm-6d9f-abcde vllm ", "vllm-0 ", "[pod/llm-0/vllm] "):
        verdict = diagnose(log(said, ENTRY, "transformers/utils/hub.py:cached_file", mark=mark))
        assert (verdict.category, verdict.cause) == ("model_unavailable", said)


def test_a_probe_that_ended_the_engine_is_a_timeout_and_one_that_failed_is_not_the_cause() -> None:
    loading = "(EngineCore pid=2) INFO 11-29 10:00:00 [gpu_model_runner.py:1] Starting to load model /m...\n"
    failed, killed = (
        "9m Unhealthy pod/v Startup probe failed: refused\n",
        "1s Killing v failed startup probe, will be restarted",
    )
    assert diagnose(loading + failed + killed, exit_code=137).category == "timeout"
    assert diagnose(log(STRANGE, ENTRY) + "\n" + failed, exit_code=1).category == "other"
