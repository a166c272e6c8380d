"""What the client puts on the wire, and that it leaves nothing open behind it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from collector.measure.client import Answer, Client


class Wire(httpx.AsyncBaseTransport, httpx.AsyncByteStream):
    """Answers every request with two parts, the second of which may break."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.requests: list[httpx.Request] = []
        self.streams_closed = 0
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return httpx.Response(200, stream=self)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"a":'
        if self.error:
            raise self.error
        yield b" 1}"

    async def aclose(self) -> None:
        if self.streams_closed < len(self.requests):
            self.streams_closed += 1
        else:
            self.closed = True


def ask(wire: Wire, work: Callable[[Client], Awaitable[Answer]], base_url: str = "http://host:1/v") -> Answer:
    async def run() -> Answer:
        async with Client(wire, base_url, {"authorization": "Bearer key"}, 7.0) as client:
            return await work(client)

    return asyncio.run(run())


def test_a_post_has_all_that_a_server_needs_and_the_answer_is_read_to_its_end() -> None:
    wire = Wire()
    got = ask(wire, lambda client: client.post("/tokenize", b"[1, 2]"))
    assert (got.status, got.text, got.json()) == (200, '{"a": 1}', {"a": 1})
    (request,) = wire.requests
    assert (request.method, str(request.url)) == ("POST", "http://host:1/v/tokenize")
    headers = dict(request.headers)
    assert (headers["host"], headers["content-length"], headers["content-type"]) == ("host:1", "6", "application/json")
    assert headers["authorization"] == "Bearer key"
    assert headers["accept-encoding"] == "identity"
    assert request.extensions["timeout"] == dict.fromkeys(("connect", "read", "write", "pool"), 7.0)
    assert (wire.streams_closed, wire.closed) == (1, True)


def test_a_get_has_no_body_and_may_have_less_patience() -> None:
    wire = Wire()
    ask(wire, lambda client: client.get("/health", timeout_s=2.0))
    (request,) = wire.requests
    assert (request.method, "content-length" in request.headers) == ("GET", False)
    assert request.extensions["timeout"]["read"] == 2.0


def test_an_answer_that_breaks_off_is_an_error_and_is_closed() -> None:
    wire = Wire(httpx.ReadError("cut"))
    with pytest.raises(httpx.ReadError, match="cut"):
        ask(wire, lambda client: client.get("/metrics"))
    assert (wire.streams_closed, wire.closed) == (1, True)


def test_credentials_in_the_address_are_sent_unless_a_header_says_otherwise() -> None:
    async def run() -> str:
        wire = Wire()
        async with Client(wire, "http://me:p%40ss@host", {}, 1.0) as client:
            await client.get("/health")
        assert wire.requests[0].headers["host"] == "host"
        return wire.requests[0].headers["authorization"]

    scheme, _, packed = asyncio.run(run()).partition(" ")
    assert (scheme, base64.b64decode(packed)) == ("Basic", b"me:p@ss")
