"""The kernel's files of a host with two GPUs, as a tree in a folder; each test changes what it asks about."""

from __future__ import annotations

from pathlib import Path

ADDRESSES = ("0000:01:00.0", "0000:02:00.0")


class Machine:
    """Two 3090s at x8 in x16 cards, IOMMU in passthrough, governor performance: nothing to complain of."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("etc/machine-id", "0123456789abcdef0123456789abcdef")
        self.write("etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\nID=ubuntu')
        self.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD Ryzen 9 5950X 16-Core Processor\nflags\t: fpu")
        self.write("proc/meminfo", "MemTotal:       65770000 kB\nSwapTotal:  8388604 kB\nSwapFree:   8388604 kB")
        self.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet")
        self.write("proc/loadavg", "0.10 0.20 0.30 1/500 1234")
        self.write("proc/stat", "cpu  1 2 3\nbtime 1790000000\nprocesses 5")
        self.write("proc/sys/kernel/random/boot_id", "6b0c2a1e-0000-4000-8000-000000000001")
        self.write("sys/class/dmi/id/board_vendor", "ASUSTeK COMPUTER INC.")
        self.write("sys/class/dmi/id/board_name", "ProArt X570-CREATOR WIFI")
        self.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
        for number in range(4):
            self.write(f"sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor", "performance")
        self.write("sys/class/iommu/ivhd0/devices", "")
        (root / "dev/shm").mkdir(parents=True)
        for number, address in enumerate(ADDRESSES):
            self._gpu(number, address)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def remove(self, path: str) -> None:
        (self.root / path).unlink()

    def device(self, number: int, name: str, text: str) -> None:
        """Write a file of a GPU's PCI device."""
        self.write(f"{self._port(number)}/{ADDRESSES[number]}/{name}", text)

    def slot(self, number: int, name: str, text: str) -> None:
        """Write a file of the port above a GPU."""
        self.write(f"{self._port(number)}/{name}", text)

    def iommu(self, kind: str) -> None:
        for number in range(len(ADDRESSES)):
            self.write(f"sys/kernel/iommu_groups/{number}/type", kind)

    def _port(self, number: int) -> str:
        return f"sys/devices/pci0000:00/0000:00:0{number + 1}.1"

    def _gpu(self, number: int, address: str) -> None:
        for name, text in {
            "vendor": "0x10de",
            "class": "0x030000",
            "current_link_width": "8",
            "max_link_width": "16",
        }.items():
            self.device(number, name, text)
        self.device(number, "driver_override", "(null)")
        self.slot(number, "max_link_width", "8")
        self.iommu("identity")
        devices = self.root / "sys/bus/pci/devices"
        devices.mkdir(parents=True, exist_ok=True)
        (devices / address).symlink_to(self.root / self._port(number) / address)
        (devices / address / "iommu_group").symlink_to(self.root / f"sys/kernel/iommu_groups/{number}")
        # Its sound device and a bridge are no GPUs.
        others = {f"{address[:-1]}1": ("0x10de", "0x040300"), f"0000:0{number}:1f.0": ("0x1022", "0x060000")}
        for other, (vendor, kind) in others.items():
            self.write(f"sys/bus/pci/devices/{other}/vendor", vendor)
            self.write(f"sys/bus/pci/devices/{other}/class", kind)
