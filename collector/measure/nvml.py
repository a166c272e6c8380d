"""NVML itself, through nvidia-ml-py: its errors, units, field and scope numbers end here.

What a card does not support, its driver does not know or we may not ask is None; a card that is gone raises
GpuLostError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import pynvml as library

MIB = 2**20
KIB = 2**10
#: The scope of a traffic field that sums over all links; 0 would be link 0 alone.
ALL_LINKS = 0xFFFFFFFF
#: The fields count KiB of payload since the driver was loaded.
TRAFFIC = (library.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, library.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX)

THROTTLE_REASONS: dict[int, str] = {
    library.nvmlClocksEventReasonGpuIdle: "gpu_idle",
    library.nvmlClocksEventReasonApplicationsClocksSetting: "applications_clocks",
    library.nvmlClocksEventReasonSwPowerCap: "sw_power_cap",
    library.nvmlClocksEventReasonHwSlowdown: "hw_slowdown",
    library.nvmlClocksEventReasonSyncBoost: "sync_boost",
    library.nvmlClocksEventReasonSwThermalSlowdown: "sw_thermal_slowdown",
    library.nvmlClocksEventReasonHwThermalSlowdown: "hw_thermal_slowdown",
    library.nvmlClocksEventReasonHwPowerBrakeSlowdown: "hw_power_brake",
    library.nvmlClocksEventReasonDisplayClockSetting: "display_clocks",
}
ARCHITECTURES = {
    library.NVML_DEVICE_ARCH_PASCAL: "pascal",
    library.NVML_DEVICE_ARCH_VOLTA: "volta",
    library.NVML_DEVICE_ARCH_TURING: "turing",
    library.NVML_DEVICE_ARCH_AMPERE: "ampere",
    library.NVML_DEVICE_ARCH_ADA: "ada",
    library.NVML_DEVICE_ARCH_HOPPER: "hopper",
    library.NVML_DEVICE_ARCH_BLACKWELL: "blackwell",
}
P2P_STATES = {
    library.NVML_P2P_STATUS_OK: "ok",
    library.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED: "chipset_not_supported",
    library.NVML_P2P_STATUS_GPU_NOT_SUPPORTED: "gpu_not_supported",
    library.NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED: "topology_not_supported",
    library.NVML_P2P_STATUS_DISABLED_BY_REGKEY: "disabled_by_regkey",
    library.NVML_P2P_STATUS_NOT_SUPPORTED: "not_supported",
}
P2P_READ = 0  # the package's own NVML_P2P_CAPS_INDEX_READ is a tuple by a slip of a comma


class GpuLostError(Exception):
    """A GPU has fallen off the bus, or must be reset before it answers again."""


#: Of these a card does not recover within a sweep; every other error means that the figure is not told.
_LOST = (library.NVML_ERROR_GPU_IS_LOST, library.NVML_ERROR_RESET_REQUIRED)


def ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what NVML answers, None where it does not. Raises GpuLostError: the one place for its errors."""
    try:
        return function(*arguments)
    except library.NVMLError as error:
        if error.value in _LOST:
            raise GpuLostError from error
        return None
    except UnicodeDecodeError:  # a program may be named in any bytes
        return None


def open_handles() -> list[Any]:
    """Return a handle per GPU, None for a lost one; nothing where there is no driver, no library or no GPU."""
    try:
        library.nvmlInit()
        count = library.nvmlDeviceGetCount()
    except library.NVMLError:
        return []
    return [_handle(index) for index in range(count)]


def _handle(index: int) -> Any:
    try:
        return ask(library.nvmlDeviceGetHandleByIndex, index)
    except GpuLostError:
        return None


def driver_version() -> str | None:
    version: str | None = ask(library.nvmlSystemGetDriverVersion)
    return version


def cuda_version() -> str | None:
    number = ask(library.nvmlSystemGetCudaDriverVersion)
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def card_facts(handle: Any) -> dict[str, Any]:
    """Return the fields of a Card."""
    pci, memory = ask(library.nvmlDeviceGetPciInfo_v3, handle), ask(library.nvmlDeviceGetMemoryInfo, handle)
    return {
        "uuid": ask(library.nvmlDeviceGetUUID, handle),
        "name": ask(library.nvmlDeviceGetName, handle),
        "pci_bus_id": pci and _text(pci.busId),
        "architecture": ARCHITECTURES.get(ask(library.nvmlDeviceGetArchitecture, handle)),
        "memory_total_mib": memory and memory.total / MIB,
        "power_limit_w": _scaled(ask(library.nvmlDeviceGetPowerManagementLimit, handle)),
        "power_default_limit_w": _scaled(ask(library.nvmlDeviceGetPowerManagementDefaultLimit, handle)),
        "display_active": _switch(ask(library.nvmlDeviceGetDisplayActive, handle)),
        "persistence": _switch(ask(library.nvmlDeviceGetPersistenceMode, handle)),
        "nvlinks": tuple(_nvlinks(handle)) or None,
        "pcie_generation_max": ask(library.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        "pcie_width_max": ask(library.nvmlDeviceGetMaxPcieLinkWidth, handle),
    }


def reading_facts(handle: Any) -> dict[str, Any]:
    """Return the fields of a Reading."""
    memory = ask(library.nvmlDeviceGetMemoryInfo, handle)
    busy = ask(library.nvmlDeviceGetUtilizationRates, handle)
    sent, received = _traffic(handle)
    return {
        "power_w": _scaled(ask(library.nvmlDeviceGetPowerUsage, handle)),
        "energy_j": _scaled(ask(library.nvmlDeviceGetTotalEnergyConsumption, handle)),
        "sm_clock_mhz": ask(library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_SM),
        "memory_clock_mhz": ask(library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_MEM),
        "temperature_c": ask(library.nvmlDeviceGetTemperature, handle, library.NVML_TEMPERATURE_GPU),
        "throttle_reasons": _throttle_reasons(handle),
        "utilisation": busy and busy.gpu / 100,
        "memory_used_mib": memory and memory.used / MIB,
        "nvlink_tx_bytes": sent,
        "nvlink_rx_bytes": received,
        "pcie_generation": ask(library.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        "pcie_width": ask(library.nvmlDeviceGetCurrPcieLinkWidth, handle),
    }


def _scaled(thousandths: int | None) -> float | None:
    return None if thousandths is None else thousandths / 1000


def _switch(state: int | None) -> bool | None:
    return None if state is None else bool(state)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _throttle_reasons(handle: Any) -> tuple[str, ...] | None:
    """Return the names of all bits that are set; drivers before 535 know the call by its old name alone."""
    bits = ask(library.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if bits is None:
        bits = ask(library.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    if bits is None:
        return None
    single = [1 << place for place in range(int(bits).bit_length()) if bits >> place & 1]
    return tuple(THROTTLE_REASONS.get(bit, f"reason_{bit:#x}") for bit in single)


def _nvlinks(handle: Any) -> Iterator[bool]:
    """Yield the links that the card has; the first that it does not know ends them."""
    for link in range(library.NVML_NVLINK_MAX_LINKS):
        state = ask(library.nvmlDeviceGetNvLinkState, handle, link)
        if state is None:
            return
        yield bool(state)


def _traffic(handle: Any) -> tuple[int | None, int | None]:
    """Return the bytes sent and received over all links; each field has an error code of its own."""
    values = ask(library.nvmlDeviceGetFieldValues, handle, [(field, ALL_LINKS) for field in TRAFFIC])
    if values is None:
        return None, None
    sent, received = (int(one.value.ullVal) * KIB if one.nvmlReturn == library.NVML_SUCCESS else None for one in values)
    return sent, received


def pcie_bytes_per_s(handle: Any) -> int | None:
    counters = (library.NVML_PCIE_UTIL_TX_BYTES, library.NVML_PCIE_UTIL_RX_BYTES)
    ways = [ask(library.nvmlDeviceGetPcieThroughput, handle, way) for way in counters]
    return None if None in ways else sum(ways) * KIB


def p2p_states(first: Any, second: Any) -> list[str | None]:
    """Return in words whether one GPU may read and write the other's memory, and over NVLink."""
    asked = (P2P_READ, library.NVML_P2P_CAPS_INDEX_WRITE, library.NVML_P2P_CAPS_INDEX_NVLINK)
    found = [ask(library.nvmlDeviceGetP2PStatus, first, second, what) for what in asked]
    return [None if one is None else P2P_STATES.get(one, "unknown") for one in found]


def process_facts(handle: Any) -> list[dict[str, Any]]:
    """Return the fields of a GpuProcess for each process, once: one that draws and computes, computes."""
    found: dict[int, dict[str, Any]] = {}
    for graphics, function in (
        (False, library.nvmlDeviceGetComputeRunningProcesses_v3),
        (True, library.nvmlDeviceGetGraphicsRunningProcesses_v3),
    ):
        for one in ask(function, handle) or ():
            if one.pid not in found:
                used = None if one.usedGpuMemory is None else one.usedGpuMemory / MIB
                path = ask(library.nvmlSystemGetProcessName, one.pid)
                name = PurePath(path).name if path else "?"
                found[one.pid] = {"pid": one.pid, "name": name, "memory_mib": used, "graphics": graphics}
    return list(found.values())
