"""What counts as a secret, and how it is kept out of everything that is stored or shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

HIDDEN = "[hidden]"
#: A shorter value would also hit ordinary words of a log.
SHORTEST_SECRET = 8

_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(?:^|_)(?:API_?)?KEY(?:_|$)", re.IGNORECASE)
# Parts of names that hold one of those words and speak of settings all the same.
_SETTING_NAME = re.compile(r"TOKENIZERS?|NUM_\w*TOKENS|MAX_\w*TOKENS|TOKENS$", re.IGNORECASE)
_SECRET_FLAG = re.compile(r"(?:^|-)(?:token|key|password|secret)$")
_REFERENCE = re.compile(r"^\$\{\w+\}$")
_SECRET_TEXT = re.compile(
    r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{16,}"
    r"|(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}"
    r"|(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{20,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=--api-key[ =])\S+"
    r"|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"
    r"|(?<![\w.-])[\w.-]+(?=:\d+:\d+ \[\d+\] .{0,60}?NCCL )"  # NCCL begins its lines with the host's name
)


def is_secret_name(name: str) -> bool:
    """Return whether an environment variable of this name is taken to hold a secret."""
    return bool(_SECRET_NAME.search(_SETTING_NAME.sub("", name)))


def literal_secret(name: str, value: str) -> bool:
    """Return whether a plan states a secret itself instead of naming a variable."""
    return is_secret_name(name) and value != "" and not _REFERENCE.match(value)


def stated_secrets(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of a plan's tree where a secret stands itself: by its name, or by its shape."""
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from stated_secrets(value, (*path, key))
    elif node is not None:
        text, name = str(node), str(path[-1]) if path else ""
        named = "environment" in path and literal_secret(name, text)
        flag = "flags" in path and _SECRET_FLAG.search(name) and not _REFERENCE.match(text)
        if named or flag or redact(text) != text:
            yield path


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets of an environment, longest first, always in the same order."""
    found = {v for k, v in environment.items() if is_secret_name(k) and len(v) >= SHORTEST_SECRET}
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text with known secrets and anything shaped like one replaced."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return _SECRET_TEXT.sub(HIDDEN, text)
