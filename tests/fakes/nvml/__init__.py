"""A stand-in for libnvidia-ml, built with the machine's C compiler, and the host of two RTX 3090s that it shows."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml.c")
LIBRARY = "libnvidia-ml.so.1"

#: One of two cards under load, joined by a bridge.
CARD = {
    "name": "NVIDIA GeForce RTX 3090",
    "architecture": 7,
    "memory_mib": 24576,
    "used_mib": 300,
    "power_mw": 320000,
    "power_limit_mw": 350000,
    "power_default_mw": 350000,
    "energy_mj": 5000000,
    "energy_mj_s": 300000,
    "sm_mhz": 1800,
    "memory_mhz": 9501,
    "temperature": 66,
    "event_reasons": "0x4",
    "utilisation": 98,
    "display": 0,
    "persistence": 1,
    "nvlinks": "1111",
    "nvlink_tx_kib": 1000,
    "nvlink_rx_kib": 2000,
    "pcie_generation": 4,
    "pcie_width": 8,
    "pcie_generation_max": 4,
    "pcie_width_max": 16,
    "pcie_tx_kib_s": 1000,
    "pcie_rx_kib_s": 3000,
}


def build(folder: Path) -> Path:
    """Compile the library into a folder and return it. A machine without a C compiler fails here."""
    library = folder / LIBRARY
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{LIBRARY}"]
    subprocess.run([*command, "-o", str(library), str(SOURCE)], check=True)
    return library


class GpuHost:
    """A host whose driver is the stand-in; what is set shows at the next call, also in other processes."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._file = folder / "nvml.txt"
        self._said: dict[str, object] = {"count": 2, "driver": "580.95.05", "cuda": 13000}
        self._said |= {"p2p.0": 0, "p2p.1": 0, "p2p.2": 0}
        self.environment = {"FAKE_NVML_STATE": str(self._file), "LD_LIBRARY_PATH": str(library.parent)}
        for index in range(2):
            self.set(index, uuid=f"GPU-{index}", pci=f"00000000:0{index + 1}:00.0", **CARD)

    def set(self, index: int | str, **facts: object) -> None:
        """Say something of a GPU, or of `p2p` or `name`; None takes it back."""
        self.say(**{f"{index}.{name}": value for name, value in facts.items()})

    def say(self, **facts: object) -> None:
        self._said |= facts
        text = "".join(f"{key} {value}\n" for key, value in self._said.items() if value is not None)
        new = self._file.with_suffix(".new")
        new.write_text(text)
        new.replace(self._file)
