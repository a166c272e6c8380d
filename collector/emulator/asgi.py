"""The little of ASGI that the server needs: a request's body, an answer, a stream of events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from typing import Any

from pydantic_core import to_json

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class AnswerError(Exception):
    """An answer that ends the handling of a request, wherever it is raised."""

    def __init__(self, status: int, content: Any) -> None:
        super().__init__(status)
        self.status = status
        self.content = content


def problem(status: int, kind: str, message: str, param: str | None = None) -> AnswerError:
    """Return an error as vLLM words one."""
    return AnswerError(status, {"error": {"message": message, "type": kind, "param": param, "code": status}})


async def read_json(receive: Receive) -> dict[str, Any]:
    """Return the object that a request's body holds. Raises AnswerError where it holds none."""
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    try:
        sent = json.loads(b"".join(parts))
    except ValueError as error:
        raise problem(
            400, "Bad Request", f"[{{'type': 'json_invalid', 'msg': 'JSON decode error: {error}'}}]"
        ) from error
    if not isinstance(sent, dict):
        raise problem(400, "Bad Request", "[{'type': 'model_attributes_type', 'msg': 'Input should be an object'}]")
    return sent


async def disconnected(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_answer(send: Send, status: int, content: Any) -> None:
    """Send a text as text and anything else as JSON."""
    plain = isinstance(content, str)
    body = content.encode() if plain else to_json(content)
    kind = b"text/plain; version=0.0.4; charset=utf-8" if plain else b"application/json"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_events(send: Send, events: AsyncGenerator[dict[str, Any], None]) -> None:
    """Send objects as server-sent events, then the word that ends a stream."""
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async with aclosing(events):
        async for event in events:
            body = b"data: %b\n\n" % to_json(event)
            await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
