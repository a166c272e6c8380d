"""Make the container image of the tests from this machine's own files: no registry is reached.

It holds the Python that runs the tests, the packages that the embedded engine imports, collector itself, the system
libraries that both and a vLLM for the CPU need, and a shell. Its tag is a hash of what went in; an image that is there
is used again, an older one of ours is removed.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

REPOSITORY = "collector-tests/engine"
ROOT = Path(__file__).parents[2]
SHIM = Path(__file__).with_name("emulated_vllm.py")
PACKAGE = "/opt/collector"
#: vLLM asks lscpu for the cores and a shell for other things.
PROGRAMS = ("/bin/sh", "/usr/bin/lscpu")
#: What the embedded engine imports, seen by importing it.
IMPORTED = """
import collector.verbs.emulate, collector.emulator.server, sys
import collector.emulator.physics, collector.emulator.profile_file
import uvicorn.protocols.http.auto, uvicorn.loops.auto, uvicorn.lifespan.off
print(*{one.partition(".")[0] for one in sys.modules})
"""
UNWANTED = re.compile(r"/(?:test|tests|idlelib|ensurepip|turtledemo|tkinter)/")


def ensure(api: Any, libraries_of: Iterable[Path] = ()) -> str:
    """Return the image's name, making it where the daemon does not have it. `libraries_of`: further binaries to run."""
    further = [*libraries_of]
    name = f"{REPOSITORY}:{_key(further)}"
    old = [tag for one in api.images(REPOSITORY) for tag in one["RepoTags"] or ()]
    if name not in old:
        with tempfile.NamedTemporaryFile(suffix=".tar") as file:
            _write(file, further)
            file.flush()
            changes = [f"ENV PYTHONPATH={PACKAGE} PATH=/usr/local/bin:/usr/bin:/bin HOME=/root PYTHONUNBUFFERED=1"]
            api.import_image_from_file(file.name, repository=REPOSITORY, tag=name.rpartition(":")[2], changes=changes)
    for one in old:
        if one != name:
            api.remove_image(one)
    return name


def _key(further: list[Path]) -> str:
    digest = hashlib.sha256(f"{sys.version} {sorted(map(str, further))}".encode())
    for path in [
        Path(__file__),
        SHIM,
        *sorted((ROOT / "collector").rglob("*.py")),
        *sorted((ROOT / "collector").rglob("*.json")),
    ]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _write(file: Any, further: list[Path]) -> None:
    site = Path(sysconfig.get_path("purelib"))
    library = Path(sysconfig.get_path("stdlib"))
    python = Path(sys.executable).resolve()
    packages = _packages(site)
    binaries = [python, *library.rglob("lib-dynload/*.so"), *further, *map(Path, PROGRAMS)]
    binaries += [one for package in packages for one in package.rglob("*.so")]
    with tarfile.open(fileobj=file, mode="w") as image:
        for folder in ("tmp", "root", "proc", "sys", "dev", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            image.addfile(entry)
        _add_text(image, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        _add_text(image, "usr/local/bin/vllm", f"#!{python}\n{SHIM.read_text()}", mode=0o755)
        image.add(library, str(library), filter=_wanted)
        names = [one for one in python.parent.glob("python*") if "-" not in one.name]
        for path in {*names, *map(Path, PROGRAMS), *_libraries(binaries)}:
            image.add(path.resolve(), str(path))
        for package in packages:
            image.add(package, f"{PACKAGE}/{package.name}", filter=_wanted)
        image.add(ROOT / "collector", f"{PACKAGE}/collector", filter=_wanted)


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if UNWANTED.search(f"/{entry.name}/") or "site-packages" in entry.name else entry


def _add_text(image: tarfile.TarFile, name: str, text: str, mode: int = 0o644) -> None:
    entry, content = tarfile.TarInfo(name), text.encode()
    entry.size, entry.mode = len(content), mode
    image.addfile(entry, io.BytesIO(content))


def _packages(site: Path) -> list[Path]:
    """Return the folders and files in site-packages that the embedded engine imports."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ
    )
    found = [place for name in done.stdout.split() for place in (site / name, site / f"{name}.py")]
    compiled = [place for name in done.stdout.split() for place in site.glob(f"{name}.*.so")]
    return sorted({one for one in [*found, *compiled] if one.exists() and one.name != "collector"})


def _libraries(binaries: Iterable[Path]) -> Iterator[Path]:
    """Yield the shared libraries that binaries are linked with, but for those that lie among their own files."""
    done = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False)
    systems = ("/lib", "/lib64", "/usr", sys.base_prefix)
    for path in map(Path, {*re.findall(r"(?:=> )?(/\S+) \(0x", done.stdout)}):
        if any(path.is_relative_to(one) for one in systems):
            yield path
