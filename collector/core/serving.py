"""A configuration as files to paste: a shell command, a compose file, and a config file of `vllm serve`.

The values are those of a measured row, so that what is pasted is what was measured. What no column holds (the
environment, an attention backend that the plan asked for) comes from the plan where it is stored. Host, port and
request logging are the operator's, and no part of a measurement.
"""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from collector.core.command import VARIABLE, quote
from collector.core.configuration import Configuration
from collector.core.container import ALL, NONE, Mount, ipc_of, mounts_of
from collector.core.errors import DataError
from collector.core.plan_schema import Container
from collector.core.rows import Row
from collector.core.secrets import HIDDEN, is_secret_name

#: The engine's own image, for rows of an engine that ran in no container.
IMAGE = "vllm/vllm-openai"
BY_DIGEST = "@sha256:"
PORT = 8000

#: Keys that no YAML takes for anything else than a text: the longer names of options and of compose.
_PLAIN_KEY = re.compile(
    r"[a-z]{2,}[-_][a-z-_]+|services|vllm|image|entrypoint|command|environment|ports|ipc|volumes|type|"
    r"source|target|deploy|resources|reservations|devices|driver|count|capabilities|name|model|revision"
)
_DOLLAR = re.compile(r"\$(?!\{[A-Za-z_]\w*\})", re.ASCII)
#: YAML breaks lines at this width; a value of ours is never that long.
_UNBROKEN = 1 << 20

Options = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What no column of a row holds, from its plan. `container`: of an engine in none, what the defaults are."""

    configuration: Configuration
    container: Container


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """What to start. `options`: names without dashes, each with its values; none is a bare flag."""

    path: str
    options: Options
    environment: tuple[tuple[str, str], ...]
    image: str
    gpus: int
    container: Container
    configuration_id: str

    @property
    def arguments(self) -> list[str]:
        """Return what stands after `vllm serve`."""
        return [self.path, *(word for name, values in self.options for word in _words(name, values))]

    def option(self, name: str) -> str | None:
        """Return the value of an option that has one."""
        return next((values[0] for known, values in self.options if known == name and values), None)


def serving_of(
    row: Row,
    asked: Asked | None = None,
    *,
    max_num_seqs: int | None = None,
    speculative_config: str | None = None,
) -> Serving:
    """Return what a row was measured with; the last two replace what the row has.

    Raises DataError where the row's flags cannot be told apart.
    """
    limit = row.max_num_seqs if max_num_seqs is None else max_num_seqs
    configuration = asked.configuration if asked else None
    options = {
        "served-model-name": row.model,
        "revision": row.model_revision,
        "kv-cache-dtype": row.kv_cache_dtype,
        "tensor-parallel-size": row.tensor_parallel,
        "max-model-len": row.max_model_len,
        "max-num-seqs": limit,
        "attention-backend": configuration.attention_backend if configuration else None,
        "speculative-config": speculative_config or row.speculative_config,
    }
    stated = tuple((name, (str(value),)) for name, value in options.items() if value is not None)
    return Serving(
        path=row.model_path,
        options=stated + _extra(row),
        environment=_environment(row, configuration),
        image=_image(row),
        gpus=row.tensor_parallel if row.gpu_model else 0,
        container=asked.container if asked else Container(),
        configuration_id=row.configuration_id,
    )


def _image(row: Row) -> str:
    """Return the image that ran, by its digest where that is known."""
    image = row.image or f"{IMAGE}:v{row.engine_version}"
    if row.image_digest is None or "@" in image:
        return image
    name, colon, tag = image.rpartition(":")
    return f"{name if colon and '/' not in tag else image}@{row.image_digest}"


def _words(name: str, values: tuple[str, ...]) -> list[str]:
    """Return an option as words; a value that looks like an option is tied to its name."""
    if len(values) == 1 and values[0].startswith("-"):
        return [f"--{name}={values[0]}"]
    return [f"--{name}", *values]


def _extra(row: Row) -> Options:
    try:
        words = shlex.split(row.extra_flags or "")
    except ValueError as error:
        raise DataError(f"row {row.row_id}, column extra_flags: {error}; found {row.extra_flags!r}") from error
    found: list[tuple[str, tuple[str, ...]]] = []
    for word in words:
        if word.startswith("--"):
            name, given, value = word[2:].partition("=")
            found.append((name, (value,) if given else ()))
        elif found:
            found[-1] = (found[-1][0], (*found[-1][1], word))
    return tuple(found)


def _environment(row: Row, configuration: Configuration | None) -> tuple[tuple[str, str], ...]:
    """Return the plan's variables, a secret as a reference; without the plan only what NVLink off needs."""
    if configuration is None:
        return (("NCCL_P2P_DISABLE", "1"),) if row.nvlink == "off" else ()
    return tuple(
        (name, f"${{{name}}}" if is_secret_name(name) or value == HIDDEN else value)
        for name, value in configuration.environment
    )


def command_text(serving: Serving, about: Iterable[str] = ()) -> str:
    """Return a shell script: one option a line, ${NAME} left for the shell."""
    start = [f"{name}={quote(value)}" for name, value in serving.environment]
    words = [" ".join([*start, "vllm", "serve", quote(serving.path)])]
    words += option_lines(serving)
    required = "".join(f': "${{{name}:?not set}}"\n' for name in variables(serving))
    return _comment(about) + required + " \\\n  ".join(words) + "\n"


def option_lines(serving: Serving, names: Iterable[str] | None = None) -> list[str]:
    """Return options as a shell takes them, one a line: all of them, or those of these names."""
    kept = None if names is None else set(names)
    return [
        " ".join(map(quote, _words(name, values))) for name, values in serving.options if kept is None or name in kept
    ]


def variables(serving: Serving) -> tuple[str, ...]:
    """Return the names of the plan's variables that are left for whoever pastes it."""
    texts = (*serving.arguments, *dict(serving.environment).values())
    return tuple(dict.fromkeys(name for text in texts for name in VARIABLE.findall(text)))


def config_text(serving: Serving, about: Iterable[str] = ()) -> str:
    """Return the file for `vllm serve --config FILE`. vLLM reads it with YAML 1.1 and expands no variables."""
    config: dict[str, Any] = {"model": serving.path}
    for name, values in serving.options:
        config[name] = True if not values else list(values) if len(values) > 1 else _number_or_text(values[0])
    return _comment(about) + _yaml(config)


def _number_or_text(value: str) -> int | str:
    return int(value) if value.isdecimal() and str(int(value)) == value else value


def compose_text(serving: Serving, about: Iterable[str] = ()) -> str:
    """Return a compose file with the same arguments. A variable that is not set stops `docker compose` with its name.

    It listens on this host alone. Folders and shared memory, which the workers exchange data in, are the sweep's.
    """
    container = serving.container
    drafter = json.loads(serving.option("speculative-config") or "{}").get("model")
    mounts = mounts_of(container, [one for one in (serving.path, drafter) if isinstance(one, str)])
    named = {one.source: {"name": one.source} for one in mounts if not one.is_path}
    service: dict[str, Any] = {
        "image": serving.image,
        "entrypoint": ["vllm", "serve"],
        "command": serving.arguments,
        "environment": dict(serving.environment),
        "ports": [f"127.0.0.1:{PORT}:{PORT}"],
        "ipc": ipc_of(container),
        "shm_size": container.shm_size or "",
        "volumes": [_volume(one) for one in mounts],
        "deploy": _cards(serving),
    }
    told = {name: value for name, value in service.items() if value not in ({}, [], "")}
    return _comment(about) + _yaml(_interpolated({"services": {"vllm": told}} | ({"volumes": named} if named else {})))


def _volume(mount: Mount) -> dict[str, Any]:
    found = {"type": "bind" if mount.is_path else "volume", "source": mount.source, "target": mount.target}
    return found | ({"read_only": True} if mount.read_only else {})


def _cards(serving: Serving) -> dict[str, Any]:
    if not serving.gpus or serving.container.gpus == NONE:
        return {}
    of_all = serving.container.gpus == ALL
    which = {"count": serving.gpus} if of_all else {"device_ids": list(serving.container.gpus)}
    device = {"driver": "nvidia", **which, "capabilities": ["gpu"]}
    return {"resources": {"reservations": {"devices": [device]}}}


def _interpolated(node: Any) -> Any:
    """Write every text as `docker compose` must find it: a dollar doubled, a variable required."""
    if isinstance(node, Mapping):
        return {name: _interpolated(value) for name, value in node.items()}
    if isinstance(node, list):
        return [_interpolated(one) for one in node]
    if not isinstance(node, str):
        return node
    return VARIABLE.sub(r"${\1:?not set}", _DOLLAR.sub("$$", node))


def _yaml(content: Mapping[str, Any]) -> str:
    yaml = YAML(typ="rt", pure=True)
    yaml.width = _UNBROKEN
    stream = io.StringIO()
    yaml.dump(_quoted_texts(content), stream)
    return stream.getvalue()


def _quoted_texts(node: Any) -> Any:
    """Quote every text: `off`, `1e3` and the like are no texts to a reader of YAML 1.1."""
    if isinstance(node, Mapping):
        return {
            name if _PLAIN_KEY.fullmatch(name) else _text(name): _quoted_texts(value) for name, value in node.items()
        }
    if isinstance(node, list):
        return [_quoted_texts(one) for one in node]
    return _text(node) if isinstance(node, str) else node


def _text(value: str) -> DoubleQuotedScalarString:
    text: DoubleQuotedScalarString = DoubleQuotedScalarString(value)
    return text


def _comment(lines: Iterable[str]) -> str:
    """Return comment lines; what cannot be seen in a line is left out of it, so that none becomes a line of its own."""
    shown = ("".join(sign if sign.isprintable() else " " for sign in line) for line in lines)
    return "".join(f"# {line}\n" for line in shown)
