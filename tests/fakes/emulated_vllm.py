#!/usr/bin/env python3
"""`vllm serve` by the embedded engine on a port: the flags of a start become those of `collector emulate`.

    python tests/fakes/emulated_vllm.py serve PATH --port 8000 --served-model-name exaone-4.5-33b ...

EMULATE_SPEED is how many of its seconds pass in one.
"""

import argparse
import os
import sys

from collector.cli import main

_PASSED = ("port", "kv-cache-dtype", "tensor-parallel-size", "max-model-len", "max-num-seqs", "speculative-config")


def translated(arguments: list[str]) -> list[str]:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=("serve",))
    parser.add_argument("path")
    parser.add_argument("--served-model-name", required=True)
    for name in _PASSED:
        parser.add_argument(f"--{name}")
    known, _ = parser.parse_known_args(arguments)
    passed = [f"--{name}={value}" for name in _PASSED if (value := getattr(known, name.replace("-", "_"))) is not None]
    nvlink = "off" if os.environ.get("NCCL_P2P_DISABLE") == "1" else "on"
    speed = os.environ.get("EMULATE_SPEED", "1")
    return ["emulate", f"--model={known.served_model_name}", f"--nvlink={nvlink}", f"--speed={speed}", *passed]


if __name__ == "__main__":
    sys.exit(main(translated(sys.argv[1:])))
