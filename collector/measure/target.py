"""Where an engine answers: address, headers and how to connect. Foreign network errors become ours here."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx

from collector.core.errors import EngineError, RefusedError
from collector.measure.client import Answer, Client, encoded

#: Routes other than a measured request answer at once or not at all.
QUICK_S = 10.0
#: vLLM closes an idle connection after 5 s; dropping it earlier avoids sending into a closing one.
KEEP_ALIVE_S = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Makes the transport of a client; None is the network. The embedded engine answers in the process.
    transport: Callable[[], httpx.AsyncBaseTransport] | None = None

    def client(self, timeout_s: float) -> Client:
        """Return a client with one connection of its own; a shared pool scans all of them on each request."""
        return Client(self.transport() if self.transport else _network(), self.base_url, self.headers, timeout_s)


@cache
def _tls() -> ssl.SSLContext:
    """Return one context for all: a transport builds its own even for plain HTTP, 20 ms each."""
    return ssl.create_default_context()


def _network() -> httpx.AsyncBaseTransport:
    return httpx.AsyncHTTPTransport(
        limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEP_ALIVE_S),
        verify=_tls(),
        trust_env=False,  # a proxy from the environment must not stand between client and engine
    )


async def get_json(client: Client, path: str) -> Any:
    """Return the JSON of a route. Raises EngineError with route and reason."""
    return _json(await _quick(client.get(path), path), path)


async def post_json(client: Client, path: str, body: Any) -> Any:
    return _json(await _quick(client.post(path, encoded(body)), path), path)


async def get_text(client: Client, path: str) -> str:
    response = await _quick(client.get(path), path)
    if response.status != httpx.codes.OK:
        raise _refused(path, response)
    return response.text


async def status_of(client: Client, path: str) -> int | None:
    """Return the status of a route, or None where nobody answers."""
    try:
        return (await client.get(path, timeout_s=QUICK_S)).status
    except httpx.HTTPError:
        return None


async def _quick(answer: Awaitable[Answer], path: str) -> Answer:
    try:
        return await answer
    except httpx.HTTPError as error:
        raise EngineError(f"{path}: {type(error).__name__}: {error}") from error


def _refused(path: str, response: Answer) -> RefusedError:
    return RefusedError(f"{path} answered {response.status}: {response.text[:200]}", response.status)


def _json(response: Answer, path: str) -> Any:
    if response.status != httpx.codes.OK:
        raise _refused(path, response)
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        raise EngineError(f"{path} answered no JSON: {response.text[:200]}") from error
