"""The API server: its start, its routes and its end."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import time
import zlib
from typing import Any, NoReturn

from tests.fakes.engine import faults, refusals
from tests.fakes.engine.arguments import arguments
from tests.fakes.engine.connection import Answer, Connection, Loop
from tests.fakes.engine.log import API, CORE, log, raw, traceback
from tests.fakes.engine.processes import Processes
from tests.fakes.engine.scheduler import Request, Scheduler

SEE_ABOVE = "EngineCore encountered an issue. See stack trace (above) for the root cause."


def main() -> NoReturn:
    args = arguments(sys.argv[1:])
    log(API, "api_utils.py:345", f" version {faults.VERSION}\n model   {args.model}")
    log(API, "api_utils.py:273", f"non-default args: {args.non_default}")
    listener = refusals.bind(args.host, args.port)
    refusals.check_model(args.model)
    log(API, "model.py:645", "Resolved architecture: LlamaForCausalLM")
    log(API, "model.py:1883", f"Using max model len {args.max_model_len}")
    refusals.check_speculation(args.speculative_config)
    server = Server(args, listener, Processes(args.tensor_parallel_size, listener))
    server.start()
    server.loop.run()


class Server:
    def __init__(self, args: argparse.Namespace, listener: socket.socket, processes: Processes) -> None:
        self.args, self.listener, self.processes = args, listener, processes
        self.loop = Loop()
        self.scheduler = Scheduler(args, self.loop, self.die)
        self.completions = 0
        self.dead = False
        if not faults.text("IGNORE_TERM"):  # which whoever stops the engine sends to EngineCore as well
            self.loop.watch(processes.gone, self.engine_died)

    def start(self) -> None:
        model, worker = self.args.model, self.processes.worker
        config = f"model='{model}', speculative_config={self.args.speculative_config}"
        log(CORE, "core.py:121", f"Initializing a V1 LLM engine (v{faults.VERSION}) with config: {config}")
        log(worker, "cpu_model_runner.py:131", f"Starting to load model {model}...")
        log(worker, "selector.py:202", "Using HND KV cache layout for CPU_ATTN backend.")
        if not faults.text("HANG_START"):
            self.load(time.monotonic(), faults.number("START_S"))

    def load(self, began: float, seconds: float) -> None:
        took = time.monotonic() - began
        if took < seconds:
            done = f"{took / seconds:4.0%} Completed"
            raw(self.processes.worker, f"Loading safetensors checkpoint shards: {done}")
            self.loop.later(min(0.05, seconds - took), lambda: self.load(began, seconds))
            return
        log(self.processes.worker, "default_loader.py:430", f"Loading weights took {took:.2f} seconds")
        refusals.check_cache(self.args, self.processes)
        log(CORE, "kv_cache_utils.py:2235", f"GPU KV cache size: {self.args.kv_tokens:,} tokens")
        log(CORE, "core.py:355", "init engine (profile, create kv cache, warmup model) took 0.01 s")
        self.listener.listen(512)
        self.loop.watch(self.listener, lambda: Connection(self.loop, self.listener.accept()[0], self.route))
        host, port = self.listener.getsockname()
        log(API, "api_server.py:682", f"Starting vLLM server on http://{host}:{port}")
        raw(API, f"INFO:     Started server process [{os.getpid()}]\nINFO:     Application startup complete.")
        if faults.number("DIE_AFTER_READY_S"):
            self.loop.later(faults.number("DIE_AFTER_READY_S"), self.die)

    def route(self, connection: Connection, method: str, path: str, body: bytes) -> Answer | None:
        """Return the answer, or None for a request that the scheduler will answer."""
        if method == "GET":
            return self.get(path)
        sent = json.loads(body)
        if path == "/tokenize" and not faults.text("NO_TOKENIZE"):
            tokens = [zlib.crc32(word.encode()) % 32000 for word in prompt(sent).split()]
            return 200, {"count": len(tokens), "max_model_len": self.args.max_model_len, "tokens": tokens}
        if path in ("/v1/completions", "/v1/chat/completions"):
            return self.complete(sent, connection)
        return 404, {"detail": "Not Found"}

    def get(self, path: str) -> Answer:
        if path == "/health":
            return 500 if faults.text("HEALTH_500") else 200, ""
        if path == "/version":
            return 200, {"version": faults.VERSION}
        if path == "/metrics":
            return 200, self.scheduler.metrics.text()
        if path == "/v1/models":
            card = {"id": self.args.names[0], "object": "model", "max_model_len": self.args.max_model_len}
            return 200, {"object": "list", "data": [card]}
        return 404, {"detail": "Not Found"}

    def complete(self, sent: dict[str, Any], connection: Connection) -> Answer | None:
        if sent.get("model", self.args.names[0]) not in self.args.names:
            return error(404, "NotFoundError", f"The model `{sent['model']}` does not exist.")
        text = prompt(sent)
        size, limit = len(text.split()), self.args.max_model_len
        wanted = sent.get("max_tokens", 16)
        if size + wanted > limit:
            asked = f"However, you requested {wanted} output tokens and your prompt contains {size} input tokens"
            return error(400, "BadRequestError", f"This model's maximum context length is {limit} tokens. {asked}.")
        self.completions += 1
        every = faults.number("FAIL_REQUESTS")
        if every and self.completions % every == 0:
            return error(500, "InternalServerError", SEE_ABOVE)
        request = Request(text, size, wanted, lambda: connection.send(self.completion(sent, request)))
        connection.on_close = lambda: self.scheduler.abort(request)
        self.scheduler.submit(request)
        return None

    def completion(self, sent: dict[str, Any], request: Request) -> Answer:
        if self.dead:
            return error(500, "InternalServerError", SEE_ABOVE)
        text, chat = request.text(), "messages" in sent
        said: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        sizes = {"prompt_tokens": request.size, "completion_tokens": request.tokens}
        return 200, {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{request.seed:08x}",
            "object": "chat.completion" if chat else "text_completion",
            "model": self.args.names[0],
            "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": request.reason()}],
            "usage": {**sizes, "total_tokens": request.size + request.tokens},
        }

    def die(self) -> None:
        if faults.text("DIE_HOW") == "exit0":
            self.engine_died()
        os.kill(os.getpid(), signal.SIGKILL)

    def engine_died(self) -> NoReturn:
        """Do what the API server does when EngineCore is gone: 500 for the open requests, exit code 0."""
        cause = traceback("v1/engine/core.py:1420:run_busy_loop:raise", "RuntimeError: Executor failed.")
        log(CORE, "core.py:1351", f"EngineCore encountered a fatal error.\n{cause}", "ERROR")
        cause = f"vllm.v1.engine.exceptions.EngineDeadError: {SEE_ABOVE}"
        log(API, "async_llm.py:724", f"AsyncLLM output_handler failed.\n{cause}", "ERROR")
        self.dead = True
        for request in self.scheduler.running + self.scheduler.waiting:
            request.reply()
        self.processes.shut_down()


def prompt(sent: dict[str, Any]) -> str:
    """Return the prompt, after the chat template if it is one; each word of it is a token."""
    if "messages" in sent:
        turns = [f"<|{message['role']}|> {message['content']} <|end|>" for message in sent["messages"]]
        return " ".join([*turns, "<|assistant|>"])
    return str(sent["prompt"])


def error(status: int, kind: str, message: str) -> Answer:
    return status, {"error": {"message": message, "type": kind, "param": None, "code": status}}
