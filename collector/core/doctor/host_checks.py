"""Checks of the host around the GPUs: processor, memory, limits, clock, disks."""

from __future__ import annotations

from collector.core.doctor.facts import UNLIMITED, Facts, Needs
from collector.core.doctor.finding import Finding, note, ok, spoils, unknown

#: vLLM raises its soft limit to this at start, where the hard limit lets it.
OPEN_FILES = 65_535
#: Sockets and libraries of frontend, ranks and client stay far below this at a concurrency of a thousand.
ENOUGH_OPEN_FILES = 4_096
#: What NCCL's containers ask for is no limit at all; below this even small pinned buffers are refused.
LOCKED_GIB = 1 / 16
#: vLLM's processes hand messages through a ring of about 10 MB each, NCCL 4 MiB a channel and GPU; half a dozen
#: of them fit. Docker's default of 64 MiB does not.
SHM_GIB = 1.0
#: Pages that were swapped out come back in the middle of a window.
SWAP_GIB = 0.25
#: The engine's frontend and the client share the processor; what others take is missing there.
BUSY_SHARE = 0.25
#: Weights pass through the page cache, and a host that runs out kills the engine (exit code 137).
MEMORY_GIB = 24.0


def governor(facts: Facts, needs: Needs) -> Finding:
    if facts.governor is None:
        return unknown("this kernel does not say how the processor's clock is governed (as in a virtual machine)")
    if facts.governor == "performance":
        return ok("performance")
    return spoils(
        facts.governor,
        "between two engine steps the processor is idle and clocks down, so every step starts slower; "
        "elsewhere this has doubled the time to first token",
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )


def iommu(facts: Facts, needs: Needs) -> Finding:
    if facts.iommu is None:
        return unknown("the kernel does not say how its IOMMU is set")
    if facts.iommu != "translated":
        return ok(facts.iommu)
    reason = "with translated addresses P2P between GPUs goes through the root complex: slower, or a hang in NCCL"
    fix = (
        "add iommu=pt to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, sudo update-grub && sudo reboot; "
        "or switch the IOMMU off in the BIOS"
    )
    several = max(len(facts.gpus), needs.gpus) > 1
    return spoils(facts.iommu, reason, fix) if several else note(facts.iommu, reason, fix)


def cpu_load(facts: Facts, needs: Needs) -> Finding:
    if facts.load_1min is None or not facts.cpu_count:
        return unknown("the load of the processor could not be read")
    share = facts.load_1min / facts.cpu_count
    said = f"load {facts.load_1min:.1f} on {facts.cpu_count} processors"
    if share <= BUSY_SHARE:
        return ok(said)
    return note(
        said,
        f"over {BUSY_SHARE:.0%} is taken by others; the frontend may starve the engine (check client_bound)",
        "end what runs beside it; top shows what that is",
    )


def memory(facts: Facts, needs: Needs) -> Finding:
    if facts.memory_gib is None:
        return unknown("the host's memory could not be read")
    said = f"{facts.memory_gib:.0f} GiB"
    if facts.memory_gib >= MEMORY_GIB or not needs.needs_gpu:
        return ok(said)
    return note(
        said,
        f"weights of a 30B model load through host memory; below {MEMORY_GIB:.0f} GiB the kernel may kill the engine",
        "close what else runs, or add swap for the time of loading",
    )


def swap(facts: Facts, needs: Needs) -> Finding:
    if facts.swap_used_gib is None:
        return unknown("the use of swap could not be read")
    said = f"{facts.swap_used_gib:.1f} GiB in use"
    if facts.swap_used_gib <= SWAP_GIB:
        return ok(said)
    return note(said, "pages that come back from the disk do so inside a window", "sudo swapoff -a && sudo swapon -a")


def shared_memory(facts: Facts, needs: Needs) -> Finding:
    if facts.shm_gib is None:
        return unknown("the shared memory could not be read")
    said = f"{facts.shm_gib * 1024:.0f} MiB"
    if facts.shm_gib >= SHM_GIB:
        return ok(said)
    reason = f"the engine's processes and NCCL exchange through it; below {SHM_GIB * 1024:.0f} MiB starts fail"
    fix = "sudo mount -o remount,size=8G /dev/shm; inside a container start it with --shm-size=8g"
    return spoils(said, reason, fix) if needs.gpus > 1 and needs.kind != "docker" else note(said, reason, fix)


def transparent_hugepages(facts: Facts, needs: Needs) -> Finding:
    if facts.transparent_hugepages is None:
        return unknown("the kernel does not state its transparent huge pages")
    if facts.transparent_hugepages != "always":
        return ok(facts.transparent_hugepages)
    return note(
        "always",
        "the kernel compacts memory whenever it likes, also inside a window: the slowest percentiles vary more",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    )


def open_files(facts: Facts, needs: Needs) -> Finding:
    if facts.nofile is None:
        return unknown("the limit of open files could not be read")
    said = "unlimited" if facts.nofile == UNLIMITED else f"hard limit {facts.nofile:.0f}"
    if facts.nofile >= OPEN_FILES:
        return ok(said)
    reason = f"vLLM asks for {OPEN_FILES}; below {ENOUGH_OPEN_FILES} requests of a high concurrency are refused"
    fix = "echo '* hard nofile 1048576' | sudo tee /etc/security/limits.d/90-nofile.conf, then log in again"
    return note(said, reason, fix) if facts.nofile >= ENOUGH_OPEN_FILES else spoils(said, reason, fix)


def locked_memory(facts: Facts, needs: Needs) -> Finding:
    if facts.memlock_gib is None:
        return unknown("the limit of locked memory could not be read")
    said = "unlimited" if facts.memlock_gib == UNLIMITED else f"{facts.memlock_gib * 1024:.0f} MiB"
    if facts.memlock_gib >= LOCKED_GIB:
        return ok(said)
    return note(
        said,
        "NCCL and the loader pin host memory; where they may not, they take slower ways",
        "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/90-memlock.conf, then log in again",
    )


def clock(facts: Facts, needs: Needs) -> Finding:
    if facts.clock_synchronised is None:
        return unknown("the kernel does not say whether its clock is synchronised")
    if facts.clock_synchronised:
        return ok("synchronised")
    return note(
        "not synchronised",
        "windows are timed by another clock and stay right, but measured_at may be wrong and jump",
        "sudo timedatectl set-ntp true",
    )
