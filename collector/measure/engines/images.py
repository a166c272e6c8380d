"""Container images: which one a name means here, and fetching one with its progress told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from collector.measure.engines.daemon import failed, refused, translated

#: A pull of 10 GB takes minutes; a line this often shows that it moves.
TELL_EVERY_S = 10.0
GB = 1e9


def digest_of(api: Any, name: str) -> str | None:
    """Return the digest of an image of this host, None where it is not here.

    The digest is the registry's where there is one, so that others can pull the same; else the image's own id.
    """
    import docker.errors

    with translated(f"look for the image {name}"):
        try:
            image = api.inspect_image(name)
        except docker.errors.ImageNotFound:
            return None
    repository = name.partition("@")[0].rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
    known = {one.partition("@")[0]: one.partition("@")[2] for one in image.get("RepoDigests") or ()}
    return known.get(repository) or next(iter(known.values()), None) or str(image["Id"])


def pull(api: Any, name: str, tell: Callable[[str], None] = lambda _: None) -> None:
    """Fetch an image. Raises MeasurementError with the registry's reason."""
    doing = f"pull the image {name}"
    progress, told_at = Progress(), time.monotonic()
    with translated(doing):
        # Without a tag the daemon would fetch all of them.
        tag = None if "@" in name or ":" in name.rpartition("/")[2] else "latest"
        for event in api.pull(name, tag=tag, stream=True, decode=True):
            if "error" in event:
                raise refused(doing, None, str(event["error"]))
            progress.see(event)
            if time.monotonic() - told_at >= TELL_EVERY_S:
                told_at = time.monotonic()
                tell(f"    pulling {name}: {progress}")


def resolved(api: Any, name: str, pulling: str) -> str:
    """Return the digest of an image, pulling it where `pulling` is `missing`. Raises MeasurementError without one."""
    digest = digest_of(api, name)
    if digest is None and pulling == "missing":
        pull(api, name)
        digest = digest_of(api, name)
    if digest is None:
        raise failed(f"no such image: {name} is not on this host, and the plan says pull: {pulling}")
    return digest


@dataclass(slots=True)
class Progress:
    """How far the layers of an image are, by the events of a pull."""

    layers: dict[str, tuple[int, int]] = field(default_factory=dict)  # bytes here, bytes in all

    def see(self, event: dict[str, Any]) -> None:
        detail, layer = event.get("progressDetail") or {}, event.get("id")
        if layer and event.get("status") == "Downloading" and detail.get("total"):
            self.layers[layer] = (detail.get("current", 0), detail["total"])
        elif layer in self.layers and event.get("status") in ("Download complete", "Pull complete"):
            self.layers[layer] = (self.layers[layer][1], self.layers[layer][1])

    def __str__(self) -> str:
        here, total = (sum(one[index] for one in self.layers.values()) for index in (0, 1))
        return f"{here / GB:.2f} of {total / GB:.2f} GB" if total else "waiting for the registry"
