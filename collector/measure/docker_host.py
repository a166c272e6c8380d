"""What the Docker daemon of this machine says of itself, for `collector doctor`: does it answer, and hand out GPUs?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from collector.core.doctor.facts import Docker
from collector.core.errors import UserError
from collector.core.secrets import redact
from collector.measure.engines.daemon import connect, translated
from collector.measure.engines.images import digest_of
from collector.measure.failed import MeasurementError


def look(images: Iterable[str], variables: Mapping[str, str]) -> tuple[Docker, Path | None]:
    """Return what the daemon says, and the folder in which it keeps images."""
    try:
        with closing(connect(variables)) as api, translated("ask the Docker daemon"):
            said: dict[str, Any] = api.info()
            missing = tuple(one for one in images if digest_of(api, one) is None)
    except (UserError, MeasurementError) as error:
        return Docker(error=str(error), host=redact(variables.get("DOCKER_HOST", "")) or None), None
    found = Docker(version=said.get("ServerVersion"), gpu_runtime=_hands_out_gpus(said), missing_images=missing)
    return found, Path(said["DockerRootDir"]) if said.get("DockerRootDir") else None


def _hands_out_gpus(said: Mapping[str, Any]) -> bool:
    """NVIDIA's toolkit shows as a runtime of that name or, newer, as devices found through CDI."""
    devices = [str(one.get("ID", "")) for one in said.get("DiscoveredDevices") or ()]
    return "nvidia" in (said.get("Runtimes") or {}) or any(one.startswith("nvidia.com/gpu") for one in devices)
