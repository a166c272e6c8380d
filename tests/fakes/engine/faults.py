"""The FAKE_ variables of the environment, which tests/fakes/vllm.py lists."""

from __future__ import annotations

import os
import sys


def setting(name: str, default: str) -> str:
    return os.environ.get(f"FAKE_{name}", default)


def text(name: str) -> str:
    """Return a fault's value: empty where it is unset, or FAKE_ONLY_IF names another command line."""
    return setting(name, "") if setting("ONLY_IF", "") in " ".join(sys.argv[1:]) else ""


def number(name: str) -> float:
    return float(text(name) or 0)


VERSION = setting("VLLM_VERSION", "0.27.0")
