"""`vllm` in the image of the tests: takes the command line of `vllm serve` and serves the embedded engine.

What vLLM would be told by an environment variable, EMULATE_… tells here: SPEED, FAULTS (words of --fault), EAT_MIB
(host memory to take before anything else) and EXIT (end at once with this code).
"""

from __future__ import annotations

import argparse
import os
import sys

from collector.cli import main
from collector.core.engine_log import EMULATES

MIB = 2**20
PASSED_ON = ("host", "port", "kv-cache-dtype", "tensor-parallel-size", "max-model-len", "max-num-seqs")


def told(name: str) -> str | None:
    return os.environ.get(f"EMULATE_{name}")


def serve(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="vllm")
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("path")
    for name in (*PASSED_ON, "served-model-name", "speculative-config"):
        parser.add_argument(f"--{name}")
    asked, _ = parser.parse_known_args(words)
    arguments = ["emulate", "--model", asked.served_model_name, "--speed", told("SPEED") or "1"]
    for name in (*PASSED_ON, "speculative-config"):
        value = getattr(asked, name.replace("-", "_"))
        arguments += [f"--{name}", value] if value is not None else []
    arguments += ["--nvlink", "off"] if os.environ.get("NCCL_P2P_DISABLE") == "1" else []
    for fault in (told("FAULTS") or "").split():
        arguments += ["--fault", fault]
    return main(arguments)


if __name__ == "__main__":
    print(EMULATES, flush=True)
    if told("EXIT"):
        print("ValueError: told to end at once", flush=True)
        sys.exit(int(told("EXIT") or 1))
    eaten = [b"x" * MIB for _ in range(int(told("EAT_MIB") or 0))]
    sys.exit(serve(sys.argv[1:]))
