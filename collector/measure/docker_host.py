"""What the Docker daemon says of itself, for `collector doctor`: is it there, and does it hand out GPUs?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from requests.exceptions import RequestException

from collector.core.doctor.facts import Docker

#: A daemon on this host answers at once.
PATIENCE_S = 5


def look(images: Iterable[str]) -> tuple[Docker, Path | None]:
    """Return what the daemon says, and the folder in which it keeps images."""
    try:
        with closing(docker.from_env(timeout=PATIENCE_S)) as client:
            said: dict[str, Any] = client.info()
            missing = tuple(one for one in images if not _has(client, one))
    except (DockerException, RequestException) as error:
        return Docker(error=f"the Docker daemon does not answer: {_cause(error)}"), None
    found = Docker(version=said.get("ServerVersion"), gpu_runtime=_hands_out_gpus(said), missing_images=missing)
    return found, Path(said["DockerRootDir"]) if said.get("DockerRootDir") else None


def _has(client: docker.DockerClient, image: str) -> bool:
    try:
        client.images.get(image)
    except ImageNotFound:
        return False
    return True


def _hands_out_gpus(said: dict[str, Any]) -> bool:
    """NVIDIA's toolkit shows as a runtime of that name or, newer, as devices found through CDI."""
    devices = [str(one.get("ID", "")) for one in said.get("DiscoveredDevices") or ()]
    return "nvidia" in (said.get("Runtimes") or {}) or any(one.startswith("nvidia.com/gpu") for one in devices)


def _cause(error: Exception) -> str:
    """Return the innermost reason: docker-py wraps what the system said several times."""
    if isinstance(error, APIError) and error.explanation:
        return str(error.explanation)
    found = re.findall(r"(?:Errno \d+\] |Error\(\d+, '|PermissionError\(\d+, ')([A-Z][^'\")\]]+)", str(error))
    return found[-1] if found else str(error)
