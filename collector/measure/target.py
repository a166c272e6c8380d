"""Where an engine answers: address, headers and how to connect. Foreign network errors become ours here."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from collector.core.errors import EngineError, RefusedError

#: Routes other than a measured request answer at once or not at all.
QUICK_S = 10.0
#: vLLM closes an idle connection after 5 s; dropping it earlier avoids sending into a closing one.
KEEP_ALIVE_S = 3.0

#: A client builds a TLS context even for plain HTTP, 20 ms each; all clients share this one.
_TLS = ssl.create_default_context()


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Makes the transport of a client; None is the network. The embedded engine answers in the process.
    transport: Callable[[], httpx.AsyncBaseTransport] | None = None

    def client(self, timeout_s: float) -> httpx.AsyncClient:
        """Return a client with one connection of its own; a shared pool scans all of them on each request."""
        return httpx.AsyncClient(
            base_url=self.base_url,
            headers=dict(self.headers),
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEP_ALIVE_S),
            transport=self.transport() if self.transport else None,
            verify=_TLS,
            trust_env=False,  # a proxy from the environment must not stand between client and engine
        )


async def get_json(client: httpx.AsyncClient, path: str) -> Any:
    """Return the JSON of a route. Raises EngineError with route and reason."""
    return _json(await _quick(client, "GET", path), path)


async def post_json(client: httpx.AsyncClient, path: str, body: Any) -> Any:
    return _json(await _quick(client, "POST", path, body), path)


async def get_text(client: httpx.AsyncClient, path: str) -> str:
    response = await _quick(client, "GET", path)
    if response.status_code != httpx.codes.OK:
        raise _refused(path, response)
    return response.text


async def status_of(client: httpx.AsyncClient, path: str) -> int | None:
    """Return the status of a route, or None where nobody answers."""
    try:
        return (await client.get(path, timeout=QUICK_S)).status_code
    except httpx.HTTPError:
        return None


async def _quick(client: httpx.AsyncClient, method: str, path: str, body: Any = None) -> httpx.Response:
    try:
        return await client.request(method, path, json=body)
    except httpx.HTTPError as error:
        raise EngineError(f"{path}: {type(error).__name__}: {error}") from error


def _refused(path: str, response: httpx.Response) -> RefusedError:
    return RefusedError(f"{path} answered {response.status_code}: {response.text[:200]}", response.status_code)


def _json(response: httpx.Response, path: str) -> Any:
    if response.status_code != httpx.codes.OK:
        raise _refused(path, response)
    try:
        return response.json()
    except ValueError as error:
        raise EngineError(f"{path} answered no JSON: {response.text[:200]}") from error
