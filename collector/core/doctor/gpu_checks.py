"""Checks of the GPUs: is the driver there, and do the cards run as they would when nobody else wants them?"""

from __future__ import annotations

from collector.core.doctor.facts import Facts, Gpu, Needs
from collector.core.doctor.finding import Finding, note, ok, spoils, unknown

#: Two 3090s in a board with two slots run at x8 each, and decoding hardly notices. At x4 the all-reduce of
#: every layer waits for the link: a card moved from such a slot went from 11 to 24.7 tok/s.
ENOUGH_LANES = 8
#: Below generation 3 even 16 lanes carry less than 8 lanes of generation 4.
ENOUGH_GENERATION = 3
#: NVML and the board round differently.
POWER_TOLERANCE_W = 1.0

NO_NVML = "NVML does not answer"


def driver(facts: Facts, needs: Needs) -> Finding:
    if facts.gpu_error is None and len(facts.gpus) >= needs.gpus:
        names = sorted({gpu.name or "GPU" for gpu in facts.gpus})
        cuda = f", CUDA up to {facts.cuda_version}" if facts.cuda_version else ""
        return ok(f"driver {facts.driver_version}{cuda}; {len(facts.gpus)} × {' and '.join(names)}")
    if not needs.needs_gpu or not needs.ours:
        return ok(f"no GPU is needed here ({facts.gpu_error or 'none is there'})")
    if facts.gpu_error is None:
        return spoils(
            f"{len(facts.gpus)} GPU{'' if len(facts.gpus) == 1 else 's'}, but the plan needs {needs.gpus}",
            "an engine asked for more GPUs than there are does not start",
            "lower tensor_parallel in the plan, or see with nvidia-smi -L why a card is missing",
        )
    return spoils(
        f"no GPU can be used: {facts.gpu_error}",
        "nothing can be measured without one; engine kind auto would emulate instead",
        "sudo ubuntu-drivers install --gpgpu && sudo reboot, then nvidia-smi",
    )


def link_width(facts: Facts, needs: Needs) -> Finding:
    known = [(n, gpu) for n, gpu in enumerate(facts.gpus) if gpu.link_width and gpu.link_width_max]
    if not known:
        return unknown("no PCIe link could be read")
    said = ", ".join(f"GPU {n} x{gpu.link_width} of x{gpu.link_width_max}{_slot(gpu)}" for n, gpu in known)
    reason = "over fewer lanes weights load and GPUs exchange more slowly; NVLink relieves only the exchange"
    fix = "move the card to a slot wired to the processor (board manual), or set the slot's lanes in the BIOS"
    if any(min(gpu.link_width or 0, ENOUGH_LANES) < min(gpu.link_width_max or 0, ENOUGH_LANES) for _, gpu in known):
        return spoils(said, reason, fix)
    if len({gpu.link_width for _, gpu in known}) > 1:
        return note(said, f"the slower link sets the pace of both; {reason}", fix)
    if any((gpu.link_width or 0) < (gpu.link_width_max or 0) for _, gpu in known):
        return note(said, reason, fix)
    return ok(said)


def _slot(gpu: Gpu) -> str:
    narrow = gpu.slot_width_max and gpu.link_width_max and gpu.slot_width_max < gpu.link_width_max
    return f" (slot x{gpu.slot_width_max})" if narrow else ""


def link_generation(facts: Facts, needs: Needs) -> Finding:
    known = [(n, gpu.link_generation_max) for n, gpu in enumerate(facts.gpus) if gpu.link_generation_max]
    if not known:
        return unknown("no PCIe generation could be read")
    said = ", ".join(f"GPU {n} up to generation {generation}" for n, generation in known)
    if min(generation for _, generation in known) < ENOUGH_GENERATION:
        fix = "set the slot to Gen4 (or Auto) in the BIOS; a riser cable may need Gen3"
        return spoils(said, "the link carries a quarter or less of what the card can take", fix)
    return ok(f"{said} (an idle link runs at a lower one; the sweep looks at it under load)")


def power_cap(facts: Facts, needs: Needs) -> Finding:
    known = [
        (n, gpu.power_limit_w, gpu.power_limit_default_w)
        for n, gpu in enumerate(facts.gpus)
        if gpu.power_limit_w is not None and gpu.power_limit_default_w is not None
    ]
    if not known:
        return unknown("no power limit could be read")
    said = ", ".join(f"GPU {n} {limit:.0f} of {default:.0f} W" for n, limit, default in known)
    capped = [one for one in known if one[1] < one[2] - POWER_TOLERANCE_W]
    if not capped:
        return ok(said)
    reason = (
        "a capped card clocks lower as soon as it is busy, so the figures are those of the cap; "
        "lifting the caps took one pair of 3090s from 92 to 183 tok/s, and changed nothing on another"
    )
    fix = " && ".join(f"sudo nvidia-smi -i {n} -pl {default:.0f}" for n, _, default in capped)
    return spoils(said, reason, f"{fix} (or leave it, if this is how you serve, and say so in the plan's about)")


def display(facts: Facts, needs: Needs) -> Finding:
    known = [n for n, gpu in enumerate(facts.gpus) if gpu.display is not None]
    if not known:
        return unknown("no GPU says whether it drives a screen")
    drawing = [n for n, gpu in enumerate(facts.gpus) if gpu.display]
    reason = "the desktop takes GPU memory from the KV cache and time from the engine, more or less as windows open"
    fix = "sudo systemctl isolate multi-user.target (back with graphical.target), or plug the screen into the board"
    if drawing:
        return spoils(f"a screen is drawn on {_gpus(drawing)}", reason, fix)
    if facts.drawing:
        return note("; ".join(facts.drawing), reason, fix)
    return ok("no GPU drives a screen")


def foreign_processes(facts: Facts, needs: Needs) -> Finding:
    if facts.foreign is None:
        return unknown(NO_NVML)
    if not facts.foreign:
        return ok("nothing else runs on the GPUs")
    if not needs.ours:
        return note("; ".join(facts.foreign), "the engine that is measured should be the only one of these")
    return spoils(
        "; ".join(facts.foreign),
        "what another process does on the card is in the figures, and its memory is missing from the KV cache",
        "end it, or wait for it; nvidia-smi lists what is there",
    )


def persistence(facts: Facts, needs: Needs) -> Finding:
    known = [n for n, gpu in enumerate(facts.gpus) if gpu.persistence is not None]
    if not known:
        return unknown("no GPU states its persistence mode")
    off = [n for n, gpu in enumerate(facts.gpus) if gpu.persistence is False]
    if not off:
        return ok("persistence mode is on")
    return note(
        f"persistence mode is off on {_gpus(off)}",
        "between two engines the driver lets go of the card: each start is slower, and a power limit may be lost",
        "sudo nvidia-smi -pm 1",
    )


def nvlink(facts: Facts, needs: Needs) -> Finding:
    if facts.gpu_error is not None:
        return unknown(NO_NVML)
    up = [(n, gpu.nvlinks) for n, gpu in enumerate(facts.gpus) if gpu.nvlinks is not None]
    said = ", ".join(f"GPU {n} {count} links up" for n, count in up) or "no GPU states an NVLink"
    linked = bool(up) and all(count for _, count in up)
    if linked and facts.p2p is False:
        return spoils(
            f"{said}, but the driver does not grant P2P",
            "without P2P nothing crosses the bridge, and rows with NVLink would be rows without",
            "nvidia-smi topo -p2p r names the cause; a newer driver or the BIOS (IOMMU, ACS) mends it",
        )
    if linked:
        return ok(said)
    if needs.nvlink_on:
        return spoils(
            f"{said}, but the plan has configurations with nvlink: on",
            "they would run over PCIe and be taken for NVLink",
            "seat the bridge and see nvidia-smi nvlink --status, or take nvlink out of the plan",
        )
    return ok(f"{said}; the plan does not ask for one" if needs.kind else f"{said} (a plan with nvlink: on needs it)")


def p2p(facts: Facts, needs: Needs) -> Finding:
    if facts.gpu_error is not None:
        return unknown(NO_NVML)
    if len(facts.gpus) < 2:
        return ok("one GPU: nothing to exchange with")
    if facts.p2p is None:
        return unknown("the driver does not say whether it grants P2P")
    if facts.p2p:
        return ok("the driver grants P2P between the GPUs")
    return note(
        "the driver does not grant P2P between the GPUs",
        "NCCL goes through host memory, and vLLM's custom all-reduce stays off; usual for a GeForce without a bridge",
    )


def _gpus(numbers: list[int]) -> str:
    return " and ".join(f"GPU {n}" for n in numbers)
