"""Each check of `collector doctor` speaks up when it should and only then, and admits what it cannot know."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.core.doctor import CHECKS, examine
from collector.core.doctor.facts import UNLIMITED, Disk, Docker, Facts, Gpu, Needs, P2pCache, needs_of
from collector.core.doctor.finding import LEVELS
from collector.core.plan import parse_plan
from collector.verbs.doctor import lines

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"

CARD = Gpu(
    pci_address="0000:01:00.0",
    name="NVIDIA GeForce RTX 3090",
    memory_gib=24.0,
    link_width=16,
    link_width_max=16,
    slot_width_max=16,
    link_generation_max=4,
    power_limit_w=350.0,
    power_limit_default_w=350.0,
    persistence=True,
    display=False,
    nvlinks=4,
)
GOOD = Facts(
    gpus=(CARD, replace(CARD, pci_address="0000:02:00.0")),
    driver_version="580.95.05",
    cuda_version="13.0",
    foreign=(),
    p2p=True,
    iommu="passthrough",
    governor="performance",
    cpu_count=16,
    load_1min=0.4,
    memory_gib=62.7,
    swap_used_gib=0.0,
    shm_gib=31.4,
    transparent_hugepages="madvise",
    nofile=1_048_576.0,
    memlock_gib=UNLIMITED,
    clock_synchronised=True,
    disks=tuple(Disk(holds=holds, free_gib=400.0, device=1) for holds in ("data", "cache", "models", "images")),
    docker=Docker(version="28.1.1", gpu_runtime=True),
)
NEEDS = Needs(kind="docker", gpus=2, nvlink_on=True, nvlink_off=True, rows=112, requests=4000)
CACHE = P2pCache(path="/c/gpu_p2p_access_cache_for_0,1.json", grants=True, before_boot=False)


def with_second(**changes: Any) -> dict[str, Any]:
    """Return the change of a host whose second GPU differs."""
    return {"gpus": (CARD, replace(GOOD.gpus[1], **changes))}


def with_both(**changes: Any) -> dict[str, Any]:
    return {"gpus": tuple(replace(one, **changes) for one in GOOD.gpus)}


NO_NVML: dict[str, Any] = {"gpus": (), "gpu_error": "no NVIDIA driver answers", "foreign": None, "p2p": None}
SMALL = tuple(Disk(holds=holds, free_gib=20.0, device=1) for holds in ("data", "cache", "models", "images"))

#: check, what is different on the host, what is different in the plan, level, words that must be said.
CASES: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("driver", NO_NVML, {}, "spoils", "no GPU can be used: no NVIDIA driver answers"),
    ("driver", NO_NVML, {"needs_gpu": False}, "ok", "no GPU is needed"),
    ("driver", NO_NVML, {"kind": "url"}, "ok", "no GPU is needed"),
    ("driver", {"gpus": (CARD,)}, {}, "spoils", "1 GPU, but the plan needs 2"),
    ("driver", {"gpus": (CARD,)}, {"gpus": 1}, "ok", "1 × NVIDIA GeForce RTX 3090"),
    ("foreign_processes", {"foreign": ("python3 (pid 7) holds 300 MiB of GPU 0",)}, {}, "spoils", "python3 (pid 7)"),
    ("foreign_processes", {"foreign": ("vllm (pid 7) holds 9 MiB of GPU 0",)}, {"kind": "url"}, "note", "vllm (pid 7)"),
    ("foreign_processes", NO_NVML, {}, "unknown", "NVML"),
    ("display", with_second(display=True), {}, "spoils", "drawn on GPU 1"),
    ("display", with_second(display=None), {}, "ok", "no GPU drives"),
    ("display", {"drawing": ("Xorg (pid 9) holds 4 MiB of GPU 0",)}, {}, "note", "Xorg (pid 9)"),
    ("display", with_both(display=None), {}, "unknown", "no GPU says"),
    ("power_cap", with_second(power_limit_w=280.0), {}, "spoils", "GPU 1 280 of 350 W"),
    ("power_cap", with_second(power_limit_w=349.5), {}, "ok", "350 of 350 W"),
    ("power_cap", with_second(power_limit_w=400.0), {}, "ok", "400 of 350 W"),
    ("power_cap", with_both(power_limit_default_w=None), {}, "unknown", "no power limit"),
    ("persistence", with_second(persistence=False), {}, "note", "off on GPU 1"),
    ("persistence", with_both(persistence=None), {}, "unknown", "persistence"),
    ("link_width", with_second(link_width=4, slot_width_max=4), {}, "spoils", "GPU 1 x4 of x16 (slot x4)"),
    ("link_width", with_second(link_width=8), {}, "note", "GPU 0 x16 of x16, GPU 1 x8 of x16"),
    ("link_width", with_both(link_width=8), {}, "note", "x8 of x16"),
    ("link_width", with_both(link_width=4, link_width_max=4), {}, "ok", "x4 of x4"),
    ("link_width", with_both(link_width=None), {}, "unknown", "no PCIe link"),
    ("link_generation", with_second(link_generation_max=2), {}, "spoils", "GPU 1 up to generation 2"),
    ("link_generation", with_second(link_generation_max=3), {}, "ok", "GPU 1 up to generation 3"),
    ("link_generation", with_both(link_generation_max=None), {}, "unknown", "generation"),
    ("nvlink", with_both(nvlinks=0), {}, "spoils", "GPU 0 0 links up, GPU 1 0 links up, but the plan"),
    ("nvlink", with_both(nvlinks=None), {}, "spoils", "no GPU states an NVLink, but the plan"),
    ("nvlink", with_second(nvlinks=0), {}, "spoils", "GPU 1 0 links up"),
    ("nvlink", with_both(nvlinks=0), {"nvlink_on": False}, "ok", "does not ask for one"),
    ("nvlink", with_both(nvlinks=0), {"nvlink_on": False, "kind": None}, "ok", "a plan with nvlink: on needs it"),
    ("nvlink", {"p2p": False}, {}, "spoils", "does not grant P2P"),
    ("nvlink", NO_NVML, {}, "unknown", "NVML"),
    ("p2p", {"p2p": False}, {}, "note", "does not grant P2P"),
    ("p2p", {"p2p": None}, {}, "unknown", "does not say"),
    ("p2p", {"p2p": None, "gpus": (CARD,)}, {}, "ok", "nothing to exchange"),
    ("p2p", NO_NVML, {}, "unknown", "NVML"),
    ("p2p_cache", {"p2p_caches": (replace(CACHE, grants=False),)}, {}, "spoils", "refuses P2P, the driver grants it"),
    ("p2p_cache", {"p2p_caches": (CACHE,), "p2p": False}, {}, "spoils", "grants P2P, the driver does not"),
    ("p2p_cache", {"p2p_caches": (CACHE,), "p2p": None}, {}, "ok", "the sweep clears it"),
    ("p2p_cache", {"p2p_caches": (CACHE,)}, {}, "ok", "agrees with the driver; the sweep clears it"),
    ("p2p_cache", {"p2p_caches": (CACHE,)}, {"kind": "url"}, "spoils", "not ours to clear it for"),
    ("p2p_cache", {"p2p_caches": (replace(CACHE, before_boot=True),)}, {}, "note", "older than this boot"),
    ("p2p_cache", {"p2p_caches": (replace(CACHE, grants=None, before_boot=None),)}, {}, "unknown", "cannot be read"),
    ("iommu", {"iommu": "translated"}, {}, "spoils", "translated"),
    ("iommu", {"iommu": "translated", "gpus": (CARD,)}, {"gpus": 1}, "note", "translated"),
    ("iommu", {"iommu": "off"}, {}, "ok", "off"),
    ("iommu", {"iommu": None}, {}, "unknown", "IOMMU"),
    ("governor", {"governor": "powersave"}, {}, "spoils", "powersave"),
    ("governor", {"governor": "performance and powersave"}, {}, "spoils", "powersave"),
    ("governor", {"governor": None}, {}, "unknown", "virtual machine"),
    ("cpu_load", {"load_1min": 4.1}, {}, "note", "load 4.1 on 16"),
    ("cpu_load", {"load_1min": 4.0}, {}, "ok", "load 4.0 on 16"),
    ("cpu_load", {"load_1min": None}, {}, "unknown", "load"),
    ("memory", {"memory_gib": 15.5}, {}, "note", "16 GiB"),
    ("memory", {"memory_gib": 15.5}, {"needs_gpu": False}, "ok", "16 GiB"),
    ("memory", {"memory_gib": None}, {}, "unknown", "memory"),
    ("swap", {"swap_used_gib": 2.0}, {}, "note", "2.0 GiB in use"),
    ("swap", {"swap_used_gib": 0.2}, {}, "ok", "0.2 GiB in use"),
    ("swap", {"swap_used_gib": None}, {}, "unknown", "swap"),
    ("shared_memory", {"shm_gib": 0.06}, {"kind": "process"}, "spoils", "61 MiB"),
    ("shared_memory", {"shm_gib": 0.06}, {"kind": "process", "gpus": 1}, "note", "61 MiB"),
    ("shared_memory", {"shm_gib": 0.06}, {}, "note", "61 MiB"),
    ("shared_memory", {"shm_gib": None}, {}, "unknown", "shared memory"),
    ("transparent_hugepages", {"transparent_hugepages": "always"}, {}, "note", "always"),
    ("transparent_hugepages", {"transparent_hugepages": "never"}, {}, "ok", "never"),
    ("transparent_hugepages", {"transparent_hugepages": None}, {}, "unknown", "huge pages"),
    ("open_files", {"nofile": 1024.0}, {}, "spoils", "hard limit 1024"),
    ("open_files", {"nofile": 20_000.0}, {}, "note", "hard limit 20000"),
    ("open_files", {"nofile": UNLIMITED}, {}, "ok", "unlimited"),
    ("open_files", {"nofile": None}, {}, "unknown", "open files"),
    ("locked_memory", {"memlock_gib": 8 / 1024}, {}, "note", "8 MiB"),
    ("locked_memory", {"memlock_gib": 4.0}, {}, "ok", "4096 MiB"),
    ("locked_memory", {"memlock_gib": None}, {}, "unknown", "locked memory"),
    ("clock", {"clock_synchronised": False}, {}, "note", "not synchronised"),
    ("clock", {"clock_synchronised": None}, {}, "unknown", "synchronised"),
    ("disk", {"disks": SMALL, "missing_models": ("org/a",)}, {}, "spoils", "25.0 GiB for models"),
    ("disk", {"disks": SMALL}, {}, "ok", "models 20 GiB free"),
    ("disk", {"disks": SMALL, "docker": Docker(version="28", gpu_runtime=True, missing_images=("i",))}, {}, "spoils",
     "30.0 GiB for images"),
    ("disk", {"disks": (Disk(holds="data", free_gib=0.01, device=2),)}, {}, "spoils", "for data"),
    ("disk", {"disks": (Disk(holds="cache", free_gib=3.0, device=2),)}, {"kind": "url"}, "ok", "cache 3 GiB free"),
    ("disk", {"disks": ()}, {}, "unknown", "no free space"),
    ("docker", {"docker": Docker(error="it does not answer")}, {}, "spoils", "it does not answer"),
    ("docker", {"docker": Docker(error="it does not answer")}, {"kind": None}, "note", "it does not answer"),
    ("docker", {"docker": Docker(version="28", gpu_runtime=False)}, {}, "spoils", "without NVIDIA's runtime"),
    ("docker", {"docker": Docker(version="28", gpu_runtime=True, missing_images=("i@sha256:1",))}, {}, "note",
     "i@sha256:1"),
    ("docker", {"docker": None}, {"kind": "process"}, "ok", "no container is wanted"),
    ("models", {"missing_models": ("org/a", "org/b")}, {}, "note", "org/a, org/b"),
    ("models", {"missing_models": ("org/a",)}, {"kind": "url"}, "ok", "no model is loaded"),
    ("engine", {"engine_refusal": "engine.command: the program 'vllm' is not there"}, {}, "spoils", "'vllm'"),
    ("engine", {"docker": Docker(error="no")}, {}, "unknown", "no daemon answers"),
    ("engine", {}, {"kind": None}, "ok", "no plan given"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "facts", "needs", "level", "said"), CASES, ids=[f"{n}-{one[0]}-{one[3]}" for n, one in enumerate(CASES)]
)
def test_a_check_fires_where_it_should_and_nowhere_else(
    name: str, facts: dict[str, Any], needs: dict[str, Any], level: str, said: str
) -> None:
    found = CHECKS[name](replace(GOOD, **facts), replace(NEEDS, **needs))
    assert (found.level, said in found.found) == (level, True), found


def test_a_good_host_passes_every_check_and_every_check_can_complain() -> None:
    assert {one.level for one in examine(GOOD, NEEDS).values()} == {"ok"}
    assert {name for name, _, _, level, _ in CASES if level in ("spoils", "note")} == set(CHECKS)


def test_what_would_spoil_comes_with_its_reason_and_its_fix() -> None:
    for name, facts, needs, _, _ in CASES:
        found = CHECKS[name](replace(GOOD, **facts), replace(NEEDS, **needs))
        assert found.level in LEVELS
        assert bool(found.reason) == (found.level in ("spoils", "note")), found
        assert bool(found.fix) or found.level != "spoils", found


def test_of_a_host_that_tells_nothing_nothing_is_claimed() -> None:
    found = examine(Facts(gpu_error="no NVIDIA driver answers"), Needs())
    assert {name for name, one in found.items() if one.level == "ok"} <= {"p2p_cache", "docker", "models", "engine"}
    assert {name for name, one in found.items() if one.level == "spoils"} == {"driver"}


def test_space_that_two_things_share_must_hold_both() -> None:
    disks = (Disk(holds="models", free_gib=27.0, device=1), Disk(holds="cache", free_gib=27.0, device=1))
    wanted = replace(GOOD, disks=disks, missing_models=("org/a",))
    assert CHECKS["disk"](wanted, NEEDS).level == "spoils"
    apart = replace(wanted, disks=(disks[0], replace(disks[1], device=2)))
    assert CHECKS["disk"](apart, NEEDS).level == "ok"


def test_a_plan_tells_what_it_needs() -> None:
    dual = parse_plan((ROOT / "plans" / "dual-3090.yaml").read_text(), "dual-3090.yaml")
    needs = needs_of(dual, "docker")
    assert (needs.gpus, needs.needs_gpu, needs.nvlink_on, needs.nvlink_off, needs.ours) == (2, True, True, True, True)
    assert needs.rows == sum(len(run.stages) for run in dual.runs) > 100
    assert not needs_of(dual, "emulated").needs_gpu
    assert not needs_of(dual, "url").ours
    tiny = parse_plan((ROOT / "plans" / "cpu-tiny.yaml").read_text(), "cpu-tiny.yaml")
    assert not needs_of(tiny, "process").needs_gpu  # its environment is that of vLLM's build for the CPU


BAD = replace(
    GOOD,
    gpus=(CARD, replace(GOOD.gpus[1], link_width=4, slot_width_max=4, power_limit_w=280.0, display=True, nvlinks=0,
                        persistence=False)),
    foreign=("python3 (pid 4242) holds 5310 MiB of GPU 1",),
    p2p=False,
    iommu="translated",
    governor="powersave",
    load_1min=9.0,
    memory_gib=15.6,
    swap_used_gib=1.5,
    shm_gib=0.06,
    transparent_hugepages="always",
    nofile=1024.0,
    memlock_gib=8 / 1024,
    clock_synchronised=False,
    disks=SMALL,
    missing_models=("org/model-w4a16",),
    p2p_caches=(CACHE,),
    docker=Docker(version="28.1.1", gpu_runtime=False),
)  # fmt: skip


@pytest.mark.parametrize(("name", "facts"), [("good", GOOD), ("bad", BAD)])
def test_the_whole_report_of_a_good_and_a_bad_host(name: str, facts: Facts) -> None:
    told = "\n".join(lines(examine(facts, NEEDS))) + "\n"
    path = GOLDEN / f"doctor-{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(told)
    assert told == path.read_text()
