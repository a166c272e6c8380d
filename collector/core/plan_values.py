"""Which values a plan may hold where any value fits by shape: switches, flags, environments, speculation."""

from __future__ import annotations

import math
import re
from typing import Any

#: Set by collector itself: a plan that sets them would break the address or blind the measurement.
RESERVED_FLAGS = ("host", "port", "served-model-name", "disable-log-stats", "api-server-count", "api-key")
#: Flags that are factors: as a flag they would escape the columns and the ids.
FACTOR_FLAGS = {
    "model": "models",
    "revision": "models.NAME.revision",
    "kv-cache-dtype": "kv_cache_dtype",
    "tensor-parallel-size": "tensor_parallel",
    "max-model-len": "max_model_len",
    "max-num-seqs": "max_num_seqs",
    "attention-backend": "attention_backend",
    "speculative-config": "speculation",
    "spec-method": "speculation",
    "spec-model": "speculation",
    "spec-tokens": "speculation",
}

#: Names that the site and the data folder give to something else.
RESERVED_CAMPAIGNS = ("index", "published")

_FLAG_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
_VOLUME = re.compile(r"[^:]+:(?:/|\$\{)[^:]*(?::r[ow])?")
_SURROGATE = re.compile("[\ud800-\udfff]")


def campaign_name(value: str) -> str:
    if value in RESERVED_CAMPAIGNS:
        raise ValueError(f"any name but {' and '.join(RESERVED_CAMPAIGNS)}, which data/ and the site use themselves")
    return value


def word_for_switch(value: object) -> object:
    """Read YAML 1.1's booleans as the words they were written as."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


def environment_value(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        # pydantic turns ValueError alone into an error of the plan
        raise ValueError("text or a number; quote the value to pass it as it stands")  # noqa: TRY004
    return value


def speculation(value: object) -> object:
    value = word_for_switch(value)
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return storable(value)
    raise ValueError("allowed: off, a name of `speculation`, or an object for --speculative-config")


def flags(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError("allowed: a mapping of serve flags to true, false, text, number, list or object")  # noqa: TRY004
    for name, setting in value.items():
        if not isinstance(name, str) or not _FLAG_NAME.fullmatch(name):
            raise ValueError(
                f"found the flag {name!r}, allowed: the long name without dashes, as in enforce-eager: true"
            )
        bare = name.split(".")[0]  # vLLM also takes one entry of an object, as in speculative-config.method
        if bare in RESERVED_FLAGS:
            raise ValueError(f"found the flag {name!r}, which collector sets itself; allowed: any other")
        if bare in FACTOR_FLAGS:
            raise ValueError(f"found the flag {name!r}, allowed: the key {FACTOR_FLAGS[bare]!r} instead")
        if setting is None:
            raise ValueError(f"found {name!r} without a value, allowed: true for a bare flag")
    return storable(value)


def storable(value: dict[str, Any]) -> dict[str, Any]:
    """Refuse what ids, commands and stored evidence cannot hold: YAML's dates, sets, tags, numbers as keys."""
    for name, setting in value.items():
        if not _is_json({name: setting}):
            allowed = "true, false, text, finite numbers, lists and mappings of these"
            raise ValueError(f"found {name!r} with {setting!r}, allowed: {allowed}")
    return value


def _is_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(key) and _is_json(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, str):
        return not _SURROGATE.search(value)
    return value is None or (isinstance(value, bool | int | float) and math.isfinite(value))


def gpus(value: object) -> object:
    """Read which GPUs a container gets: a word, or numbers and UUIDs as text."""
    if value in ("all", "none"):
        return value
    if isinstance(value, list) and value and all(isinstance(one, int | str) for one in value):
        return [str(one) for one in value]
    raise ValueError("allowed: all, none, or a list of GPU numbers or UUIDs")


def volume(value: str) -> str:
    if not _VOLUME.fullmatch(value):
        raise ValueError("allowed: SOURCE:TARGET or SOURCE:TARGET:ro, with TARGET an absolute path in the container")
    return value
