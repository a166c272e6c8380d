"""Containers of ours: made of a spec, marked by labels, ended with their log stored.

Only what carries the labels of this campaign is ever stopped or removed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.core.command import LOOPBACK
from collector.core.container import ALL, NONE, PORT, ContainerSpec
from collector.measure.engines.daemon import failed, translated
from collector.measure.engines.interface import End
from collector.measure.failed import MeasurementError
from collector.measure.files import start_log, write_atomically
from collector.measure.log_copy import copy_log

TOOL = "collector.campaign"
#: Which folder a container belongs to: two campaigns of one name may run side by side.
FOLDER = "collector.campaign-folder"
CONFIGURATION, REPEAT, ATTEMPT = "collector.configuration", "collector.repeat", "collector.attempt"
#: A container that is being removed is gone within this, or the daemon has a problem.
REMOVAL_S = 30.0
POLL_S = 0.1
#: A program that ended at once has given its port back, and whoever has it now must not be asked in its place.
NOBODY = 1
#: Codes above are 128 and the number of the signal that ended the program.
SIGNALLED = 128
LAST_SIGNAL = 64


def labels_of(campaign: Path) -> dict[str, str]:
    """Return the labels that all containers of a campaign's folder carry."""
    place = hashlib.sha256(str(campaign.resolve()).encode()).hexdigest()[:16]
    return {TOOL: campaign.name, FOLDER: place}


def start_labels(campaign: Path, configuration_id: str, repeat: int, attempt: int) -> dict[str, str]:
    return labels_of(campaign) | {CONFIGURATION: configuration_id, REPEAT: str(repeat), ATTEMPT: str(attempt)}


def _name(labels: Mapping[str, str]) -> str:
    place = [labels[one] for one in (TOOL, CONFIGURATION)]
    return "-".join(("collector", *place, f"r{labels[REPEAT]}", f"a{labels[ATTEMPT]}", labels[FOLDER]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    container: str  # its id
    port: int  # of the host


def run(api: Any, spec: ContainerSpec) -> Started:
    """Make and start a container. Raises MeasurementError; then none is left."""
    with translated(f"make a container of {spec.image}"):
        container = str(_create(api, spec)["Id"])
    try:
        with translated(f"start a container of {spec.image}"):
            api.start(container)
            ports = api.inspect_container(container)["NetworkSettings"]["Ports"].get(f"{PORT}/tcp")
        return Started(container=container, port=int(ports[0]["HostPort"]) if ports else NOBODY)
    except BaseException:
        with suppress(MeasurementError):  # the first error is the one to tell
            remove(api, container)
        raise


def _create(api: Any, spec: ContainerSpec) -> dict[str, Any]:
    from docker.types import DeviceRequest, LogConfig, Mount

    devices = []
    if spec.gpus == ALL:
        devices = [DeviceRequest(count=-1, capabilities=[["gpu"]])]
    elif spec.gpus != NONE:
        devices = [DeviceRequest(device_ids=list(spec.gpus), capabilities=[["gpu"]])]
    mounts = [
        Mount(one.target, one.source, type="bind" if one.is_path else "volume", read_only=one.read_only)
        for one in spec.mounts
    ]
    host = api.create_host_config(
        port_bindings={PORT: (LOOPBACK, spec.port)},
        mounts=mounts,
        device_requests=devices,
        ipc_mode=spec.ipc,
        shm_size=spec.shm_size,
        mem_limit=spec.memory,
        memswap_limit=spec.memory,  # no more than the memory: a host that swaps measures nothing
        # Whatever driver the host prefers: the whole log must be read back.
        log_config=LogConfig(type=LogConfig.types.JSON),
    )
    made: dict[str, Any] = api.create_container(
        image=spec.image,
        name=_name(spec.labels),
        entrypoint=[spec.program[0]],
        command=[*spec.program[1:], *spec.arguments],
        environment=dict(spec.environment),
        labels=dict(spec.labels),
        ports=[PORT],
        host_config=host,
    )
    return made


def wait(api: Any, container: str) -> End:
    """Wait, however long, until a container has ended; return how. Raises MeasurementError where nobody can tell."""
    with translated("wait for the container"):
        api.wait(container, timeout=None)
        return end_of(api.inspect_container(container)["State"])


def end_of(state: Mapping[str, Any]) -> End:
    code = int(state["ExitCode"])
    number = code - SIGNALLED
    signal = number if 0 < number <= LAST_SIGNAL else None
    return End(exit_code=code, exit_signal=signal, oom_killed=bool(state["OOMKilled"]))


def stop(api: Any, container: str, patience_s: float) -> None:
    """Ask a container to end, and kill it when its time is up."""
    with translated("stop the container"):
        api.stop(container, timeout=max(1, round(patience_s)))


def follow(api: Any, container: str, log: Path, secrets: Sequence[str]) -> None:
    """Copy the log while it is written; returns when the container has ended."""
    with translated("read the container's log"), log.open("ab", buffering=0) as file:
        copy_log(api.logs(container, stream=True, follow=True), file.write, secrets)


def store_log(api: Any, container: str, log: Path, secrets: Sequence[str]) -> None:
    """Store the whole log of a container that has ended."""
    parts: list[bytes] = []
    with translated("read the container's log"):
        copy_log(api.logs(container, stream=True, follow=False), parts.append, secrets)
    log.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(log, b"".join(parts))


def remove(api: Any, container: str) -> None:
    """Remove a container, running or not, with its anonymous volumes; return when it is gone."""
    import docker.errors

    with translated("remove the container"):
        deadline = time.monotonic() + REMOVAL_S
        while True:
            try:
                api.remove_container(container, force=True, v=True)
            except docker.errors.NotFound:
                return
            except docker.errors.APIError as error:
                if error.status_code != 409:  # its removal is in progress
                    raise
            if time.monotonic() >= deadline:
                raise failed(f"the container {container[:12]} could not be removed within {REMOVAL_S:g} s")
            time.sleep(POLL_S)


def clear(api: Any, campaign: Path, secrets: Sequence[str], tell: Callable[[str], None]) -> None:
    """End and remove what an earlier sweep of this campaign left, its log stored."""
    marks = [f"{name}={value}" for name, value in labels_of(campaign).items()]
    with translated("list the containers of this campaign"):
        found = api.containers(all=True, filters={"label": marks})
    for one in found:
        names = [one["Labels"].get(name, "unknown") for name in (CONFIGURATION, REPEAT, ATTEMPT)]
        with suppress(MeasurementError), translated("end the container"):
            api.kill(one["Id"])
        with suppress(MeasurementError):
            store_log(api, one["Id"], campaign / "logs" / start_log(*names), secrets)
        remove(api, one["Id"])
        tell(f"removed a container that an earlier sweep left: {one['Names'][0].lstrip('/')}")
