"""One thread for everything: a loop of sockets and timers, and HTTP/1.1 on connections that are kept."""

from __future__ import annotations

import json
import re
import sched
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NoReturn

Answer = tuple[int, Any]  # the status, and text or something to send as JSON
Route = Callable[["Connection", str, str, bytes], Answer | None]


class Loop:
    def __init__(self) -> None:
        self.sources = selectors.DefaultSelector()
        self.timers = sched.scheduler(time.monotonic)

    def watch(self, source: socket.socket | int, ready: Callable[[], object]) -> None:
        self.sources.register(source, selectors.EVENT_READ, ready)

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        self.timers.enter(seconds, 0, call)

    def run(self) -> NoReturn:
        while True:
            wait = self.timers.run(blocking=False)
            for key, _ in self.sources.select(wait):
                key.data()


class Connection:
    """Hands each request to `route`, which answers at once, or returns None and calls `send` later."""

    def __init__(self, loop: Loop, sock: socket.socket, route: Route) -> None:
        self.loop, self.sock, self.route = loop, sock, route
        self.inbox = b""
        self.on_close: Callable[[], object] = lambda: None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop.watch(sock, self.read)

    def read(self) -> None:
        data = b""
        with suppress(OSError):
            data = self.sock.recv(1 << 20)
        if not data:
            self.loop.sources.unregister(self.sock)
            self.sock.close()
            self.on_close()
            return
        self.inbox += data
        head, found, body = self.inbox.partition(b"\r\n\r\n")
        size = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        if found and len(body) >= (int(size[1]) if size else 0):
            self.inbox = b""
            method, path = head.decode("latin-1").split()[:2]
            answer = self.route(self, method, path, body)
            if answer:
                self.send(answer)

    def send(self, answer: Answer) -> None:
        status, content = answer
        plain = isinstance(content, str)
        body = (content if plain else json.dumps(content)).encode()
        kind = "text/plain; charset=utf-8" if plain else "application/json"
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: {kind}\r\n"
        with suppress(OSError):  # the client has gone, which the next read tells
            self.sock.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
