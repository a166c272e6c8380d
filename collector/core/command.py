"""The exact `vllm serve` command of a configuration (flag spellings of vLLM 0.27.0)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from collector.core.configuration import Configuration
from collector.core.errors import PlanError
from collector.core.secrets import HIDDEN, is_secret_name, redact

LOOPBACK = "127.0.0.1"
#: Quiet, uncoloured logs that the diagnosis can read; a plan may set them otherwise.
BASE_ENVIRONMENT = {
    "VLLM_LOGGING_COLOR": "0",
    "VLLM_DISABLE_LOG_LOGO": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # NCCL then states, once a start, over which way its channels go; what it prints of the network stays out.
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "P2P,SHM",
}

#: A variable that is left for whoever runs the command.
VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}", re.ASCII)
#: What means something to a shell inside double quotes, but for a variable as above.
_ACTIVE = re.compile(r'[\\"`]|\$(?!\{[A-Za-z_]\w*\})', re.ASCII)


def expander(variables: Mapping[str, str], where: str) -> Callable[[str], str]:
    """Return a function that replaces ${NAME} by the variable's value. Raises PlanError where it is not set."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in variables:
            raise PlanError(f"{where}: ${{{name}}} is not set; export {name} before the sweep")
        return variables[name]

    return lambda text: VARIABLE.sub(value, text)


def unchanged(text: str) -> str:
    return text


def serve_arguments(
    configuration: Configuration, *, port: int, host: str = LOOPBACK, expand: Callable[[str], str] = unchanged
) -> list[str]:
    """Return the arguments after the program: `serve MODEL --host … `."""
    c = configuration
    arguments = ["serve", expand(c.model_path), "--host", host, "--port", str(port)]
    arguments += ["--served-model-name", c.model, "--kv-cache-dtype", c.kv_cache_dtype]
    arguments += ["--tensor-parallel-size", str(c.tensor_parallel)]
    optional = {
        "revision": c.model_revision,
        "max-model-len": c.max_model_len,
        "max-num-seqs": c.max_num_seqs,
        "attention-backend": c.attention_backend,
        "speculative-config": c.speculative_config,
    }
    for name, value in optional.items():
        if value is not None:
            arguments += [f"--{name}", expand(str(value))]
    arguments += ["--disable-uvicorn-access-log"]
    return arguments + [expand(one) for one in flag_arguments(dict(c.flags))]


def flag_arguments(flags: Mapping[str, Any]) -> list[str]:
    """Return flags as arguments: true is bare, false is --no-…, a list has several values, an object is JSON."""
    arguments: list[str] = []
    for name, value in flags.items():
        if value is True:
            arguments.append(f"--{name}")
        elif value is False:
            arguments.append(f"--no-{name}")
        elif isinstance(value, list):
            arguments += [f"--{name}", *map(str, value)]
        elif isinstance(value, dict):
            arguments += [f"--{name}", json.dumps(value, sort_keys=True, separators=(",", ":"))]
        else:
            arguments += [f"--{name}", str(value)]
    return arguments


def engine_environment(configuration: Configuration, expand: Callable[[str], str] = unchanged) -> dict[str, str]:
    return BASE_ENVIRONMENT | {name: expand(value) for name, value in configuration.environment}


def shown_command(configuration: Configuration, command: list[str], port: int | None) -> str:
    """Return the command as a person would paste it, secrets hidden, ${NAME} left for the shell."""
    words = [f"{name}={quote(value)}" for name, value in sorted(shown_environment(configuration).items())]
    words += [quote(one) for one in command]
    arguments = serve_arguments(configuration, port=port or 0)
    if port is None:
        arguments[arguments.index("--port") + 1] = "PORT"
    return redact(" ".join(words + [quote(one) for one in arguments]))


def shown_environment(configuration: Configuration) -> dict[str, str]:
    return {
        name: HIDDEN if is_secret_name(name) and not value.startswith("${") else value
        for name, value in configuration.environment
    }


def quote(word: str) -> str:
    """Quote for the shell, but let it expand ${NAME}, whatever stands in the variable."""
    if not VARIABLE.search(word):
        return shlex.quote(word)
    return '"' + _ACTIVE.sub(r"\\\g<0>", word) + '"'
