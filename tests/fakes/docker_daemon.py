"""A stand-in of the Docker daemon: its API over a unix socket, with a process of this machine as a container.

It answers what the daemon answers, by what was seen of Engine 20.10, and fails where it is told to. What a real daemon
can show is in tests/real.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.docker_api import Handler, Server


@dataclass(kw_only=True)
class Container:
    id: str
    name: str
    asked: dict[str, Any]
    log: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    oom_killed: bool = False

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def state(self) -> dict[str, Any]:
        code = self.process.returncode if self.process else None
        return {
            "Running": self.running,
            "ExitCode": 0 if code is None else code if code >= 0 else 128 - code,
            "OOMKilled": self.oom_killed,
        }

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.asked.get("Labels") or {})


@dataclass(kw_only=True)
class Daemon:
    """What the daemon knows and how it fails. `refusals`: a request's name to status and message."""

    socket: Path
    images: dict[str, str] = field(default_factory=dict)  # name to digest
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    hangs: set[str] = field(default_factory=set)
    containers: dict[str, Container] = field(default_factory=dict)
    pulled: Mapping[str, Any] = field(default_factory=lambda: {"error": "manifest unknown: manifest unknown"})
    asked: list[str] = field(default_factory=list)
    every: list[Container] = field(default_factory=list)  # those removed meanwhile, too

    def __enter__(self) -> Daemon:
        self._server = Server(str(self.socket), Handler)
        self._server.daemon_of_test = self
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.vanish()
        for one in self.every:
            if one.process:
                one.process.kill()
                one.process.wait()

    def vanish(self) -> None:
        """End as a daemon that is killed: every connection breaks, containers live on."""
        if self.socket.exists():
            self.socket.unlink()
            self._server.shutdown()
            self._server.server_close()
            for one in self._server.connections:
                with suppress(OSError):  # its client has closed it
                    one.shutdown(socket.SHUT_RDWR)

    def foreign(self, **labels: str) -> Container:
        """Return a running container that somebody else made."""
        one = self.make({"Entrypoint": ["sleep", "60"], "Cmd": [], "Labels": labels, "Env": []}, "somebody-s")
        self.run(one)
        return one

    def make(self, asked: dict[str, Any], name: str) -> Container:
        one = Container(id=uuid.uuid4().hex * 2, name=name, asked=asked, log=Path(tempfile.mkstemp()[1]))
        self.containers[one.id] = one
        self.every.append(one)
        return one

    def run(self, one: Container) -> None:
        command = [*one.asked["Entrypoint"], *one.asked["Cmd"]]
        bindings = one.asked.get("HostConfig", {}).get("PortBindings") or {}
        for binding in (bindings.get("8000/tcp") or [{}])[:1]:
            one.port = int(binding.get("HostPort") or 0) or _free_port()
        if "--port" in command:
            command[command.index("--port") + 1] = str(one.port)
            command[command.index("--host") + 1] = "127.0.0.1"
        environment = os.environ | dict(pair.split("=", 1) for pair in one.asked.get("Env") or ())
        with one.log.open("wb") as log:
            one.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
