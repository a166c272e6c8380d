"""Telemetry of a window: what its figures are, what they are not, and which check each fault fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from collector.core.gpu_figures import NVLINK_BYTES_PER_TOKEN, POWER_WINDOW_S, telemetry_columns
from collector.core.record import make_row
from collector.core.rows import Row
from collector.core.telemetry import GpuWatch, Reading
from collector.core.window import Telemetry, Window
from tests.data_files import CONTEXT, WATCHED, cell_of, pair, window_of

RECORDED = pair("metrics/vllm-0.27.0-spec")
TOKENS = 1000
MOMENTS = (0.0, 0.25, 1.25, 20.0)


def reading(index: int, at_s: float, **changes: Any) -> Reading:
    """Return a card under load: 300 W, 1 MB/s each way on the link; card 1 is a little slower and hotter."""
    known: dict[str, Any] = {
        "power_w": 300.0 + 10 * index + at_s,
        "energy_j": 5e6 + 300.0 * at_s,
        "sm_clock_mhz": 1800 - 15 * index - round(4 * at_s),
        "memory_clock_mhz": 9501,
        "temperature_c": 60 + 5 * index,
        "throttle_reasons": ("sw_power_cap",),
        "utilisation": 0.9 + index * 0.1,
        "memory_used_mib": 20000.0 + 1000 * index,
        "nvlink_tx_bytes": round(1e6 * at_s),
        "nvlink_rx_bytes": round(1e6 * at_s),
        "pcie_generation": 4,
        "pcie_width": 8,
        "pcie_bytes_per_s": 4000 if at_s == 0.25 else None,
    }
    return Reading(index=index, at_s=at_s, **(known | changes))


def watched(change: Callable[[Reading], Reading] = lambda one: one, **changes: Any) -> GpuWatch:
    """Return two joined cards over 20 s; `change` alters each of their readings."""
    watch = GpuWatch(
        cards=tuple(replace(card, power_limit_w=350.0 - card.index) for card in WATCHED.cards),
        idle=tuple(replace(reading(index, 0), power_w=25.0, pcie_generation=1) for index in range(2)),
        readings=tuple(change(reading(index, at_s)) for at_s in MOMENTS for index in range(2)),
        foreign=(),
    )
    return replace(watch, **changes)


def at(second: float, index: int, **changes: Any) -> Callable[[Reading], Reading]:
    return lambda one: replace(one, **changes) if (one.at_s, one.index) == (second, index) else one


def always(**changes: Any) -> Callable[[Reading], Reading]:
    return lambda one: replace(one, **changes)


def window(watch: GpuWatch | None, window_s: float = 20.0) -> Window:
    return replace(window_of(RECORDED), gpus=watch, window_s=window_s)


def columns(watch: GpuWatch | None, window_s: float = 20.0) -> dict[str, Any]:
    return telemetry_columns(window(watch, window_s), TOKENS)


def row(watch: GpuWatch | None, **configuration: Any) -> Row:
    """Return the row of a configuration on two cards; it says `nvlink: on` unless told otherwise."""
    fixed, stage = cell_of(RECORDED)
    return make_row(CONTEXT, replace(fixed, **({"tensor_parallel": 2} | configuration)), stage, window(watch))[0]


def test_figures_are_over_all_cards() -> None:
    assert columns(watched()) == {
        "energy_j": 12000.0,  # 20 s of 300 W on two cards
        "power_mean_w": 600.0,
        "power_max_w": 300 + 310 + 2 * 1.25,  # the window's ends are not under load
        "idle_power_w": 50.0,
        "power_limit_w": 349.0,
        "energy_per_token_j": 12.0,
        "tokens_per_joule": 1000 / 12000,
        "sm_clock_mean_mhz": (1784 + 1780) / 2,  # of the slower card
        "sm_clock_min_mhz": 1780,
        "gpu_temperature_max_c": 65,
        "gpu_utilisation_mean": 0.95,
        "gpu_memory_peak_mib": 21000.0,
        "gpu_samples": 2,
        "throttle_reasons": "sw_power_cap",
        "nvlink_bytes": 80_000_000,
        "pcie_bytes": 8000 * 20,
        "pcie_link_width_min": 8,
        "pcie_generation_min": 4,
    }


def test_the_row_has_them() -> None:
    made = row(watched())
    assert (made.energy_j, made.nvlink_bytes, made.checks, made.checks_not_run) == (12000.0, 80_000_000, "", "")


@pytest.mark.parametrize(("architecture", "window_s", "told"), [
    ("ampere", POWER_WINDOW_S - 0.1, False),
    ("ampere", POWER_WINDOW_S, True),
    (None, POWER_WINDOW_S - 0.1, False),
    ("hopper", POWER_WINDOW_S - 0.1, True),
])  # fmt: skip
def test_a_short_window_on_ampere_has_no_figure_of_power(architecture: str, window_s: float, told: bool) -> None:
    cards = tuple(replace(card, architecture=architecture) for card in watched().cards)
    found = columns(watched(cards=cards), window_s)
    power = ("energy_j", "power_mean_w", "power_max_w", "energy_per_token_j", "tokens_per_joule")
    assert {found[name] is not None for name in power} == {told}
    assert (found["sm_clock_min_mhz"], found["idle_power_w"]) == (1780, 50.0)


@pytest.mark.parametrize(("change", "empty"), [
    (always(nvlink_rx_bytes=None), {"nvlink_bytes"}),
    (at(0.0, 1, nvlink_tx_bytes=10**12), {"nvlink_bytes"}),
    (at(20.0, 1, energy_j=None), {"energy_j", "power_mean_w", "energy_per_token_j", "tokens_per_joule"}),
    (at(20.0, 0, energy_j=1.0), {"energy_j", "power_mean_w", "energy_per_token_j", "tokens_per_joule"}),
    (always(pcie_bytes_per_s=None), {"pcie_bytes"}),
    (always(pcie_width=None), {"pcie_link_width_min"}),
    (always(throttle_reasons=None), {"throttle_reasons"}),
    (always(utilisation=None, temperature_c=None), {"gpu_utilisation_mean", "gpu_temperature_max_c"}),
    (always(sm_clock_mhz=None), {"sm_clock_mean_mhz", "sm_clock_min_mhz"}),
    (always(memory_used_mib=None, pcie_generation=None), {"gpu_memory_peak_mib", "pcie_generation_min"}),
])  # fmt: skip
def test_what_a_card_does_not_tell_or_tells_falling_is_empty(change: Callable[..., Reading], empty: set[str]) -> None:
    assert {name for name, value in columns(watched(change)).items() if value is None} == empty


def test_no_reason_is_said_in_a_word_since_an_empty_field_is_unknown() -> None:
    assert columns(watched(always(throttle_reasons=("gpu_idle",))))["throttle_reasons"] == "none"


def test_a_card_that_was_lost_leaves_no_figure() -> None:
    assert set(columns(watched(at(1.25, 1, lost=True))).values()) == {None}


def test_unwatched_only_the_engine_s_own_count_is_there() -> None:
    own = telemetry_columns(replace(window(None), telemetry=replace(window(None).telemetry, nvlink_bytes=7)), TOKENS)
    assert {name: value for name, value in own.items() if value is not None} == {"nvlink_bytes": 7}


#: name of the case: (what is watched, the checks that then fail; ~ marks what cannot run)
CASES: dict[str, tuple[GpuWatch | None, set[str]]] = {
    "nobody watched": (
        None,
        {"~gpu_lost", "~throttled", "~link_width_changed", "~foreign_gpu_process", "~nvlink_traffic"},
    ),
    "a card is lost": (watched(at(1.25, 1, lost=True)), {"gpu_lost"}),
    "heat": (watched(at(1.25, 1, throttle_reasons=("sw_thermal_slowdown",))), {"throttled"}),
    "heat, by the hardware": (watched(at(1.25, 1, throttle_reasons=("hw_thermal_slowdown",))), {"throttled"}),
    "the hardware slows down": (watched(at(0.25, 0, throttle_reasons=("gpu_idle", "hw_slowdown"))), {"throttled"}),
    "the power brake": (watched(at(20.0, 0, throttle_reasons=("hw_power_brake",))), {"throttled"}),
    "no reason is told": (watched(always(throttle_reasons=None)), {"~throttled"}),
    "the link narrows": (watched(at(1.25, 1, pcie_width=4)), {"link_width_changed"}),
    "the link slows": (watched(at(1.25, 1, pcie_generation=3)), {"link_width_changed"}),
    "the link is narrower than before": (watched(always(pcie_width=4)), {"link_width_changed"}),
    "no link is told": (watched(always(pcie_width=None, pcie_generation=None)), {"~link_width_changed"}),
    "the link rests at the ends": (watched(lambda one: one if one.at_s else replace(one, pcie_generation=1)), set()),
    "somebody else": (watched(foreign=("trainer (pid 7, 512 MiB)",)), {"foreign_gpu_process"}),
    "whose a process is, is unknown": (watched(foreign=None), {"~foreign_gpu_process"}),
    "no traffic": (watched(always(nvlink_tx_bytes=5, nvlink_rx_bytes=5)), {"nvlink_traffic"}),
    "no link": (watched(always(nvlink_tx_bytes=None, nvlink_rx_bytes=None)), {"~nvlink_traffic"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_of_the_cards_fails_its_own_check_and_no_other(case: str) -> None:
    watch, expected = CASES[case]
    made = row(watch)
    assert {*made.checks.split(), *(f"~{name}" for name in made.checks_not_run.split())} == expected


def traffic(each: int) -> GpuWatch:
    """Return two cards of which each has sent `each` bytes by the end and received none."""
    return watched(lambda one: replace(one, nvlink_tx_bytes=each if one.at_s else 0, nvlink_rx_bytes=0))


@pytest.mark.parametrize(("nvlink", "used", "unused"), [
    ("on", "", "nvlink_traffic"),
    ("off", "nvlink_traffic", ""),
    (None, "", ""),
])  # fmt: skip
def test_the_link_is_used_exactly_where_it_is_on(nvlink: str | None, used: str, unused: str) -> None:
    """Below the limit lies what an idle link moves."""
    tokens = row(None).generation_tokens or 0
    limit = NVLINK_BYTES_PER_TOKEN * tokens // 2
    assert row(traffic(limit), nvlink=nvlink).checks == used
    assert row(traffic(limit - 1), nvlink=nvlink).checks == unused


def test_emulated_cards_have_nothing_to_fail_but_their_traffic() -> None:
    fixed, stage = cell_of(RECORDED)
    joined = replace(fixed, tensor_parallel=2)
    own = replace(window(None), telemetry=Telemetry(nvlink_bytes=0))
    made, _ = make_row(replace(CONTEXT, provenance="emulated"), joined, stage, own)
    assert (made.checks, made.checks_not_run) == ("nvlink_traffic", "")


def test_one_card_has_no_link_to_use() -> None:
    assert row(traffic(0), nvlink="on", tensor_parallel=1).checks == ""
