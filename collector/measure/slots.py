"""GPUs as NVML knows them, joined with the slots that the kernel knows, by their PCI addresses."""

from __future__ import annotations

from collections.abc import Iterable

from collector.core.doctor.facts import Gpu
from collector.core.telemetry import Card, Pair, Reading
from collector.measure.gpu import Snapshot
from collector.measure.sysfs import Link

MIB_PER_GIB = 1024
#: 0000:01:00.0: NVML writes eight digits of the domain, the kernel four.
ADDRESS_DIGITS = 12


def gpus_of(found: Snapshot | None, links: Iterable[Link]) -> tuple[Gpu, ...]:
    """Return NVML's GPUs in its order; without NVML none, since then none can be used."""
    slots = {one.pci_address: one for one in links}
    cards = zip(found.cards, found.readings, strict=True) if found else ()
    return tuple(_gpu(card, reading, slots.get(_address(card))) for card, reading in cards)


def _address(card: Card) -> str:
    return (card.pci_bus_id or "").lower()[-ADDRESS_DIGITS:]


def _gpu(card: Card, reading: Reading, link: Link | None) -> Gpu:
    return Gpu(
        pci_address=_address(card),
        name=card.name,
        memory_gib=None if card.memory_total_mib is None else round(card.memory_total_mib / MIB_PER_GIB, 2),
        link_width=link.width if link and link.width else reading.pcie_width,
        link_width_max=link.width_max if link and link.width_max else card.pcie_width_max,
        slot_width_max=link.slot_width_max if link else None,
        link_generation_max=card.pcie_generation_max,
        power_limit_w=card.power_limit_w,
        power_limit_default_w=card.power_default_limit_w,
        persistence=card.persistence,
        display=card.display_active,
        nvlinks=None if card.nvlinks is None else sum(card.nvlinks),
    )


def granted(pairs: Iterable[Pair]) -> bool | None:
    """Return whether the driver lets every GPU reach every other; None where it does not tell or there is no other."""
    told = [one.read for one in pairs]
    if not told or None in told:
        return None
    return all(one == "ok" for one in told)
