"""What the engine prints while it starts: its choices, its memory, and, where it does not start, why."""

from __future__ import annotations

from collector.core.engine_log import EMULATES
from collector.emulator.log import API, CORE, Log, traceback, worker
from collector.emulator.memory import GIB, KvPlan, RefusedStartError, gib, loaded_bytes
from collector.emulator.profile import Profile
from collector.emulator.setup import Setup

BANNER = EMULATES + " vLLM {version} on {name}; nothing runs on a GPU, figures are computed."
FULL, PIECEWISE = "FULL_AND_PIECEWISE", "PIECEWISE"
#: The exception's frame, by the process that raises: file, line, function, code.
_FRAMES = {
    "api": "engine/arg_utils.py:1929:create_engine_config:model_config = self.create_model_config()",
    "worker": "v1/worker/gpu_worker.py:398:init_device:self.requested_memory = request_memory(snapshot, config)",
    "load": "v1/worker/gpu_model_runner.py:5394:load_model:raise e",
    "core": "v1/core/kv_cache_utils.py:778:_check_enough_kv_cache_memory:raise ValueError(",
    "outcome": "v1/executor/multiproc_executor.py:912:worker_main:worker = WorkerProc(*args, **kwargs)",
}


class StartLog:
    """Writes the lines of one start, step by step."""

    def __init__(self, log: Log, profile: Profile, setup: Setup) -> None:
        self._log = log
        self._profile = profile
        self._setup = setup
        self._model = profile.model(setup.model)
        self._worker = worker(0, setup.tensor_parallel)
        self._path = setup.model_path or setup.model

    def asked(self) -> None:
        s, version = self._setup, self._profile.engine_version
        self._log.say(API, "emulator.py:1", BANNER.format(version=version, name=self._profile.name))
        asked = {
            "model_tag": self._path,
            "served_model_name": [s.model],
            "max_model_len": s.max_model_len,
            "max_num_seqs": s.max_num_seqs,
            "tensor_parallel_size": s.tensor_parallel,
            "kv_cache_dtype": s.kv_cache_dtype,
            "speculative_config": self._speculative(),
        }
        self._log.say(API, "api_utils.py:273", f"non-default args: {asked}")

    def resolved(self, max_model_len: int) -> None:
        s = self._setup
        self._log.say(API, "model.py:645", f"Resolved architecture: {self._model.architecture}")
        self._log.say(API, "model.py:1883", f"Using max model len {max_model_len}")
        config = (
            f"model='{self._path}', speculative_config={self._speculative()}, max_seq_len={max_model_len}, "
            f"tensor_parallel_size={s.tensor_parallel}, disable_custom_all_reduce={not s.custom_all_reduce}, "
            f"enforce_eager={s.enforce_eager}, kv_cache_dtype={s.kv_cache_dtype}"
        )
        if not s.enforce_eager:
            if s.schedule:  # the length of a verification changes from step to step
                said = f"Overriding cudagraph_mode from {FULL} to {PIECEWISE} for reliability: k varies by batch."
                self._log.say(API, "vllm.py:865", said, "WARNING")
            mode = f"{PIECEWISE}: 1" if s.schedule else f"{FULL}: (2, 1)"
            config += f", compilation_config={{'cudagraph_mode': <CUDAGraphMode.{mode}>}}"
        version = self._profile.engine_version
        self._log.say(CORE, "core.py:121", f"Initializing a V1 LLM engine (v{version}) with config: {config}")

    def loading(self) -> None:
        if self._setup.tensor_parallel > 1:
            kinds = ["CUSTOM", "PYNCCL"] if self._setup.custom_all_reduce else ["PYNCCL"]
            said = f"Using {kinds} all-reduce backends (in dispatch order) for group 'tp:0' out of potential backends: "
            self._log.say(self._worker, "cuda_communicator.py:267", f"{said}['CUSTOM', 'PYNCCL'].")
        self._log.say(self._worker, "gpu_model_runner.py:5311", f"Starting to load model {self._path}...")
        self._backend()

    def _backend(self) -> None:
        forced = self._setup.attention_backend
        if forced and forced != "auto":
            self._log.say(self._worker, "cuda.py:422", f"Using AttentionBackendEnum.{forced} backend.")
            return
        fitting = list(self.backends)
        said = f"Using {fitting[0]} attention backend out of potential backends: {fitting}."
        self._log.say(self._worker, "cuda.py:483", said)

    @property
    def backends(self) -> tuple[str, ...]:
        known = self._model.attention_backends
        return known.get(self._setup.kv_cache_dtype) or known.get("auto") or ("FLASH_ATTN",)

    def progress(self, share: float) -> None:
        done = f"Loading safetensors checkpoint shards: {share:4.0%} Completed"
        self._log.raw(self._worker, done)

    def loaded(self, seconds: float) -> None:
        s = self._setup
        self._log.say(self._worker, "default_loader.py:430", f"Loading weights took {seconds:.2f} seconds")
        if s.speculation in self._model.drafters:
            self._log.say(self._worker, "gpu_model_runner.py:5388", "Loading drafter model...")
            self._backend()
        size = gib(loaded_bytes(self._model, s))
        said = f"Model loading took {size} GiB memory and {seconds:.6f} seconds"
        self._log.say(self._worker, "gpu_model_runner.py:5406", said)
        if s.speculates and self.backends[0] == "FLASHINFER" and not (s.enforce_eager or s.schedule):
            said = f"CUDAGraphMode.{FULL} is not supported with spec-decode for attention backend FlashInferBackend; "
            self._log.say(self._worker, "compilation.py:1392", f"{said}setting cudagraph_mode={PIECEWISE}", "WARNING")

    def measured(self, plan: KvPlan) -> None:
        """Say what is left for KV, once it is known to be enough."""
        self._log.say(self._worker, "gpu_worker.py:564", f"Available KV cache memory: {gib(plan.available_bytes)} GiB")
        if self._setup.num_gpu_blocks_override:
            blocks = f"num_gpu_blocks={plan.blocks} with num_gpu_blocks_override={plan.blocks}"
            self._log.say(CORE, "kv_cache_utils.py:2173", f"Overriding {blocks}")
        self._log.say(CORE, "kv_cache_utils.py:2235", f"GPU KV cache size: {plan.tokens:,} tokens")
        said = f"Maximum concurrency for {plan.max_model_len:,} tokens per request: {plan.max_concurrency:.2f}x"
        self._log.say(CORE, "kv_cache_utils.py:2236", said)

    def captured(self, seconds: float) -> None:
        if not self._setup.enforce_eager:
            size = self._profile.memory.graph_bytes / GIB
            said = f"Graph capturing finished in {seconds:.0f} secs, took {size:.2f} GiB"
            self._log.say(self._worker, "gpu_model_runner.py:6914", said)
        said = f"init engine (profile, create kv cache, warmup model) took {seconds:.2f} s"
        self._log.say(CORE, "core.py:355", said)

    def serving(self) -> None:
        self._log.say(API, "api_server.py:682", "Starting vLLM server")
        self._log.raw(API, "INFO:     Started server process [1]\nINFO:     Application startup complete.")

    def refused(self, refusal: RefusedStartError) -> None:
        """Print a failure as the layers of processes repeat it, the cause first."""
        layer, text = refusal.layer, refusal.text
        if layer == "argparse":
            self._log.plain(f"usage: vllm serve [model_tag] [options]\n{text}")
        elif layer == "api":
            self._log.raw(API, traceback(_FRAMES["api"], text))
        elif layer == "core":
            raised = traceback(_FRAMES["core"], text)
            self._log.say(CORE, "core.py:1349", f"EngineCore failed to start.\n{raised}", "ERROR")
            self._log.raw(CORE, f"Process EngineCore:\n{raised}")
            self._api_gives_up()
        else:
            self._worker_failed(_FRAMES[layer], text)

    def _worker_failed(self, frame: str, text: str) -> None:
        if text.startswith(("(", "Traceback")):  # a log as it was, or at least its traceback
            self._log.plain(text) if text[0] == "(" else self._log.raw(self._worker, text)
        else:
            said = f"WorkerProc failed to start.\n{traceback(frame, text)}"
            self._log.say(self._worker, "multiproc_executor.py:912", said, "ERROR")
        follows = (
            "Exception: WorkerProc initialization failed due to an exception in a background process. "
            "See stack trace for root cause."
        )
        frame = "v1/executor/multiproc_executor.py:776:wait_for_ready:raise e from None"
        raised = traceback(frame, follows)
        self._log.say(CORE, "core.py:1349", f"EngineCore failed to start.\n{raised}", "ERROR")
        self._api_gives_up()

    def _api_gives_up(self) -> None:
        frame = "entrypoints/openai/api_server.py:778:run_server_worker:async with build_async_engine_client("
        follows = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
        self._log.raw(API, traceback(frame, follows))

    def _speculative(self) -> str | None:
        s = self._setup
        if not s.speculates:
            return None
        return f"SpeculativeConfig(method='{s.speculation}', num_spec_tokens={s.num_speculative_tokens})"


def died(log: Log, ranks: int) -> None:
    """Print what the processes say when a worker is gone while they serve."""
    said = f"Worker proc {worker(0, ranks)} died unexpectedly (exit code: None), shutting down executor."
    log.say(CORE, "multiproc_executor.py:295", said, "ERROR")
    raised = traceback("v1/engine/core.py:1536:_handle_client_request:raise", "RuntimeError: Executor failed.")
    log.say(CORE, "core.py:1351", f"EngineCore encountered a fatal error.\n{raised}", "ERROR")
    frame = "v1/engine/core_client.py:1101:get_output_async:raise self._format_exception(outputs) from None"
    raised = traceback(frame, f"vllm.v1.engine.exceptions.EngineDeadError: {DEAD}")
    log.say(API, "async_llm.py:724", f"AsyncLLM output_handler failed.\n{raised}", "ERROR")
    log.raw(API, "INFO:     Shutting down\nINFO:     Application shutdown complete.")


DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
