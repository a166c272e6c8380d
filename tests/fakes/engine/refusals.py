"""The starts that vLLM refuses, in its own words: each check ends the process if it fails."""

from __future__ import annotations

import argparse
import os
import socket
from typing import NoReturn

from tests.fakes.engine.log import API, CORE, log, raw, traceback
from tests.fakes.engine.processes import Processes, worker_died

METHODS = """ngram medusa mlp_speculator draft_model suffix custom_class eagle eagle3 extract_hidden_states
deepseek_mtp qwen3_next_mtp qwen3_5_mtp mtp gemma4_mtp dflash ngram_gpu dspark"""
TOO_SMALL = """\
ValueError: To serve at least one request with the model's max seq len ({}), ({} GiB KV cache is needed, \
which is larger than the available KV cache memory ({} GiB). Based on the available memory, the estimated \
maximum model length is {}. Try increasing `gpu_memory_utilization` (which also controls CPU memory on the \
CPU backend) or decreasing `max_model_len` when initializing the engine."""


def fail(frame: str, error: str) -> NoReturn:
    raw(API, traceback(frame, error), fd=2)
    os._exit(1)


def bind(host: str, port: int) -> socket.socket:
    """Take the port, as vLLM does, long before anybody listens on it."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as problem:
        fail("entrypoints/openai/api_server.py:591:create_server_socket:sock.bind(addr)", f"OSError: {problem}")
    return listener


def check_model(model: str) -> None:
    if (model.startswith("/") or "/" not in model) and not os.access(model, os.F_OK):
        why = "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
        why += f"'namespace/repo_name': '{model}'. Use `repo_type` argument if needed."
        fail("engine/arg_utils.py:803:__post_init__:self.model = get_model_path(self.model, self.revision)", why)


def check_speculation(spec: dict[str, object] | None) -> None:
    if not spec:
        return
    method, methods = spec.get("method", "draft_model"), METHODS.split()
    if method not in methods:
        known = f"{str(methods[:-1])[1:-1]} or '{methods[-1]}'"
        problem = f"method\n  Input should be {known} [type=literal_error, input_value='{method}', input_type=str]"
    elif not spec.get("num_speculative_tokens"):
        problem = "  Value error, num_speculative_tokens must be provided with speculative model "
        problem += f"[type=value_error, input_value=ArgsKwargs((), {spec}), input_type=ArgsKwargs]"
    else:
        return
    why = f"pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n{problem}\n"
    why += "    For further information visit https://errors.pydantic.dev/2.14/v/value_error"
    fail("engine/arg_utils.py:1829:create_speculative_config:return SpeculativeConfig(", why)


def check_cache(args: argparse.Namespace, processes: Processes) -> None:
    """See that the longest request fits; else EngineCore fails first, its executor next, the API server last."""
    length, tokens = args.max_model_len, args.kv_tokens
    if tokens >= length:
        return
    why = TOO_SMALL.format(length, round(length / 2**20, 2), round(tokens / 2**20, 2), tokens)
    why = traceback("v1/core/kv_cache_utils.py:778:_check_enough_kv_cache_memory:raise ValueError(", why)
    log(CORE, "core.py:1349", f"EngineCore failed to start.\n{why}", "ERROR")
    worker_died(0)
    processes.stop()
    why = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    fail("entrypoints/openai/api_server.py:778:run_server_worker:async with build_async_engine_client(", why)
