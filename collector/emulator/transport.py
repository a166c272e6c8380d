"""An httpx transport that reaches an embedded engine in the same process, its network errors included."""

from __future__ import annotations

import asyncio

import httpx

from collector.emulator.engine import EmbeddedEngine
from collector.emulator.server import application


class EngineTransport(httpx.AsyncBaseTransport):
    """One client's way to an engine; an engine that does not listen refuses the connection.

    The client's timeout holds for the answer as a whole: a hung engine must not hang the loop's virtual time.
    """

    def __init__(self, engine: EmbeddedEngine) -> None:
        self._inner = httpx.ASGITransport(application(engine))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        timeout: float | None = request.extensions.get("timeout", {}).get("read")
        try:
            async with asyncio.timeout(timeout):
                return await self._inner.handle_async_request(request)
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no answer in {timeout} s", request=request) from error
        except ConnectionRefusedError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        except ConnectionResetError as error:
            raise httpx.ReadError(str(error), request=request) from error
