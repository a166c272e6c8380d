"""What counts as a secret, and how it is kept out of everything that is stored or shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

HIDDEN = "[hidden]"
#: A shorter value would also hit ordinary words of a log.
SHORTEST_SECRET = 8

_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(?:^|_)(?:API_?)?KEY(?:_|$)", re.IGNORECASE)
# Names that hold one of those words and are settings all the same.
_SETTING_NAME = re.compile(r"TOKENIZERS?_|NUM_\w*TOKENS|MAX_\w*TOKENS|TOKENS$", re.IGNORECASE)
_REFERENCE = re.compile(r"^\$\{\w+\}$")
_SECRET_TEXT = re.compile(
    r"hf_[A-Za-z0-9]{16,}"
    r"|sk-[A-Za-z0-9_-]{20,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=--api-key[ =])\S+"
    r"|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"
)


def is_secret_name(name: str) -> bool:
    """Return whether an environment variable of this name is taken to hold a secret."""
    return bool(_SECRET_NAME.search(name)) and not _SETTING_NAME.search(name)


def literal_secret(name: str, value: str) -> bool:
    """Return whether a plan states a secret itself instead of naming a variable."""
    return is_secret_name(name) and value != "" and not _REFERENCE.match(value)


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets of an environment, longest first."""
    found = {v for k, v in environment.items() if is_secret_name(k) and len(v) >= SHORTEST_SECRET}
    return tuple(sorted(found, key=len, reverse=True))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text with known secrets and anything shaped like one replaced."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return _SECRET_TEXT.sub(HIDDEN, text)
