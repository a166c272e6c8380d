"""vLLM's routes as an ASGI application, and that application over TCP on this machine."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn

from collector.emulator.asgi import (
    AnswerError,
    Application,
    Receive,
    Scope,
    Send,
    disconnected,
    problem,
    read_json,
    send_answer,
    send_events,
)
from collector.emulator.completions import check_model, chunks, prompt_of, read_request, whole_answer
from collector.emulator.engine import KILLED, EmbeddedEngine
from collector.emulator.start_log import DEAD

#: vLLM's VLLM_HTTP_TIMEOUT_KEEP_ALIVE.
KEEP_ALIVE_S = 5
#: For the last answers, after the engine has ended.
GRACE_S = 2
#: Routes that the front end leaves out of its own count, and what it calls one that is not there.
UNCOUNTED = ("/metrics", "/health", "/version", "/ping", "/load")
UNKNOWN = "none"
ANSWERS = {"/v1/completions": False, "/v1/chat/completions": True}  # whether it is a chat
ROUTES = (*ANSWERS, "/v1/models", "/tokenize")


def application(engine: EmbeddedEngine) -> Application:
    """Return the routes of one engine."""
    return _Routes(engine)


class _Routes:
    def __init__(self, engine: EmbeddedEngine) -> None:
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        engine = self._engine
        if not engine.listening:
            raise ConnectionRefusedError(f"{engine.setup.model} does not listen")
        method, path = scope["method"], scope["path"]
        status = 200
        try:
            if engine.faults.answer_delay_s:
                await engine.clock.sleep(engine.faults.answer_delay_s)
            if method == "POST" and path in ANSWERS:
                await self._complete(receive, send, chat=ANSWERS[path])
            else:
                await send_answer(send, 200, await self._plain(method, path, receive))
        except AnswerError as answer:
            status = answer.status
            if engine.exit_code == KILLED:
                raise ConnectionResetError(f"{engine.setup.model} was killed") from answer
            await send_answer(send, status, answer.content)
        finally:
            if path not in UNCOUNTED:
                engine.metrics.answered(path if path in ROUTES else UNKNOWN, method, status)

    async def _plain(self, method: str, path: str, receive: Receive) -> Any:
        """Return what a route answers at once. Raises AnswerError with an error."""
        engine = self._engine
        match method, path:
            case "GET", "/health" | "/ping":
                return ""
            case "GET", "/version":
                return {"version": engine.profile.engine_version}
            case "GET", "/metrics":
                return engine.metrics.text()
            case "GET", "/v1/models":
                return {"object": "list", "data": [self._card()]}
            case "POST", "/tokenize":
                sent = await read_json(receive)
                check_model(engine, sent)
                ids, _ = prompt_of(engine, sent, chat="messages" in sent)
                return {"count": len(ids), "max_model_len": engine.kv.max_model_len, "tokens": ids, "token_strs": None}
            case _:
                raise AnswerError(404, {"detail": "Not Found"})

    def _card(self) -> dict[str, Any]:
        engine = self._engine
        return {
            "id": engine.setup.model,
            "object": "model",
            "created": int(engine.unix()),
            "owned_by": "vllm",
            "root": engine.setup.model_path or engine.setup.model,
            "parent": None,
            "max_model_len": engine.kv.max_model_len,
        }

    async def _complete(self, receive: Receive, send: Send, *, chat: bool) -> None:
        engine, every = self._engine, self._engine.faults.fail_every
        asked = read_request(engine, await read_json(receive), chat=chat)
        engine.completions += 1
        if every and engine.completions % every == 0:
            raise problem(500, "InternalServerError", DEAD)
        if asked.stream:
            await _unless_gone(receive, send_events(send, chunks(engine, asked)))
        else:
            answer = await _unless_gone(receive, whole_answer(engine, asked))
            if answer is not None:
                await send_answer(send, 200, answer)


async def _unless_gone(receive: Receive, answer: Any) -> Any:
    """Return what `answer` comes to, or cancel it when the client goes."""
    answering = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(disconnected(receive))
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else None
    finally:
        for task in (answering, leaving):
            task.cancel()
        with suppress(asyncio.CancelledError, AnswerError):
            await answering


class RealClock:
    """The system's time, or a multiple of it: at speed 10 an engine lives ten seconds in one."""

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = speed

    def monotonic(self) -> float:
        return time.monotonic() * self._speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)


class _Server(uvicorn.Server):
    """A web server that leaves signals to whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """Take the port, as vLLM does long before it listens. Raises OSError where it is taken."""
    # With its protocol named, asyncio turns Nagle's algorithm off; with it on, a stream waits 40 ms for an ACK.
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
    except OSError:
        taken.close()
        raise
    return taken


async def serve(engine: EmbeddedEngine, taken: socket.socket) -> int:
    """Start the engine, serve it on a bound socket, and return its exit code once it has ended.

    Cancelled, it ends the engine; requests that are still in it fail.
    """
    engine.start()
    try:
        if await engine.ready():
            await _listen(engine, taken)
        return await engine.ended()
    finally:
        await engine.stop()
        taken.close()


async def _listen(engine: EmbeddedEngine, taken: socket.socket) -> None:
    """Serve until the engine ends."""
    config = uvicorn.Config(
        application(engine),
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[taken]))
    try:
        await engine.ended()
    finally:
        await engine.stop()  # answers whoever still waits
        server.should_exit = True
        await serving
