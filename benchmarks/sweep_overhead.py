"""What a sweep itself costs: its wall time less what its engines took to start, to serve the stages and to end.

Five configurations of the embedded engine, each a process of its own that answers over TCP, at twice real speed:
each takes a minute. A start is the column start_s, a stage its window and the confirmation after it (there is no
warm-up), the end what the engine needs from SIGTERM to its exit. The rest is the sweep's: imports, plan, token counts,
scrapes, evidence, rows. Exit code 1 if each try took 1 % or more.

    python -m benchmarks.sweep_overhead
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
ENGINE = ROOT / "tests" / "real" / "emulated_vllm.py"
ENDS = "OVERHEAD_ENDS"
#: How many seconds of the engine pass in one: its start takes 50 s of its own.
SPEED = 2.0
LIMIT = 0.01
#: The machine may have other work: then another try counts.
TRIES = 3
CONFIGURATIONS, STAGES = 5, 2
PLAN = f"""\
plan: 1
campaign: overhead
engine:
  kind: process
  command: ["{sys.executable}", "-m", benchmarks.sweep_overhead]
  environment: {{EMULATE_SPEED: "{SPEED:g}"}}
models: {{muse-glimmer-30b: {{path: "MODEL"}}}}
defaults: {{model: muse-glimmer-30b, tensor_parallel: 2, max_model_len: 16384, max_num_seqs: 32}}
matrix: {{series: [first, second, third, fourth, fifth]}}
stages:
  concurrency: {{1: 6, 8: 40}}
  prompt_tokens: 655
  output_tokens: 256
  warm_up: {{rounds: 0}}
"""


def engine(words: list[str]) -> int:
    """Be the engine's program: run it, and note how long it took from SIGTERM to its end."""
    asked: list[float] = []
    process = subprocess.Popen([sys.executable, str(ENGINE), *words])

    def pass_on(number: int, _: FrameType | None) -> None:
        asked.append(time.monotonic())
        process.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    code = process.wait()
    if asked:
        with Path(os.environ[ENDS]).open("a") as file:
            file.write(f"{time.monotonic() - asked[0]}\n")
    return code


def compiled(folder: Path) -> dict[str, str]:
    """Return an environment in which Python has its modules compiled already, as after any earlier sweep."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    for words in (["-m", "collector.cli", "sweep", "--help"], [str(ENGINE), "serve", "--help"]):
        subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, check=True)
    return environment


def measured() -> bool:
    """Run the sweep, print what it came to, and return whether it is under the limit."""
    from collector.measure.campaign import read_tables  # not for the engine's program: its exit would take longer
    from collector.measure.stage import CONFIRM_AFTER_S

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model").mkdir()
        (folder / "plan.yaml").write_text(PLAN.replace("MODEL", str(folder / "model")))
        command = [sys.executable, "-m", "collector.cli", "sweep", str(folder / "plan.yaml"), "--out", name]
        environment = compiled(folder) | {ENDS: str(folder / "ends")}
        began = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        wall = time.monotonic() - began
        rows, failures, _ = read_tables(folder / "overhead")
        if failures or len(rows) != CONFIGURATIONS * STAGES:
            raise RuntimeError(f"the sweep went wrong: {done.stdout}{done.stderr}")
        ends = sum(map(float, (folder / "ends").read_text().split()))
    starts = sum({row.configuration_id: row.start_s or 0.0 for row in rows}.values())
    stages = sum(row.window_s + CONFIRM_AFTER_S for row in rows)
    own = wall - starts - stages - ends
    print(
        f"{CONFIGURATIONS} configurations at {SPEED:g} times real speed, {wall / CONFIGURATIONS:.1f} s each: starts "
        f"{starts:.1f} s, stages {stages:.1f} s, ends {ends:.1f} s; the sweep itself {own:.2f} s = {own / wall:.2%} "
        f"(limit {LIMIT:.0%}), with the ends {(own + ends) / wall:.2%}"
    )
    return own / wall < LIMIT


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(engine(sys.argv[1:]))
    sys.exit(not any(measured() for _ in range(TRIES)))
