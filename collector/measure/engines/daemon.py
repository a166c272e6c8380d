"""The Docker daemon of this machine: which one, how it is reached, and its errors as ours.

`docker` is imported where it is used: it costs every other command as much as all the rest together.
"""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from collector.core.errors import UserError
from collector.core.secrets import redact
from collector.measure.failed import MeasurementError

DEFAULT_SOCKET = "unix:///var/run/docker.sock"
#: For one answer of the daemon. It makes a container of a large image in seconds, on a busy disk in tens of them.
API_TIMEOUT_S = 120
LONGEST_CAUSE = 400

Result = TypeVar("Result")


class DaemonGoneError(MeasurementError):
    """Nobody answers on the daemon's socket."""


def address_of(variables: Mapping[str, str]) -> str:
    """Return the socket of the local daemon. Raises UserError for one of another machine."""
    address = variables.get("DOCKER_HOST") or DEFAULT_SOCKET
    parts, found = urlsplit(address), f"DOCKER_HOST: found {redact(address)}"
    socket_here = "a socket of this one, such as unix:///run/user/1000/docker.sock for rootless Docker"
    if "://" in address and parts.scheme != "unix":
        raise UserError(
            f"{found}, which may be another machine; its GPUs, its links and its clocks could not be seen from here. "
            f"Run collector on that machine, or name {socket_here}"
        )
    if not parts.scheme or not parts.path.startswith("/"):
        raise UserError(f"{found}, expected the address of {socket_here}")
    return address


def connect(variables: Mapping[str, str]) -> Any:
    """Return the API client of the local daemon. Raises UserError for a remote one, MeasurementError for none."""
    import docker

    address = address_of(variables)
    doing = f"reach the Docker daemon at {address}"
    try:
        with socket.socket(socket.AF_UNIX) as probe:  # the package leaves a socket open that it could not connect
            probe.connect(urlsplit(address).path)
    except OSError as error:
        raise _gone(doing, error) from error
    with translated(doing):
        return docker.APIClient(base_url=address, version="auto", timeout=API_TIMEOUT_S)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn the errors of the API into MeasurementError: category, cause and whether another time may go well."""
    import docker.errors
    import requests.exceptions
    import urllib3.exceptions

    try:
        yield
    except docker.errors.APIError as error:
        raise refused(doing, error.status_code, str(error.explanation or error)) from error
    except (requests.exceptions.Timeout, urllib3.exceptions.ReadTimeoutError) as error:
        cause = f"cannot {doing}: the daemon did not answer within {API_TIMEOUT_S} s; look at its log and its disk"
        raise failed(cause) from error
    except (
        docker.errors.DockerException,
        requests.exceptions.RequestException,
        urllib3.exceptions.HTTPError,
        http.client.HTTPException,
        ConnectionError,  # and no other OSError: a full disk is not the daemon's
    ) as error:
        if any(isinstance(one, TimeoutError) for one in _roots(error)):
            raise failed(f"cannot {doing}: the daemon did not answer within {API_TIMEOUT_S} s") from error
        raise _gone(doing, error) from error


#: Words of the daemon, what they come to, and what to do. The first that fits; retryable throughout, since each is a
#: fault of the host and not a property of the configuration.
_REFUSALS = (
    (("port is already allocated", "address already in use", "failed to bind"), "port_in_use", "free it"),
    (
        ("could not select device driver", "nvidia-container-runtime-hook", "unresolvable cdi devices"),
        "container",
        "the daemon has no NVIDIA runtime: install nvidia-container-toolkit and restart it, or say gpus: none",
    ),
    (
        ("nvidia-container-cli", "nvml error", "libnvidia-ml"),
        "container",
        "the NVIDIA runtime finds no working driver or no such GPU: see that nvidia-smi works on the host",
    ),
    (("no space left",), "container", "free disk space where the daemon keeps its images"),
    (("executable file not found", "no such file or directory"), "container", "see engine.command and the volumes"),
    (
        ("no such image", "not found: manifest", "manifest unknown", "manifest for", "pull access denied"),
        "container",
        "see the image's name, `docker login`, or load it with `docker load`",
    ),
    (
        (
            "no such host",
            "i/o timeout",
            "connection refused",
            "dial tcp",
            "tls handshake",
            "unable to pull",
            "request canceled",
        ),
        "container",
        "the registry cannot be reached: load the image with `docker load`, or pull it when there is a network",
    ),
    (("no such container",), "container", "somebody else removed it"),
)


def refused(doing: str, status: int | None, words: str) -> MeasurementError:
    """Return what an error that the daemon answered comes to."""
    told = " ".join(words.split())[:LONGEST_CAUSE]
    for fragments, category, fix in _REFUSALS:
        if any(one in words.lower() for one in fragments):
            return failed(f"cannot {doing}: {told}; {fix}", category)
    return failed(f"cannot {doing}: the daemon answers {status}: {told}")


def failed(cause: str, category: str = "container") -> MeasurementError:
    return MeasurementError(category=category, phase="launch", cause=cause, retryable=True)


def _gone(doing: str, error: BaseException) -> DaemonGoneError:
    cause = f"cannot {doing}: {_why_gone(error)}"
    return DaemonGoneError(category="container", phase="launch", cause=cause, retryable=True)


def _why_gone(error: BaseException) -> str:
    numbers = {one.errno for one in _roots(error) if isinstance(one, OSError)}
    if numbers & {errno.EACCES, errno.EPERM}:
        return "permission denied; join the group docker (and log in anew), or use rootless Docker"
    if errno.ENOENT in numbers:
        return "no socket is there; install and start Docker, or name in DOCKER_HOST the socket that it has"
    if numbers & {errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE}:
        return "no daemon answers there; start it (systemctl start docker)"
    return f"the daemon is gone: {' '.join(str(error).split())[:LONGEST_CAUSE]}"


def _roots(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that it was raised from; requests keeps some of it in the arguments."""
    seen, waiting = set[int](), [error]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [two for two in (one.__cause__, one.__context__, *one.args) if isinstance(two, BaseException)]


async def in_thread(work: Callable[[], Result]) -> Result:
    """Do blocking work beside the event loop. Cancelled, it goes on by itself and keeps no program from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]  # what the work returned
        else:
            future.set_exception(error)

    def run() -> None:
        try:
            outcome: tuple[Result | None, BaseException | None] = (work(), None)
        except BaseException as error:  # it is raised where it is awaited
            outcome = (None, error)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True, name="docker").start()
    return await future
