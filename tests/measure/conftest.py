"""The stand-in driver, compiled once a run."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.fakes.nvml import GpuHost, build


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def gpu_host(nvml_library: Path, tmp_path: Path) -> GpuHost:
    """Two RTX 3090s that other processes see with its environment."""
    return GpuHost(tmp_path, nvml_library)


@pytest.fixture
def here(gpu_host: GpuHost, nvml_library: Path, monkeypatch: pytest.MonkeyPatch) -> GpuHost:
    """The same host, seen by this process, too.

    The binding opens libnvidia-ml.so.1 by name, and a library of that name that is loaded already is taken.
    Without the file that describes the host it says that there is no driver, so that other tests see none.
    """
    ctypes.CDLL(str(nvml_library))
    monkeypatch.setenv("FAKE_NVML_STATE", gpu_host.environment["FAKE_NVML_STATE"])
    return gpu_host
