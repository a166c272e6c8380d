"""`collector emulate`: serve the embedded engine on a port of this machine, for any client."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import signal
import sys
import time
from typing import Any

from collector.core.errors import UserError
from collector.core.speculative import check_speculation

LOOPBACK = "127.0.0.1"
#: Whoever follows the log, such as a container's daemon, sees a line after at most this.
LOG_EVERY_S = 0.2
#: Least and most that an argument may be; the system picks a port for 0.
_BOUNDS = {
    "port": (0, 65535),
    "tensor_parallel_size": (1, math.inf),
    "max_model_len": (1, math.inf),
    "max_num_seqs": (1, math.inf),
}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("emulate", help="serve the embedded engine on a port, for real clients")
    parser.add_argument("--profile", default="dual-3090", help="a shipped profile or a .json file (default: dual-3090)")
    parser.add_argument("--model", help="model of the profile to serve (default: its first)")
    parser.add_argument(
        "--host", default=LOOPBACK, help=f"address to serve on, 0.0.0.0 in a container (default: {LOOPBACK})"
    )
    parser.add_argument("--port", type=int, default=8000, help="port to serve on (default: 8000)")
    parser.add_argument("--kv-cache-dtype", default="auto")
    parser.add_argument("--speculative-config", metavar="JSON", help="as vLLM takes it")
    parser.add_argument("--nvlink", choices=("on", "off"), default="on")
    parser.add_argument("--tensor-parallel-size", type=int, default=2)
    parser.add_argument("--max-model-len", type=int, default=16384)
    parser.add_argument("--max-num-seqs", type=int, default=32)
    parser.add_argument("--speed", type=float, default=1.0, help="how many of its seconds pass in one (default: 1)")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME=VALUE", help="fail in a known way")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from collector.emulator.engine import EmbeddedEngine
    from collector.emulator.faults import parse_faults
    from collector.emulator.physics import step_time
    from collector.emulator.profile_file import profile_of
    from collector.emulator.server import RealClock, bind

    if not 0 < args.speed < math.inf:
        raise UserError(f"--speed: found {args.speed:g}, expected more than 0")
    for name, (least, most) in _BOUNDS.items():
        if not least <= getattr(args, name) <= most:
            expected = f"{least} or more" if most == math.inf else f"{least} to {most}"
            raise UserError(f"--{name.replace('_', '-')}: found {getattr(args, name)}, expected {expected}")
    profile = profile_of(args.profile)
    setup = _setup(args, args.model or next(iter(profile.models)))
    profile.model(setup.model)
    faults = parse_faults(dict(map(_fault, args.fault))) if args.fault else None
    try:
        taken = bind(args.host, args.port)
    except OSError as error:
        raise UserError(f"--port: {args.port} on {args.host} cannot be had: {error.strerror}") from error
    try:
        seconds = step_time(profile, setup)
    except KeyError as error:
        raise UserError(f"profile {profile.name}: has nothing on {error} for {setup.model}") from error

    def make() -> EmbeddedEngine:
        return EmbeddedEngine(
            profile, setup, clock=RealClock(args.speed), step_time=seconds, faults=faults, started_at=time.time()
        )

    print(f"EMULATED {setup.model} of {profile.name} on http://{args.host}:{taken.getsockname()[1]}", file=sys.stderr)
    return asyncio.run(_serve(make, taken))


async def _serve(make: Any, taken: Any) -> int:
    from collector.emulator.server import serve

    engine = make()
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    printing = asyncio.ensure_future(_print(engine.log))
    try:
        code: int = await serve(engine, taken)
    except asyncio.CancelledError:
        code = 0
    printing.cancel()
    await printing
    return 0 if code == 0 else 1


async def _print(log: Any) -> None:
    """Print the log while it grows; cancelled, the rest of it."""
    printed = 0
    while True:
        try:
            await asyncio.sleep(LOG_EVERY_S)
            going = True
        except asyncio.CancelledError:
            going = False
        text = log.text()
        print(text[printed:], end="", flush=True)
        printed = len(text)
        if not going:
            return


def _setup(args: argparse.Namespace, model: str) -> Any:
    from collector.core.speculative import SCHEDULE, tokens_of
    from collector.emulator.setup import Setup

    config: dict[str, Any] = {}
    if args.speculative_config:
        config = _object(args.speculative_config)
        problem = check_speculation(config)
        if problem:
            raise UserError(f"--speculative-config: {problem}")
    return Setup(
        model=model,
        kv_cache_dtype=args.kv_cache_dtype,
        speculation=str(config.get("method", "draft_model")) if config else "off",
        num_speculative_tokens=tokens_of(config) or 0,
        schedule=tuple((first, last, k) for first, last, k in config.get(SCHEDULE, ())),
        nvlink=args.nvlink,
        tensor_parallel=args.tensor_parallel_size,
        max_model_len=args.max_model_len,
        max_num_seqs=args.max_num_seqs,
    )


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UserError(f"--speculative-config: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UserError(f"--speculative-config: found {text}, expected an object")
    return found


def _fault(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--fault: found {text!r}, expected NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
