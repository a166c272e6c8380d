"""The API of the stand-in of the Docker daemon: its routes over a unix socket."""

from __future__ import annotations

import json
import re
import socket
import socketserver
import struct
import subprocess
import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from tests.fakes.docker_daemon import Daemon

ROUTES = (
    ("GET", r"/version", "version"),
    ("GET", r"/_ping", "ping"),
    ("GET", r"/images/(?P<name>.+)/json", "image"),
    ("POST", r"/images/create", "pull"),
    ("GET", r"/containers/json", "list_all"),
    ("POST", r"/containers/create", "create"),
    ("POST", r"/containers/(?P<name>\w+)/start", "start"),
    ("GET", r"/containers/(?P<name>\w+)/json", "inspect"),
    ("POST", r"/containers/(?P<name>\w+)/wait", "wait"),
    ("GET", r"/containers/(?P<name>\w+)/logs", "logs"),
    ("POST", r"/containers/(?P<name>\w+)/stop", "stop"),
    ("POST", r"/containers/(?P<name>\w+)/kill", "kill"),
    ("DELETE", r"/containers/(?P<name>\w+)", "remove"),
)


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    daemon_of_test: Daemon

    def __init__(self, *arguments: Any) -> None:
        self.connections: list[socket.socket] = []
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that has gone


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._route()

    def do_POST(self) -> None:
        self._route()

    def do_DELETE(self) -> None:
        self._route()

    def _route(self) -> None:
        assert isinstance(self.server, Server)
        self.daemon = self.server.daemon_of_test
        parts = urlsplit(self.path)
        path = re.sub(r"^/v1\.\d+", "", unquote(parts.path))
        self.query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        length = int(self.headers.get("content-length") or 0)
        self.body = json.loads(self.rfile.read(length)) if length else {}
        for method, pattern, name in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and method == self.command:
                self._answer_as(name, found.groupdict().get("name") or "")
                return
        self._send(404, {"message": "page not found"})

    def _answer_as(self, name: str, argument: str) -> None:
        daemon = self.daemon
        daemon.asked.append(name)
        while name in daemon.hangs:
            time.sleep(0.05)
        if name in daemon.refusals:
            status, message = daemon.refusals[name]
            self._send(status, {"message": message})
        elif "containers/" in self.path and argument and argument not in daemon.containers:
            self._send(404, {"message": f"No such container: {argument}"})
        else:
            getattr(self, f"_{name}")(argument)

    def _send(self, status: int, content: Any = None) -> None:
        data = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _version(self, _: str) -> None:
        self._send(200, {"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Version": "20.10.24"})

    def _ping(self, _: str) -> None:
        self._send(200, "OK")

    def _image(self, name: str) -> None:
        digest = self.daemon.images.get(name)
        if digest is None:
            self._send(404, {"message": f"No such image: {name}"})
        else:
            repository = name.partition("@")[0].rpartition(":")[0] or name
            self._send(200, {"Id": "sha256:0", "RepoDigests": [f"{repository}@{digest}"]})

    def _pull(self, _: str) -> None:
        layer = {"id": "a", "status": "Downloading", "progressDetail": {"current": 1e9, "total": 4e9}}
        name = self.query["fromImage"] + (f":{self.query['tag']}" if "tag" in self.query else "")
        if "digest" in self.daemon.pulled:
            self.daemon.images[name] = self.daemon.pulled["digest"]
        events = [layer, self.daemon.pulled if "error" in self.daemon.pulled else {"status": "done"}]
        self._stream([json.dumps(one).encode() + b"\r\n" for one in events])

    def _list_all(self, _: str) -> None:
        wanted = json.loads(self.query.get("filters", "{}")).get("label", [])
        found = [
            {"Id": one.id, "Names": [f"/{one.name}"], "Labels": one.labels}
            for one in self.daemon.containers.values()
            if {*wanted} <= {f"{name}={value}" for name, value in one.labels.items()}
        ]
        self._send(200, found)

    def _create(self, _: str) -> None:
        if self.body["Image"] not in self.daemon.images:
            self._send(404, {"message": f"No such image: {self.body['Image']}"})
        else:
            self._send(201, {"Id": self.daemon.make(self.body, self.query["name"]).id, "Warnings": []})

    def _start(self, name: str) -> None:
        self.daemon.run(self.daemon.containers[name])
        self._send(204)

    def _inspect(self, name: str) -> None:
        one = self.daemon.containers[name]
        ports = {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(one.port)}]} if one.running else {}
        content = {"Id": one.id, "State": one.state, "Config": {"Tty": False}, "NetworkSettings": {"Ports": ports}}
        self._send(200, content)

    def _wait(self, name: str) -> None:
        one = self.daemon.containers[name]
        if one.process:
            one.process.wait()
        self._send(200, {"StatusCode": one.state["ExitCode"]})

    def _logs(self, name: str) -> None:
        one = self.daemon.containers[name]

        def frames() -> Any:
            with one.log.open("rb") as file:
                while True:
                    ended = not one.running
                    chunk = file.read()
                    if chunk:
                        yield struct.pack(">BxxxL", 1, len(chunk)) + chunk
                    if not chunk and (ended or self.query.get("follow") != "1"):
                        return
                    time.sleep(0.02)

        self._stream(frames())

    def _stream(self, parts: Any) -> None:
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for part in parts:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    def _stop(self, name: str) -> None:
        one = self.daemon.containers[name]
        if one.process and one.running:
            one.process.terminate()
            try:
                one.process.wait(float(self.query.get("t", 10)))
            except subprocess.TimeoutExpired:
                one.process.kill()
        self._send(204)

    def _kill(self, name: str) -> None:
        one = self.daemon.containers[name]
        if not one.running:
            self._send(409, {"message": f"Container {name} is not running"})
        elif one.process:
            one.process.kill()
            one.process.wait()
            self._send(204)

    def _remove(self, name: str) -> None:
        one = self.daemon.containers.pop(name)
        if one.process and one.running:
            one.process.kill()
            one.process.wait()
        one.log.unlink()
        self._send(204)
