"""Runs `vllm serve` as a process of its own, through a keeper that leaves no orphan behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from collector.core.command import LOOPBACK, engine_environment, expander, serve_arguments
from collector.core.configuration import Plan
from collector.core.errors import EngineError, UserError
from collector.core.window import Telemetry
from collector.measure import p2p_cache
from collector.measure.engines.interface import End, Launch
from collector.measure.failed import MeasurementError
from collector.measure.log_copy import size_of, text_of
from collector.measure.processes import descends
from collector.measure.target import Target

#: Beyond the engine's own patience: the keeper needs a moment to end what is left and to say so.
KEEPER_GRACE_S = 10.0
#: An engine whose collector was killed needs its keeper's grace to go; then its port is free.
PORT_WAIT_S = 6.0
PORT_POLL_S = 0.2


def preflight(plan: Plan, variables: Mapping[str, str]) -> None:
    """See that the program is there and that every ${NAME} of the plan is set."""
    program = expander(variables, "engine.command")(plan.engine.command[0])
    if shutil.which(program, path=variables.get("PATH")) is None:
        raise UserError(f"engine.command: the program {program!r} is not there; install vLLM or name its full path")
    for word in plan.engine.command[1:]:
        expander(variables, "engine.command")(word)
    for configuration in plan.configurations:
        expand = expander(variables, f"configuration {configuration.label}")
        serve_arguments(configuration, port=0, expand=expand)
        engine_environment(configuration, expand)


async def prepare(*_: object) -> None:
    """Do nothing: the keeper of a killed sweep has ended its engine, and vLLM fetches models itself."""


async def start(launch: Launch) -> ProcessEngine:
    """Start the engine on a free port of this machine. Raises MeasurementError where the port is taken."""
    expand = expander(launch.variables, f"configuration {launch.configuration.label}")
    port = await _free_port(launch.engine.port)
    command = [expand(one) for one in launch.engine.command]
    command += serve_arguments(launch.configuration, port=port, expand=expand)
    environment = dict(launch.variables) | engine_environment(launch.configuration, expand)
    p2p_cache.clear_for(launch.configuration, p2p_cache.cache_root(environment))
    launch.log.parent.mkdir(parents=True, exist_ok=True)
    launch.log.write_text("")
    keeper = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "collector.measure.keeper",
        str(launch.log),
        "--",
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
        start_new_session=True,  # Ctrl-C in the terminal reaches collector, which then stops the engine
    )
    key = launch.engine.api_key_variable
    headers = {"authorization": f"Bearer {environment[key]}"} if key and key in environment else {}
    return ProcessEngine(keeper, launch.log, Target(base_url=f"http://{LOOPBACK}:{port}", headers=headers))


def _end_session(leader: int | None) -> None:
    """Kill what is left of the session that the engine's leader began."""
    for folder in Path("/proc").iterdir() if leader else ():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                # pid (command) state parent group session …
                session = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[3]
                if session == str(leader):
                    os.kill(int(folder.name), signal.SIGKILL)


async def _free_port(wanted: int | None) -> int:
    """Return a port, waiting a moment for one that an engine of ours may be about to leave."""
    deadline = time.monotonic() + PORT_WAIT_S
    while True:
        try:
            return _port(wanted)
        except MeasurementError:
            if time.monotonic() >= deadline:
                raise
            await asyncio.sleep(PORT_POLL_S)


def _port(wanted: int | None) -> int:
    """Return a free port. Asked before the start: whoever holds the port would answer in the engine's place."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, wanted or 0))
        except OSError as error:
            cause = f"port {wanted} on {LOOPBACK} is taken: {error.strerror}"
            raise MeasurementError(category="port_in_use", phase="launch", cause=cause, retryable=True) from error
        return int(probe.getsockname()[1])


class ProcessEngine:
    """A running `vllm serve` and its keeper."""

    owned = True

    image_digest: str | None = None

    def __init__(self, keeper: asyncio.subprocess.Process, log: Path, target: Target) -> None:
        self.target = target
        self._keeper = keeper
        self._log = log
        self._exit = asyncio.create_task(self._read_exit())

    async def _read_exit(self) -> End:
        if self._keeper.stdout is None:
            raise EngineError("the keeper has no output")
        code, pid = None, None
        async for line in self._keeper.stdout:
            message = json.loads(line)
            pid = message.get("pid", pid)
            if "exit" in message:
                code = message["exit"]
                break
        if code is None:
            # The keeper itself was killed, and with it the engine's leader; its workers may not have noticed.
            _end_session(pid)
            return End()
        return End(exit_code=code if code >= 0 else 128 - code, exit_signal=-code if code < 0 else None)

    async def ended(self) -> End:
        return await asyncio.shield(self._exit)

    async def stop(self, patience_s: float) -> End:
        if self._keeper.returncode is None and self._keeper.stdin is not None:
            try:
                self._keeper.stdin.write(f"stop {patience_s}\n".encode())
                await self._keeper.stdin.drain()
            except (BrokenPipeError, ConnectionResetError):
                pass  # it ended in this moment
        try:
            async with asyncio.timeout(patience_s + KEEPER_GRACE_S):
                end = await self.ended()
                await self._keeper.wait()  # only then is nothing left running and the log whole
                return end
        except TimeoutError:
            self._keeper.kill()
            await self._keeper.wait()
            return await self.ended()

    def owns(self, pid: int) -> bool | None:
        return descends(pid, self._keeper.pid)

    def telemetry(self) -> Telemetry:
        return Telemetry()

    # A log that somebody removed must not keep the engine from being ended.

    def log_size(self) -> int:
        return size_of(self._log)

    def log_text(self) -> str:
        return text_of(self._log)
