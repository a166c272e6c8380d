"""The container of a configuration: image, program, folders and devices, and the `docker run` that is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from collector.core.command import (
    LOOPBACK,
    engine_environment,
    quote,
    serve_arguments,
    shown_environment,
    unchanged,
)
from collector.core.configuration import Configuration
from collector.core.plan_schema import Container, Engine
from collector.core.secrets import redact

#: Where the engine listens in its container; it is published on the loopback address of the host alone.
PORT = 8000
EVERYWHERE = "0.0.0.0"  # noqa: S104  # of the container's own network
#: A repository of the hub's cache keeps its files beside its snapshots and links to them.
_SNAPSHOTS = "snapshots"
ALL, NONE = "all", "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    source: str  # a folder or file of the host, or the name of a volume
    target: str
    read_only: bool

    @property
    def is_path(self) -> bool:
        return self.source.startswith(("/", "${"))


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerSpec:
    """All that a container is made of. `port`: the host's; None lets the daemon choose one."""

    image: str
    program: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    gpus: str | tuple[str, ...]
    ipc: str
    shm_size: str | None
    memory: str | None
    port: int | None
    labels: Mapping[str, str] = field(default_factory=dict)


def container_spec(
    configuration: Configuration,
    engine: Engine,
    *,
    expand: Callable[[str], str] = unchanged,
    labels: Mapping[str, str] | None = None,
) -> ContainerSpec:
    """Return what runs a configuration. `expand` replaces ${NAME}."""
    host = engine.container
    return ContainerSpec(
        image=configuration.image or "",
        program=tuple(map(expand, engine.command)),
        arguments=tuple(serve_arguments(configuration, port=PORT, host=EVERYWHERE, expand=expand)),
        environment=engine_environment(configuration, expand),
        mounts=mounts_of(host, (configuration.model_path, configuration.drafter), expand),
        gpus=host.gpus if isinstance(host.gpus, str) else tuple(host.gpus),
        ipc=ipc_of(host),
        shm_size=host.shm_size,
        memory=host.memory,
        port=engine.port,
        labels=labels or {},
    )


def mounts_of(
    container: Container, models: Iterable[str | None], expand: Callable[[str], str] = unchanged
) -> tuple[Mount, ...]:
    """Return the plan's volumes, and the folders of model and drafter where no volume holds them."""
    found = [_volume(expand(one)) for one in container.volumes]
    for text in filter(None, models):
        path = PurePosixPath(expand(text))
        if path.parent.name == _SNAPSHOTS:
            path = path.parent.parent
        mount = Mount(source=str(path), target=str(path), read_only=True)
        if mount.is_path and not any(path.is_relative_to(one.target) for one in found):
            found.append(mount)
    return tuple(found)


def ipc_of(container: Container) -> str:
    return container.ipc or ("private" if container.shm_size else "host")


def _volume(text: str) -> Mount:
    source, target, *mode = text.split(":")
    return Mount(source=source, target=target, read_only=mode == ["ro"])


def shown_run(configuration: Configuration, engine: Engine) -> str:
    """Return the `docker run` that a person would paste for the same engine, secrets hidden, ${NAME} left."""
    spec = container_spec(configuration, engine)
    words = ["docker", "run", *map(quote, _options(spec))]
    for name, value in sorted(shown_environment(configuration).items()):
        words += ["--env", f"{name}={quote(value)}"]
    words += [quote(one) for one in ("--entrypoint", spec.program[0], spec.image or "IMAGE")]
    return redact(" ".join(words + [quote(one) for one in (*spec.program[1:], *spec.arguments)]))


def _options(spec: ContainerSpec) -> Iterator[str]:
    if spec.gpus == ALL:
        yield from ("--gpus", ALL)
    elif spec.gpus != NONE:
        yield from ("--gpus", f'"device={",".join(spec.gpus)}"')
    yield from ("--ipc", spec.ipc)
    if spec.shm_size:
        yield from ("--shm-size", spec.shm_size)
    if spec.memory:
        yield from ("--memory", spec.memory, "--memory-swap", spec.memory)
    for one in spec.mounts:
        yield from ("--volume", f"{one.source}:{one.target}{':ro' if one.read_only else ''}")
    yield from ("--publish", f"{LOOPBACK}:{spec.port or ''}:{PORT}")
