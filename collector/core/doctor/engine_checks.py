"""Checks of what a sweep starts and stores: containers, models, space, vLLM's cache of P2P."""

from __future__ import annotations

from collections import defaultdict

from collector.core.doctor.facts import Facts, Needs
from collector.core.doctor.finding import Finding, note, ok, spoils, unknown

#: 30B parameters at 4 bits with their scales, embeddings and a drafter.
MODEL_GIB = 25.0
#: An image of vLLM with CUDA and torch, unpacked, and its layers while it is pulled.
IMAGE_GIB = 30.0
#: torch.compile and Triton keep what they made of each configuration.
CACHE_GIB = 5.0
#: A row's scrapes and stage are about 40 kB packed, 300 bytes a request; a start's log 100 kB.
ROW_GIB = 200_000 / 2**30
REQUEST_GIB = 300 / 2**30


def engine(facts: Facts, needs: Needs) -> Finding:
    if needs.kind is None:
        return ok("no plan given: nothing to start")
    if needs.kind == "docker" and facts.docker and facts.docker.error:
        return unknown("not looked at while no daemon answers")
    if facts.engine_refusal:
        return spoils(facts.engine_refusal, "the sweep refuses to begin", "mend what the sentence names")
    return ok(f"kind {needs.kind} is ready to start")


def docker(facts: Facts, needs: Needs) -> Finding:
    found = facts.docker
    if found is None:
        return ok("no container is wanted")
    worse = spoils if needs.kind == "docker" else note  # without a plan it may not be wanted
    if found.error:
        fix = "sudo apt-get install docker.io && sudo usermod -aG docker $USER, then log in again"
        if found.host:
            fix = (
                f"DOCKER_HOST is {found.host}: let it name the socket of this machine's daemon, which must run and let "
                "you in, or unset it to take /var/run/docker.sock"
            )
        return worse(found.error, "an engine of kind docker starts in a container", fix)
    if found.gpu_runtime is False:
        return worse(
            f"Docker {found.version} without NVIDIA's runtime",
            "a container gets no GPU",
            "install nvidia-container-toolkit from NVIDIA's repository (docs/host.md has the lines), then "
            "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
        )
    if found.missing_images:
        images = ", ".join(found.missing_images)
        return note(f"Docker {found.version}; not pulled yet: {images}", "the first start would wait for it",
                    " && ".join(f"docker pull {one}" for one in found.missing_images))  # fmt: skip
    return ok(f"Docker {found.version} with NVIDIA's runtime")


def models(facts: Facts, needs: Needs) -> Finding:
    if needs.kind in (None, "emulated", "url"):
        return ok("no model is loaded from here")
    if not facts.missing_models:
        return ok("all models of the plan are here")
    missing = ", ".join(facts.missing_models)
    return note(
        f"not here yet: {missing}",
        "the first start would download it, whatever the repository holds that day, or fail with HF_HUB_OFFLINE=1",
        "hf download REPOSITORY --revision COMMIT --local-dir FOLDER, and name the folder in the plan",
    )


def disk(facts: Facts, needs: Needs) -> Finding:
    if not facts.disks:
        return unknown("no free space could be read")
    images = len(facts.docker.missing_images) if facts.docker else 0
    wanted = {
        "data": needs.rows * ROW_GIB + needs.requests * REQUEST_GIB,
        "cache": CACHE_GIB if needs.kind in ("process", "docker") else 0.0,
        "models": MODEL_GIB * len(facts.missing_models),
        "images": IMAGE_GIB * images,
    }
    needed: defaultdict[int, float] = defaultdict(float)
    for one in facts.disks:
        needed[one.device] += wanted[one.holds]
    said = ", ".join(f"{one.holds} {one.free_gib:.0f} GiB free" for one in facts.disks)
    short = [one.holds for one in facts.disks if one.free_gib < needed[one.device] and wanted[one.holds]]
    if not short:
        return ok(said)
    return spoils(
        f"{said}; needed are {' and '.join(f'{wanted[one]:.1f} GiB for {one}' for one in short)}",
        "a full disk ends the sweep in the middle (what was measured stays)",
        "free some space (docker system prune, old models), or sweep with --out on another disk",
    )


def p2p_cache(facts: Facts, needs: Needs) -> Finding:
    if not facts.p2p_caches:
        return ok("vLLM keeps no P2P cache here")
    paths = " ".join(one.path for one in facts.p2p_caches)
    fix = f"rm {paths}"
    if facts.p2p is not None and any(one.grants not in (None, facts.p2p) for one in facts.p2p_caches):
        says, does = ("grants", "does not") if facts.p2p is False else ("refuses", "grants it")
        return spoils(
            f"stale: it {says} P2P, the driver {does}",
            "vLLM believes its cache: custom all-reduce is on or off against what the cards can do",
            fix,
        )
    if needs.nvlink_off and not needs.ours:
        return spoils(
            "there, and the engine is not ours to clear it for",
            "a start with NVLink off would take over what one with NVLink on found",
            fix,
        )
    if all(one.grants is None for one in facts.p2p_caches):
        return unknown("there, but it cannot be read", fix=fix)
    if any(one.before_boot for one in facts.p2p_caches):
        return note("older than this boot", "driver, BIOS or bridge may have changed since", fix)
    agrees = "agrees with the driver; " if facts.p2p is not None else ""
    return ok(f"{agrees}the sweep clears it before each start that names nvlink")
