"""An httpx transport that reaches an embedded engine in the same process, its network errors included."""

from __future__ import annotations

import asyncio

import httpx

from collector.emulator.asgi import Message
from collector.emulator.engine import EmbeddedEngine
from collector.emulator.routes import application


class EngineTransport(httpx.AsyncBaseTransport):
    """One client's way to an engine; an engine that does not listen refuses the connection.

    The client's timeout holds for the answer as a whole: a hung engine must not hang the loop's virtual time.
    As httpx's ASGITransport, what is streamed comes in one piece; that one looks for trio at each request, which
    takes longer than most answers.
    """

    def __init__(self, engine: EmbeddedEngine) -> None:
        self._application = application(engine)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        exchange = _Exchange(await request.aread())
        scope = {"type": "http", "method": request.method, "path": request.url.path}
        timeout: float | None = request.extensions.get("timeout", {}).get("read")
        try:
            async with asyncio.timeout(timeout):
                await self._application(scope, exchange.receive, exchange.send)
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no answer in {timeout} s", request=request) from error
        except ConnectionRefusedError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        except ConnectionResetError as error:
            raise httpx.ReadError(str(error), request=request) from error
        stream = httpx.ByteStream(b"".join(exchange.parts))
        return httpx.Response(exchange.status, headers=exchange.headers, stream=stream)


class _Exchange:
    """A request's body and what is answered to it. The client does not leave: it is cancelled together with this."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []
        self.parts: list[bytes] = []

    async def receive(self) -> Message:
        if self._body is None:
            await asyncio.get_running_loop().create_future()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message["headers"]
        else:
            self.parts.append(message["body"])
