"""A real Docker Engine for the tests: the one that answers on this machine, or one that is started and ended here."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from collector.measure.engines.daemon import connect
from collector.measure.failed import MeasurementError
from tests.real.environment import cache_root

START_S = 60


class Daemon:
    """A dockerd of our own: its address, and it killed and started again. Its images stay in the cache folder."""

    def __init__(self, folder: Path) -> None:
        self.address = f"unix://{folder}/docker.sock"
        self._folder = folder
        self.start()

    def start(self) -> None:
        options = {
            "host": self.address,
            "pidfile": self._folder / "pid",
            "exec-root": self._folder / "exec",
            "data-root": cache_root() / "docker",
        }
        command = ["dockerd", *(f"--{name}={value}" for name, value in options.items())]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        _wait_until_it_answers(self.address, self._process, self._folder / "log")

    def kill(self) -> None:
        """Kill it as a crash does: its containers run on, until the next one ends them."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


@contextmanager
def daemon(folder: Path) -> Iterator[Daemon | None]:
    """Yield a daemon of our own, or None where this machine's answers. Raises RuntimeError where none can be had."""
    with suppress(MeasurementError):
        connect({}).close()
        yield None
        return
    if shutil.which("dockerd") is None:
        raise RuntimeError("no Docker daemon answers and no dockerd is installed: apt-get install docker.io")
    ours = Daemon(folder)
    try:
        yield ours
    finally:
        ours.end()


def _wait_until_it_answers(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            connect({"DOCKER_HOST": address}).close()
        except MeasurementError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"dockerd does not start: {error}\n{log.read_text()[-2000:]}") from error
            time.sleep(0.2)
        else:
            return


class Relay:
    """A socket that passes everything on to the daemon's, until it is cut: to its clients, the daemon is then gone."""

    def __init__(self, path: Path, address: str) -> None:
        self.address = f"unix://{path}"
        self._path, self._to = path, address.removeprefix("unix://")
        self._open: list[socket.socket] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                daemon_ = socket.socket(socket.AF_UNIX)
                daemon_.connect(self._to)
                self._open += [client, daemon_]
                for one, other in ((client, daemon_), (daemon_, client)):
                    threading.Thread(target=_copy, args=(one, other), daemon=True).start()

    def cut(self) -> None:
        self._path.unlink(missing_ok=True)
        for one in (self._listening, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _copy(one: socket.socket, other: Any) -> None:
    with suppress(OSError):
        while data := one.recv(65_536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
