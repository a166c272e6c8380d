"""vLLM's routes as an ASGI application."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from collector import __version__
from collector.core.engine_log import EMULATED_BY
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
                return {"version": engine.profile.engine_version, EMULATED_BY: f"collector {__version__}"}
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
