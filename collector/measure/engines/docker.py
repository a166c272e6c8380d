"""Runs `vllm serve` in a container of the local Docker daemon (or of Podman, which speaks the same API).

A container outlives whoever started it: one that a killed sweep left is removed when the campaign is swept again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from collector.core.command import LOOPBACK, expander
from collector.core.configuration import Configuration, Plan, Run
from collector.core.container import ContainerSpec, container_spec
from collector.core.errors import UserError
from collector.core.plan_schema import Engine
from collector.core.secrets import secret_values
from collector.core.window import Telemetry
from collector.measure import p2p_cache
from collector.measure.engines import containers
from collector.measure.engines.daemon import DaemonGoneError, address_of, connect, in_thread, translated
from collector.measure.engines.images import digest_of, pull, resolved
from collector.measure.engines.interface import End, Launch
from collector.measure.failed import MeasurementError, NoMoreEnginesError
from collector.measure.log_copy import size_of, text_of
from collector.measure.processes import in_container
from collector.measure.target import Target

#: A daemon that is updated or restarted is back within this.
RETURN_S = 60.0
ASK_AGAIN_S = 1.0
#: A daemon that shuts down ends the containers first: only then can an end be told from its own.
SHUT_DOWN_S = 0.5
#: The last lines come within this after a container's end.
LOG_GRACE_S = 10.0


def preflight(plan: Plan, variables: Mapping[str, str]) -> None:
    """See that every configuration has an image, every folder is there and a local daemon answers."""
    address_of(variables)
    for configuration in plan.configurations:
        if not configuration.image:
            raise UserError(
                f"engine.image: configuration {configuration.label} names no image; name one such as "
                "vllm/vllm-openai:v0.27.0, by digest (NAME@sha256:…) if it is to be the same next year"
            )
        spec = _spec(configuration, plan.engine, variables)
        for mount in spec.mounts:
            if mount.read_only and mount.is_path and not Path(mount.source).exists():
                raise UserError(
                    f"configuration {configuration.label}: {mount.source} is not there, and its container would need "
                    "it; download the model, or correct the path or the volume"
                )
    try:
        connect(variables).close()
    except MeasurementError as error:
        raise UserError(f"engine kind docker: {error.cause}") from error


def _spec(
    configuration: Configuration, engine: Engine, variables: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> ContainerSpec:
    expand = expander(variables, f"configuration {configuration.label}")
    spec = container_spec(configuration, engine, expand=expand, labels=labels)
    key = engine.api_key_variable
    if not key or key not in variables:
        return spec
    return replace(spec, environment=dict(spec.environment) | {key: variables[key]})


async def prepare(
    campaign: Path, plan: Plan, runs: Sequence[Run], variables: Mapping[str, str], tell: Callable[[str], None]
) -> None:
    """Remove what a killed sweep left and fetch the images that are not here."""
    api = await _daemon(variables)
    loop, secrets = asyncio.get_running_loop(), _secrets(plan.engine, variables)

    def told(text: str) -> None:  # by the event loop, which owns the terminal's status line
        with suppress(RuntimeError):  # the sweep has ended
            loop.call_soon_threadsafe(tell, text)

    try:
        await in_thread(lambda: containers.clear(api, campaign, secrets, told))
        for image in dict.fromkeys(run.configuration.image for run in runs):
            if image and plan.engine.container.pull == "missing":
                await _fetch(api, image, tell, told)
    except MeasurementError as error:
        raise NoMoreEnginesError(error.cause) from error
    finally:
        api.close()


async def _fetch(api: Any, image: str, tell: Callable[[str], None], from_thread: Callable[[str], None]) -> None:
    try:
        if await in_thread(lambda: digest_of(api, image)) is None:
            tell(f"pulling {image}")
            await in_thread(lambda: pull(api, image, from_thread))
    except MeasurementError as error:
        tell(f"    {error.cause}")


async def _daemon(variables: Mapping[str, str]) -> Any:
    """Return the daemon's client, waiting for one that is restarted."""
    deadline = time.monotonic() + RETURN_S
    while True:
        try:
            return await in_thread(lambda: connect(variables))
        except DaemonGoneError as error:
            if time.monotonic() >= deadline:
                raise NoMoreEnginesError(f"{error.cause}; waited {RETURN_S:g} s for it") from error
            await asyncio.sleep(ASK_AGAIN_S)


async def start(launch: Launch) -> DockerEngine:
    """Start the engine's container. Raises MeasurementError of the category container or port_in_use."""
    api = await _daemon(launch.variables)
    try:
        return await _start(api, launch)
    except BaseException:
        api.close()
        raise


async def _start(api: Any, launch: Launch) -> DockerEngine:
    campaign, engine, variables = launch.log.parents[1], launch.engine, launch.variables
    # What an attempt of this sweep left behind when the daemon went away holds the GPU.
    secrets = _secrets(engine, variables)
    await in_thread(lambda: containers.clear(api, campaign, secrets, lambda _: None))
    image = launch.configuration.image or ""
    digest = await in_thread(lambda: resolved(api, image, engine.container.pull))
    labels = containers.start_labels(campaign, launch.configuration.configuration_id, launch.repeat, launch.attempt)
    spec = _spec(launch.configuration, engine, variables, labels)
    for mount in spec.mounts:
        if mount.is_path and not mount.read_only:
            Path(mount.source).mkdir(parents=True, exist_ok=True)  # the daemon would make it root's
    folders = [(one.source, one.target) for one in spec.mounts]
    p2p_cache.clear_for(launch.configuration, p2p_cache.container_root(spec.environment, folders))
    launch.log.parent.mkdir(parents=True, exist_ok=True)
    launch.log.write_text("")
    starting = asyncio.ensure_future(in_thread(lambda: containers.run(api, spec)))
    try:
        started = await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _undo(api, starting)
        raise
    key = engine.api_key_variable
    headers = {"authorization": f"Bearer {spec.environment[key]}"} if key and key in spec.environment else {}
    return DockerEngine(
        api,
        started.container,
        launch,
        target=Target(base_url=f"http://{LOOPBACK}:{started.port}", headers=headers),
        image_digest=digest,
        secrets=_secrets(engine, dict(variables) | dict(spec.environment)),
    )


def _secrets(engine: Engine, variables: Mapping[str, str]) -> tuple[str, ...]:
    key = variables.get(engine.api_key_variable or "", "")
    return (*((key,) if key else ()), *secret_values(variables))


async def _undo(api: Any, starting: asyncio.Future[containers.Started]) -> None:
    """Remove a container that was being started when the sweep was interrupted."""
    with suppress(MeasurementError):
        started = await starting
        await in_thread(lambda: containers.remove(api, started.container))


class DockerEngine:
    """A running container of ours and what follows its log."""

    owned = True

    def __init__(
        self, api: Any, container: str, launch: Launch, *, target: Target, image_digest: str, secrets: Sequence[str]
    ) -> None:
        self.target = target
        self.image_digest: str | None = image_digest
        self._api = api
        self._container = container
        self._log = launch.log
        self._variables = launch.variables
        self._secrets = secrets
        self._stopping = False
        self._following = asyncio.ensure_future(
            in_thread(lambda: containers.follow(api, container, launch.log, secrets))
        )
        self._exit = asyncio.ensure_future(self._wait())

    async def _wait(self) -> End:
        end = await in_thread(lambda: containers.wait(self._api, self._container))
        if not self._stopping:
            await asyncio.sleep(SHUT_DOWN_S)
            await in_thread(self._ping)
        return end

    def _ping(self) -> None:
        with translated("see the container's end"):
            self._api.ping()

    async def ended(self) -> End:
        return await asyncio.shield(self._exit)

    async def stop(self, patience_s: float) -> End:
        """End the container, store its whole log, then remove it. Where the daemon is gone, wait for its return."""
        self._stopping = True
        try:
            return await self._end(patience_s)
        except DaemonGoneError:
            with suppress(NoMoreEnginesError, MeasurementError):  # then the next sweep of this campaign removes it
                await self._clear()
            return End()
        except MeasurementError:
            return End()
        finally:
            for task in (self._exit, self._following):
                task.cancel()
            await asyncio.gather(self._exit, self._following, return_exceptions=True)
            self._api.close()

    async def _end(self, patience_s: float) -> End:
        await in_thread(lambda: containers.stop(self._api, self._container, patience_s))
        end = await self._exit
        try:
            async with asyncio.timeout(LOG_GRACE_S):
                await asyncio.shield(self._following)
        except (TimeoutError, MeasurementError, OSError):
            await in_thread(lambda: containers.store_log(self._api, self._container, self._log, self._secrets))
        await in_thread(lambda: containers.remove(self._api, self._container))
        return end

    async def _clear(self) -> None:
        api = await _daemon(self._variables)
        try:
            await in_thread(lambda: containers.clear(api, self._log.parents[1], self._secrets, lambda _: None))
        finally:
            api.close()

    def owns(self, pid: int) -> bool | None:
        return in_container(pid, self._container)

    def telemetry(self) -> Telemetry:
        return Telemetry()

    def log_size(self) -> int:
        return size_of(self._log)

    def log_text(self) -> str:
        return text_of(self._log)
