"""`collector doctor` on hosts of the tests' own making, and on this one, whatever it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.cli import main
from collector.core.doctor import engine_checks
from collector.core.doctor.facts import Docker, Facts, Needs
from tests.fakes.docker import daemon
from tests.fakes.nvml import GpuHost, build
from tests.measure.machine import Machine

ROOT = Path(__file__).parents[2]
IMAGE = "vllm/vllm-openai:v0.27.0"
PLAN = f"""\
plan: 1
campaign: pair
engine: {{kind: docker, image: "{IMAGE}"}}
models: {{m: {{path: "${{MODELS}}/m"}}}}
defaults: {{model: m, tensor_parallel: 2}}
matrix: {{nvlink: [on, off]}}
stages: {{concurrency: {{1: 8}}}}
"""
#: Runs the command on another root than this machine's.
RUN = """
import sys
from pathlib import Path
from collector.cli import parser
args = parser().parse_args(["doctor", *sys.argv[2:]])
args.root = Path(sys.argv[1])
sys.exit(args.run(args))
"""
#: What the tests' tree does not decide: limits, space and clock of this machine.
OF_THIS_MACHINE = {"open_files", "locked_memory", "clock", "disk", "shared_memory"}


class Doctor:
    """The command on a tree of files, the stand-in of NVML and a daemon that says `info`."""

    def __init__(self, folder: Path, root: Path, environment: dict[str, str], info: dict[str, Any]) -> None:
        self.info = info
        self._command = [sys.executable, "-c", RUN, str(root), str(folder / "plan.yaml"), "--json"]
        self._environment = os.environ | environment

    def __call__(self, **environment: str) -> tuple[int, dict[str, dict[str, str]]]:
        """Return the exit code and the checks by their names."""
        done = subprocess.run(
            self._command, env=self._environment | environment, capture_output=True, text=True, check=False
        )
        told = json.loads(done.stdout)
        assert told["fit"] == (done.returncode == 0)
        return done.returncode, {one["name"]: one for one in told["checks"]}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


@pytest.fixture
def gpus(tmp_path: Path, library: Path) -> GpuHost:
    return GpuHost(tmp_path, library)


@pytest.fixture
def doctor(tmp_path: Path, machine: Machine, gpus: GpuHost) -> Iterator[Doctor]:
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "models" / "m").mkdir(parents=True)
    info: dict[str, Any] = {"ServerVersion": "28.1.1", "Runtimes": {"runc": {}, "nvidia": {}}, "DockerRootDir": "/"}
    with daemon(tmp_path, info, (IMAGE,)) as address:
        mine = {"DOCKER_HOST": address, "HOME": str(tmp_path / "home"), "MODELS": str(tmp_path / "models")}
        yield Doctor(tmp_path, machine.root, gpus.environment | mine, info)


def spoiling(found: dict[str, dict[str, str]]) -> list[str]:
    return [name for name, one in found.items() if one["level"] == "spoils" and name not in OF_THIS_MACHINE]


def test_a_host_fit_to_measure_is_found_fit(doctor: Doctor) -> None:
    _, found = doctor()
    levels = {name: one["level"] for name, one in found.items() if name not in OF_THIS_MACHINE}
    assert levels == dict.fromkeys(levels, "ok") | {"link_width": "note"}  # two slots at x8
    assert found["driver"]["found"] == "driver 580.95.05, CUDA up to 13.0; 2 × NVIDIA GeForce RTX 3090"
    assert found["docker"]["found"] == "Docker 28.1.1 with NVIDIA's runtime"


def test_all_that_can_be_wrong_with_a_host_is_found_at_once(
    doctor: Doctor, machine: Machine, gpus: GpuHost, tmp_path: Path
) -> None:
    machine.device(1, "current_link_width", "4")
    machine.iommu("DMA")
    machine.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave")
    gpus.set(0, nvlinks="0000", display=1, power_limit_mw=250000, compute="4242:1000")
    gpus.say(**{"p2p.0": 2, "name.4242": "/usr/bin/trainer"})
    cache = tmp_path / "home" / ".cache" / "vllm" / "gpu_p2p_access_cache_for_0,1.json"
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps({"0->0": True, "0->1": True, "1->0": True}))
    doctor.info["Runtimes"] = {"runc": {}}
    code, found = doctor()
    assert code == 1
    names = ["foreign_processes", "display", "power_cap", "link_width", "nvlink", "p2p_cache", "iommu", "governor",
             "docker"]  # fmt: skip
    assert spoiling(found) == names
    assert all(found[name]["reason"] and found[name]["fix"] for name in names)
    assert found["p2p_cache"]["fix"] == f"rm {cache}"
    assert found["foreign_processes"]["found"] == "trainer (pid 4242) holds 1000 MiB of GPU 0"


def test_gpus_through_cdi_count_and_an_image_that_is_not_here_is_named(doctor: Doctor, tmp_path: Path) -> None:
    doctor.info |= {"Runtimes": {"runc": {}}, "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}
    assert doctor()[1]["docker"]["level"] == "ok"
    (tmp_path / "plan.yaml").write_text(PLAN.replace("v0.27.0", "v0.28.0"))
    found = doctor()[1]["docker"]
    assert (found["level"], found["fix"]) == ("note", "docker pull vllm/vllm-openai:v0.28.0")


def test_a_daemon_that_does_not_answer_and_a_model_that_is_not_here_are_named(doctor: Doctor, tmp_path: Path) -> None:
    code, found = doctor(DOCKER_HOST=f"unix://{tmp_path}/none.sock", MODELS=str(tmp_path))
    assert code == 1
    assert found["docker"]["found"].startswith(
        f"cannot reach the Docker daemon at unix://{tmp_path}/none.sock: no socket"
    )
    assert found["docker"]["fix"].startswith(f"DOCKER_HOST is unix://{tmp_path}/none.sock: let it name the socket")
    assert found["engine"]["level"] == "unknown"
    assert found["models"]["found"] == "not here yet: ${MODELS}/m"


def test_a_daemon_of_another_machine_is_no_daemon_of_this_host(doctor: Doctor) -> None:
    code, found = doctor(DOCKER_HOST="tcp://other:2375")
    assert code == 1
    assert found["docker"]["found"].startswith("DOCKER_HOST: found tcp://other:2375, which may be another machine")
    assert found["docker"]["fix"].startswith("DOCKER_HOST is tcp://other:2375: ")
    told = doctor(DOCKER_HOST="tcp://me:open-sesame@other:2375")[1]["docker"]
    assert "sesame" not in told["found"] + told["fix"]
    for address in ("/var/run/docker.sock", "unix://", "unix:run.sock"):
        found = doctor(DOCKER_HOST=address)[1]
        assert f"DOCKER_HOST: found {address}, expected the address of a socket" in found["docker"]["found"]


def test_without_a_docker_host_the_fix_is_to_install_docker() -> None:
    told = engine_checks.docker(Facts(docker=Docker(error="no socket is there")), Needs(kind="docker"))
    assert told.fix.startswith("sudo apt-get install docker.io")


def test_what_the_engine_kind_refuses_is_told(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN.replace(f', image: "{IMAGE}"', ""))
    code, found = doctor()
    assert (code, found["engine"]["level"]) == (1, "spoils")
    assert "names no image" in found["engine"]["found"]


def test_cards_in_the_slots_without_a_driver_are_told_from_no_cards(doctor: Doctor, tmp_path: Path) -> None:
    code, found = doctor(LD_LIBRARY_PATH=str(tmp_path))
    assert code == 1
    assert found["driver"]["found"] == "no GPU can be used: 2 NVIDIA GPUs on the PCI bus, but no NVIDIA driver answers"


def test_this_machine_is_looked_at_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert code == (0 if told["fit"] else 1)
    assert {one["level"] for one in told["checks"]} <= {"spoils", "note", "unknown", "ok"}
    if not Path("/dev/nvidia0").exists():
        assert told["checks"][0]["found"] == "no GPU can be used: no NVIDIA driver answers"
        assert code == 1


def test_a_plan_for_the_cpu_needs_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", str(ROOT / "plans" / "cpu-tiny.yaml")])
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one[9:15] == "driver"]
    assert line.startswith("ok ")


def test_a_wrong_plan_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml: cannot be read" in capsys.readouterr().err
