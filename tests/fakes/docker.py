"""A daemon that answers the few questions of `collector doctor`, on a socket of its own."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def daemon(folder: Path, info: dict[str, Any], images: tuple[str, ...] = ()) -> Iterator[str]:
    """Serve on a socket in a folder and yield its DOCKER_HOST."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path)
            if path.endswith("/version"):
                return self._answer(200, {"ApiVersion": "1.41", "MinAPIVersion": "1.12"})
            if path.endswith("/info"):
                return self._answer(200, info)
            known = any(f"/images/{image}/json" in path for image in images)
            return self._answer(200 if known else 404, {"Id": "sha256:1"} if known else {"message": "no such image"})

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "client"

        def log_message(self, *_: object) -> None:
            pass

    path = folder / "docker.sock"
    with _Server(str(path), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"unix://{path}"
        server.shutdown()
