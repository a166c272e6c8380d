"""The command line: the flags that the tests use, refused in argparse's words as vLLM refuses them."""

from __future__ import annotations

import argparse
import json
from typing import Any

from tests.fakes.engine.faults import VERSION

BLOCK, BLOCKS = 128, 8192  # of the CPU build, with its 1 GiB for the cache at 1 KiB a token
KV_DTYPES = """auto bfloat16 float16 fp8 fp8_ds_mla fp8_e4m3 fp8_e5m2 fp8_inc fp8_per_token_head
int4_per_token_head int8_per_token_head nvfp4
turboquant_3bit_nc turboquant_4bit_nc turboquant_k3v4_nc turboquant_k8v4"""


def loads(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to {loads}.") from None


def arguments(command: list[str]) -> argparse.Namespace:
    """Parse a command line and add what follows from it: what is set, served names, size of the cache."""
    vllm = argparse.ArgumentParser("vllm")
    vllm.add_argument("-v", "--version", action="version", version=VERSION)
    serve = vllm.add_subparsers(required=True).add_parser("serve", allow_abbrev=False)
    serve.add_argument("model")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--served-model-name", nargs="+")
    serve.add_argument("--max-model-len", type=int, default=4096)
    serve.add_argument("--max-num-seqs", type=int, default=128)
    serve.add_argument("--kv-cache-dtype", choices=KV_DTYPES.split(), default="auto")
    serve.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    serve.add_argument("--speculative-config", "-sc", type=loads)
    serve.add_argument("--gpu-memory-utilization", type=float, default=0.92)
    serve.add_argument("--num-gpu-blocks-override", type=int)
    serve.add_argument("--no-enable-prefix-caching", action="store_true")
    for ignored in ("attention-backend", "revision", "max-num-batched-tokens"):
        serve.add_argument(f"--{ignored}")
    for ignored in ("disable-uvicorn-access-log", "enforce-eager", "disable-custom-all-reduce"):
        serve.add_argument(f"--{ignored}", action="store_true")
    args = vllm.parse_args(command)
    args.non_default = {"model_tag": args.model}
    args.non_default |= {name: value for name, value in vars(args).items() if value != serve.get_default(name)}
    args.names = args.served_model_name or [args.model]
    args.blocks = args.num_gpu_blocks_override or (BLOCKS * 2 if "fp8" in args.kv_cache_dtype else BLOCKS)
    args.kv_tokens = args.blocks * BLOCK
    return args
