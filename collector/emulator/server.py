"""An embedded engine over TCP on this machine, in real time or a multiple of it."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from collector.emulator.engine import EmbeddedEngine
from collector.emulator.routes import application

#: vLLM's VLLM_HTTP_TIMEOUT_KEEP_ALIVE.
KEEP_ALIVE_S = 5
#: For the last answers, after the engine has ended.
GRACE_S = 2


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
