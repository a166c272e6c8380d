"""Telemetry of a window to the columns of a row and the verdicts of its checks.

Figures are over all GPUs that the engine uses: its power is the sum of theirs, its clock that of the slowest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

from collector.core.telemetry import GpuWatch, Reading
from collector.core.window import Window

#: An Ampere card's power is an average over the last second, by which the window's ends are blurred
#: (arXiv 2312.02741); below ten times that a figure of power or energy would be mostly blur.
POWER_WINDOW_S = 10.0
BLURRED = ("ampere", None)  # None: an unknown card gets no benefit of the doubt
#: The card slows down to protect itself. `sw_power_cap` is not among them: these cards run at their power limit.
THROTTLED = frozenset({"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake"})
NO_REASON = "none"
#: The all-reduces of one token move over 100 KB even in a model of 16 layers of width 2048; a link that idles
#: moves next to nothing. Between the two lies whether the link was used, whatever the speed.
NVLINK_BYTES_PER_TOKEN = 1000

NAMES = (
    "energy_j",
    "power_mean_w",
    "power_max_w",
    "idle_power_w",
    "power_limit_w",
    "energy_per_token_j",
    "tokens_per_joule",
    "sm_clock_mean_mhz",
    "sm_clock_min_mhz",
    "gpu_temperature_max_c",
    "gpu_utilisation_mean",
    "gpu_memory_peak_mib",
    "gpu_samples",
    "throttle_reasons",
    "nvlink_bytes",
    "pcie_bytes",
    "pcie_link_width_min",
    "pcie_generation_min",
)

Moment = tuple[Reading, ...]


def telemetry_columns(window: Window, generation_tokens: int | None) -> dict[str, Any]:
    """Return the telemetry columns; all are None where nobody watched or a card was lost on the way."""
    columns: dict[str, Any] = dict.fromkeys(NAMES)
    watch = window.gpus
    if watch is None:
        return columns | {"nvlink_bytes": window.telemetry.nvlink_bytes}
    if gpu_lost(watch):
        return columns
    inside = _inside(watch)
    return (
        columns
        | _power(watch, window.window_s, generation_tokens)
        | _under_load(inside)
        | {"gpu_samples": len(inside), "nvlink_bytes": _traffic(watch), "throttle_reasons": _reasons(watch)}
        | {"pcie_bytes": _pcie_bytes(inside, window.window_s)}
    )


def gpu_lost(watch: GpuWatch) -> bool:
    return any(one.lost for one in watch.readings)


def throttled(watch: GpuWatch) -> bool | None:
    """Return whether a card slowed down to protect itself; None where no card says."""
    told = [one.throttle_reasons for one in watch.readings if one.throttle_reasons is not None]
    return any(THROTTLED & set(reasons) for reasons in told) if told else None


def link_changed(watch: GpuWatch) -> bool | None:
    """Return whether a card's PCIe link under load was not the same throughout, or narrower than before the sweep.

    The generation falls while a card idles, so it is asked of the readings under load alone.
    """
    seen: list[bool] = []
    for index, readings in _by_card(_inside(watch)).items():
        generations = {one.pcie_generation for one in readings if one.pcie_generation is not None}
        widths = {one.pcie_width for one in readings if one.pcie_width is not None}
        before = {one.pcie_width for one in watch.idle if one.index == index and one.pcie_width is not None}
        if widths or generations:
            seen.append(len(generations) > 1 or len(widths | before) > 1)
    return any(seen) if seen else None


def link_used(window: Window, tokens: int | None) -> bool | None:
    """Return whether NVLink carried the all-reduces of these tokens; None where the traffic is not known."""
    carried = window.telemetry.nvlink_bytes if window.gpus is None else _traffic(window.gpus)
    return None if carried is None or not tokens else carried >= NVLINK_BYTES_PER_TOKEN * tokens


def _moments(watch: GpuWatch) -> list[Moment]:
    return [tuple(group) for _, group in groupby(watch.readings, key=lambda one: one.at_s)]


def _inside(watch: GpuWatch) -> list[Moment]:
    """Return the moments under load, without the window's ends."""
    return _moments(watch)[1:-1]


def _by_card(moments: Iterable[Moment]) -> dict[int, list[Reading]]:
    cards: dict[int, list[Reading]] = {}
    for moment in moments:
        for one in moment:
            cards.setdefault(one.index, []).append(one)
    return cards


def _grown(watch: GpuWatch, count: Callable[[Reading], float | None]) -> float | None:
    """Return what a counter grew by over the window and all cards; None where one is missing or fell."""
    moments = _moments(watch)
    if len(moments) < 2:
        return None
    grown = 0.0
    for began, ended in zip(moments[0], moments[-1], strict=True):
        first, last = count(began), count(ended)
        if first is None or last is None or last < first:
            return None
        grown += last - first
    return grown


def _traffic(watch: GpuWatch) -> int | None:
    def both_ways(one: Reading) -> int | None:
        sent, received = one.nvlink_tx_bytes, one.nvlink_rx_bytes
        return None if sent is None or received is None else sent + received

    grown = _grown(watch, both_ways)
    return None if grown is None else round(grown)


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if not known or None in known else sum(one for one in known if one is not None)


def _known(moments: Iterable[Moment], value: Callable[[Reading], Any]) -> list[Any]:
    return [found for moment in moments for one in moment if (found := value(one)) is not None]


def _power(watch: GpuWatch, window_s: float, tokens: int | None) -> dict[str, Any]:
    limits = [card.power_limit_w for card in watch.cards if card.power_limit_w is not None]
    columns: dict[str, Any] = {
        "idle_power_w": _sum(one.power_w for one in watch.idle),
        "power_limit_w": min(limits, default=None),
    }
    if window_s < POWER_WINDOW_S and any(card.architecture in BLURRED for card in watch.cards):
        return columns
    energy = _grown(watch, lambda one: one.energy_j)
    drawn = [total for moment in _inside(watch) if (total := _sum(one.power_w for one in moment)) is not None]
    columns |= {"energy_j": energy, "power_max_w": max(drawn, default=None)}
    if energy:
        columns["power_mean_w"] = energy / window_s
        columns["energy_per_token_j"] = energy / tokens if tokens else None
        columns["tokens_per_joule"] = tokens / energy if tokens else None
    return columns


def _under_load(inside: Sequence[Moment]) -> dict[str, Any]:
    clocks = [_known([tuple(readings)], lambda one: one.sm_clock_mhz) for readings in _by_card(inside).values()]
    utilisation = _known(inside, lambda one: one.utilisation)
    return {
        "sm_clock_mean_mhz": min((fmean(one) for one in clocks if one), default=None),
        "sm_clock_min_mhz": min((min(one) for one in clocks if one), default=None),
        "gpu_temperature_max_c": max(_known(inside, lambda one: one.temperature_c), default=None),
        "gpu_utilisation_mean": fmean(utilisation) if utilisation else None,
        "gpu_memory_peak_mib": max(_known(inside, lambda one: one.memory_used_mib), default=None),
        "pcie_link_width_min": min(_known(inside, lambda one: one.pcie_width), default=None),
        "pcie_generation_min": min(_known(inside, lambda one: one.pcie_generation), default=None),
    }


def _pcie_bytes(inside: Sequence[Moment], window_s: float) -> int | None:
    rates = [total for moment in inside if (total := _sum(one.pcie_bytes_per_s for one in moment)) is not None]
    return round(fmean(rates) * window_s) if rates else None


def _reasons(watch: GpuWatch) -> str | None:
    told = [one.throttle_reasons for one in watch.readings if one.throttle_reasons is not None]
    if not told:
        return None
    return " ".join(sorted({reason for reasons in told for reason in reasons} - {"gpu_idle"})) or NO_REASON
