"""Serves the built site as GitHub Pages does: below the repository's name, compressed, with its 404 page."""

from __future__ import annotations

import gzip
import mimetypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlparse

#: What GitHub Pages compresses, by the type's end or start, and how hard.
COMPRESSED = ("text/", "javascript", "json", "xml", "svg")
GZIP_LEVEL = 6


@dataclass(slots=True)
class Served:
    """`sent` lists what was sent since it was last cleared: path and bytes of the body as they went over the wire."""

    address: str
    sent: list[tuple[str, int]] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Path
    folder: str
    served: Served
    bodies: dict[Path, tuple[str, bytes, bool]]

    def do_GET(self) -> None:
        path = unquote(urlparse(self.path).path)
        file = self.site / path.removeprefix(self.folder)
        if file.is_dir() and path.endswith("/"):
            file /= "index.html"
        found = path.startswith(self.folder) and file.is_file()
        kind, body, compressed = self._body(file if found else self.site / "404.html")
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=600")
        if compressed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.served.sent.append((path, len(body)))
        with suppress(ConnectionError):  # the reader has gone on to another page
            self.wfile.write(body)

    def _body(self, file: Path) -> tuple[str, bytes, bool]:
        if file not in self.bodies:
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            body = file.read_bytes()
            compressed = any(word in kind for word in COMPRESSED)
            if compressed:
                body = gzip.compress(body, GZIP_LEVEL, mtime=0)
            self.bodies[file] = (kind, body, compressed)
        return self.bodies[file]

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(site: Path, folder: str) -> Iterator[Served]:
    """Serve `site` on 127.0.0.1 below `folder` ("/collector/") until the end of the block."""
    served = Served(address="")
    handler = type("Bound", (Handler,), {"site": site, "folder": folder, "served": served, "bodies": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        served.address = f"http://127.0.0.1:{server.server_port}{folder}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
