"""One connection to an engine: httpx's transport without httpx's client.

The client merges addresses, cookies and redirects anew for each request and guesses at the encoding of each answer:
0.3 ms, ten times what it takes to make the same request and read its answer here. An engine needs none of it, and
what sends a load must not take the engine's CPU.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

from collector import __version__

#: Nothing compressed: it would cost the engine's front end more to pack a scrape than to send it over this machine.
_HEADERS = {"accept": "*/*", "accept-encoding": "identity", "user-agent": f"collector/{__version__}"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, read to its end."""

    status: int
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """Return what the body says. Raises ValueError where it is no JSON."""
        return json.loads(self.body)


class Client:
    """Sends requests one after the other; `timeout_s` holds for connecting and for every wait in between."""

    def __init__(
        self, transport: httpx.AsyncBaseTransport, base_url: str, headers: Mapping[str, str], timeout_s: float
    ) -> None:
        self._transport = transport
        self._base = httpx.URL(base_url.rstrip("/"))
        self._urls: dict[str, httpx.URL] = {}
        host = {"host": self._base.netloc.decode()}
        self._headers = httpx.Headers(_HEADERS | host | _credentials(self._base) | dict(headers)).raw
        self._timeout = httpx.Timeout(timeout_s)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._transport.aclose()

    async def get(self, path: str, *, timeout_s: float | None = None) -> Answer:
        """Return the answer. Raises httpx.HTTPError where there is none."""
        timeout = self._timeout if timeout_s is None else httpx.Timeout(timeout_s)
        return await self._send("GET", path, self._headers, b"", timeout)

    async def post(self, path: str, content: bytes) -> Answer:
        """Send encoded JSON and return the answer. Raises httpx.HTTPError where there is none."""
        about = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        return await self._send("POST", path, self._headers + about, content, self._timeout)

    async def _send(
        self, method: str, path: str, headers: list[tuple[bytes, bytes]], content: bytes, timeout: httpx.Timeout
    ) -> Answer:
        url = self._urls.get(path) or self._urls.setdefault(path, httpx.URL(f"{self._base}{path}"))
        stream, extensions = httpx.ByteStream(content), {"timeout": timeout.as_dict()}
        request = httpx.Request(method, url, headers=headers, stream=stream, extensions=extensions)
        response = await self._transport.handle_async_request(request)
        try:
            return Answer(response.status_code, b"".join([part async for part in response.aiter_raw()]))
        finally:
            await response.aclose()


def _credentials(url: httpx.URL) -> dict[str, str]:
    if not url.userinfo:
        return {}
    return {"authorization": f"Basic {b64encode(f'{url.username}:{url.password}'.encode()).decode()}"}


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()
