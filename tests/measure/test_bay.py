"""The GPUs before a start and under an engine, on the stand-in driver and a clock that runs a hundred times as fast."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from collector.core.plan import parse_plan
from collector.core.telemetry import GpuWatch
from collector.measure import aside as aside_module
from collector.measure.bay import Bay, _shown, open_bay, used_gpus
from collector.measure.engines.interface import Launch
from collector.measure.failed import MeasurementError
from collector.measure.gpu import Gpus
from collector.measure.processes import descends, in_container
from collector.measure.sensor import Sensor, sensing
from tests.fakes.nvml import GpuHost

PLAN = """\
plan: 1
campaign: small
engine: {gpu_busy: POLICY}
models: {tiny: {path: tiny}}
matrix: {model: tiny, tensor_parallel: 2}
stages: {concurrency: {1: 1}}
"""
SPEED = 100.0
GONE = 4194305  # above the highest process number
UUIDS = ("GPU-abc", "GPU-def", None)


class FastClock:
    def monotonic(self) -> float:
        return monotonic() * SPEED

    def utc_now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def cpu(self) -> float | None:
        return None

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / SPEED)


def launch_of(policy: str = "wait", **configuration: Any) -> Launch:
    plan = parse_plan(PLAN.replace("POLICY", policy), "p.yaml")
    return Launch(
        configuration=replace(plan.configurations[0], **configuration),
        repeat=1,
        attempt=1,
        engine=plan.engine,
        log=Path("unused"),
        variables={},
    )


class Ward:
    """A bay whose words are kept."""

    def __init__(self) -> None:
        self.told: list[str] = []
        bay = open_bay("process", FastClock(), self.told.append)
        assert bay is not None
        self.bay: Bay = bay

    async def ready(self, policy: str = "wait", limit_s: float = 5, **configuration: Any) -> Sensor | None:
        made = await self.bay.made_ready(launch_of(policy, **configuration), limit_s)
        return made(lambda pid: None if pid == GONE else pid == os.getpid()) if made else None

    def fails(self, policy: str = "wait", limit_s: float = 5) -> MeasurementError:
        with pytest.raises(MeasurementError) as raised:
            asyncio.run(self.ready(policy, limit_s))
        return raised.value


@pytest.fixture
def ward(here: GpuHost) -> Ward:
    here.set(0, power_mw=20000)
    here.set(1, power_mw=30000)
    return Ward()


# --- which GPUs, and whether they are free ---------------------------------------------------------------------


def test_only_an_engine_of_this_host_has_its_gpus(here: GpuHost) -> None:
    """So that no emulated row, and none of an engine that somebody runs anywhere, tells of this host's GPUs."""
    opened = {kind: open_bay(kind, FastClock(), print) is not None for kind in ("process", "docker", "url", "emulated")}
    assert opened == {"process": True, "docker": True, "url": False, "emulated": False}


@pytest.mark.parametrize(("visible", "configuration", "used"), [
    (None, {}, (0, 1)),
    (None, {"tensor_parallel": 1}, (0,)),
    (None, {"tensor_parallel": 1, "flags": (("pipeline-parallel-size", 3),)}, (0, 1, 2)),
    ("1", {}, (1,)),
    ("2, 0", {}, (2, 0)),
    ("GPU-d,0", {}, (1, 0)),
    ("0,7,1", {}, (0,)),
    ("", {}, ()),
    ("-1", {}, ()),
    ("0", {"environment": (("CUDA_VISIBLE_DEVICES", "2,1"),)}, (2, 1)),
])  # fmt: skip
def test_an_engine_uses_as_many_of_the_visible_gpus_as_it_has_ranks(
    visible: str | None, configuration: dict[str, Any], used: tuple[int, ...]
) -> None:
    launch = launch_of(**configuration)
    launch = replace(launch, variables={} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert used_gpus(launch.configuration, _shown(launch, "process"), UUIDS) == used


@pytest.mark.parametrize(("gpus", "environment", "used"), [
    ("all", (), (0, 1)),
    ("none", (), ()),
    (("1", "2"), (), (1, 2)),
    (("GPU-def", "0"), (("CUDA_VISIBLE_DEVICES", "1"),), (0,)),
])  # fmt: skip
def test_a_container_sees_what_it_was_given_and_nothing_of_the_host_s_environment(
    gpus: Any, environment: Any, used: tuple[int, ...]
) -> None:
    launch = launch_of(environment=environment)
    container = launch.engine.container.model_copy(update={"gpus": gpus})
    engine = launch.engine.model_copy(update={"container": container})
    launch = replace(launch, engine=engine, variables={"CUDA_VISIBLE_DEVICES": "2"})
    assert used_gpus(launch.configuration, _shown(launch, "docker"), UUIDS) == used


def test_free_gpus_are_used_at_once_and_known_idle(ward: Ward) -> None:
    sensor = asyncio.run(ward.ready())
    assert sensor is not None
    assert [card.index for card in sensor.cards] == [0, 1]
    assert [one.power_w for one in sensor.idle] == [20.0, 30.0]
    assert {card.uuid for card in sensor.cards} == {None}  # a published row must not name the very card
    assert ward.told == []


def test_an_engine_that_sees_no_gpu_has_no_sensor(ward: Ward) -> None:
    assert asyncio.run(ward.ready(environment=(("CUDA_VISIBLE_DEVICES", ""),))) is None


def test_a_desktop_does_not_hold_a_gpu(here: GpuHost, ward: Ward) -> None:
    here.set(0, graphics="99:800")
    assert asyncio.run(ward.ready("refuse")) is not None


def test_whoever_computes_there_is_named_and_refused(here: GpuHost, ward: Ward) -> None:
    here.set(1, compute="4711:512")
    here.set("name", **{"4711": "/usr/bin/trainer"})
    error = ward.fails("refuse", limit_s=1e6)
    assert (error.category, error.phase, error.retryable) == ("gpu_busy", "launch", True)
    assert str(error) == "GPU 1 is held by trainer (pid 4711, 512 MiB)"


def test_whoever_computes_there_is_waited_for_up_to_the_limit(here: GpuHost, ward: Ward) -> None:
    here.set(0, compute="4711:512 4712:1")
    here.set("name", **{"4711": "trainer", "4712": "other"})
    began = monotonic()
    error = ward.fails("wait", limit_s=20)
    assert monotonic() - began >= 20 / SPEED
    held = "GPU 0 is held by trainer (pid 4711, 512 MiB); GPU 0 is held by other (pid 4712, 1 MiB)"
    assert (error.category, str(error)) == ("gpu_busy", held)
    assert ward.told == [f"  waiting up to 20 s: {held}"]


def test_who_goes_lets_the_engine_start(here: GpuHost, ward: Ward) -> None:
    here.set(0, compute="4711:512")

    async def going() -> None:
        await asyncio.sleep(0.1)
        here.set(0, compute=None)

    async def both() -> Sensor | None:
        return (await asyncio.gather(ward.ready("wait", 1000), going()))[0]

    assert asyncio.run(both()) is not None


def test_a_plan_may_start_beside_somebody(here: GpuHost, ward: Ward) -> None:
    here.set(0, compute="4711:512")
    assert asyncio.run(ward.ready("ignore")) is not None


def test_memory_of_the_engine_before_must_be_gone(here: GpuHost, ward: Ward) -> None:
    """The same within what a desktop moves by; nothing of power is learnt again."""
    asyncio.run(ward.ready())
    here.set(1, used_mib=300 + 256, power_mw=90000)
    sensor = asyncio.run(ward.ready())
    assert sensor is not None
    assert [one.power_w for one in sensor.idle] == [20.0, 30.0]
    here.set(1, used_mib=300 + 257)
    for policy in ("wait", "refuse"):
        error = ward.fails(policy)
        assert (error.category, error.retryable) == ("gpu_busy", True)
        assert str(error) == "GPU 1 holds 257 MiB more than before the first engine, by no known process"


def test_a_lost_gpu_is_named_before_the_engine_dies_of_it(here: GpuHost, ward: Ward) -> None:
    here.set(1, lost=1)
    error = ward.fails()
    assert (error.category, error.retryable) == ("cuda_driver", True)
    assert str(error) == "GPU 1 has fallen off the bus or must be reset"


# --- what a window sees ------------------------------------------------------------------------------------------


def watched(ward: Ward, seconds: float, during: Callable[[], Coroutine[Any, Any, None]] | None = None) -> GpuWatch:
    """Return what is seen of a window; `during` changes the host meanwhile."""

    async def work() -> GpuWatch:
        sensor = await ward.ready("ignore")
        clock = ward.bay.clock
        async with sensing(sensor, clock) as sensed:
            await clock.sleep(5)  # a ramp before the window is not of it
            opened = clock.monotonic()
            sensed.edge()
            await asyncio.gather(clock.sleep(seconds), *((during(),) if during else ()))
            sensed.edge()
            closed = clock.monotonic()
        watch = await sensed.watch(opened, closed)
        assert watch is not None
        return watch

    return asyncio.run(work())


def test_a_window_is_read_at_its_ends_and_once_a_second(here: GpuHost, ward: Ward) -> None:
    here.set(0, compute=f"{os.getpid()}:20000")
    found = watched(ward, 40)
    moments = sorted({one.at_s for one in found.readings})
    assert [one.index for one in found.readings] == [0, 1] * len(moments)
    assert 0 <= moments[0] < 20
    assert moments[-1] >= 40
    assert 5 <= len(moments) <= 43
    assert found.foreign == ()
    with_pcie = [one for one in found.readings if one.index == 0 and one.pcie_bytes_per_s is not None]
    assert 1 <= len(with_pcie) <= 5


def test_a_change_under_load_is_seen(here: GpuHost, ward: Ward) -> None:
    async def narrows() -> None:
        await asyncio.sleep(0.15)
        here.set(1, pcie_width=4, event_reasons="0x40")
        await asyncio.sleep(0.15)
        here.set(1, pcie_width=8, event_reasons="0x0")

    found = watched(ward, 45, narrows)
    assert {one.pcie_width for one in found.readings if one.index == 1} == {8, 4}
    assert {one.pcie_width for one in found.readings if one.index == 0} == {8}
    reasons = {reason for one in found.readings for reason in one.throttle_reasons or ()}
    assert reasons == {"sw_power_cap", "hw_thermal_slowdown"}


def test_a_gpu_that_is_lost_on_the_way_is_seen(here: GpuHost, ward: Ward) -> None:
    async def falls() -> None:
        await asyncio.sleep(0.1)
        here.set(1, lost=1)

    found = watched(ward, 30, falls)
    assert [one.lost for one in found.readings[:2]] == [False, False]
    assert [one.lost for one in found.readings[-2:]] == [False, True]


def test_somebody_who_comes_and_goes_is_named_beside_the_engine(here: GpuHost, ward: Ward) -> None:
    """A desktop is not: it only draws."""
    here.set(0, compute=f"{os.getpid()}:20000", graphics="99:64")
    here.set("name", **{str(GONE): "/usr/bin/trainer", str(os.getppid()): "shell", "99": "Xorg"})

    async def visits() -> None:
        await asyncio.sleep(0.1)
        here.set(1, compute=f"{GONE}:512 {os.getppid()}")
        await asyncio.sleep(0.2)
        here.set(1, compute=None)

    assert watched(ward, 45, visits).foreign == (f"trainer (pid {GONE}, 512 MiB)", f"shell (pid {os.getppid()})")


def test_where_the_engine_s_processes_do_not_show_those_of_others_may_not_either(here: GpuHost, ward: Ward) -> None:
    assert watched(ward, 5).foreign is None
    here.set(0, compute=f"{GONE}:512")
    assert watched(ward, 5).foreign is None
    here.set("name", **{str(os.getppid()): "shell"})
    here.set(1, compute=f"{os.getppid()}:7")
    assert watched(ward, 5).foreign == (f"shell (pid {os.getppid()}, 7 MiB)",)


def test_a_driver_that_hangs_has_lost_its_cards_and_holds_up_nobody(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads that wait for it are daemons, so that not even the exit waits for them."""
    monkeypatch.setattr(aside_module, "ANSWER_S", 0.05)
    honest = Gpus.reading

    async def hangs() -> None:
        await asyncio.sleep(0.05)
        monkeypatch.setattr(Gpus, "reading", lambda *_: asyncio.run(asyncio.sleep(2)))

    found = watched(ward, 30, hangs)
    monkeypatch.setattr(Gpus, "reading", honest)
    assert [one.lost for one in found.readings[-2:]] == [True, True]


def test_a_fault_of_ours_is_not_swallowed(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async def breaks() -> None:
        await asyncio.sleep(0.05)
        monkeypatch.setattr(Gpus, "processes", broken)

    with pytest.raises(ZeroDivisionError):
        watched(ward, 30, breaks)


def test_a_process_belongs_to_those_it_comes_from() -> None:
    assert descends(os.getpid(), os.getpid()) is True
    assert descends(os.getpid(), os.getppid()) is True
    assert descends(os.getppid(), os.getpid()) is False
    assert descends(4194305, os.getpid()) is None


def test_a_process_runs_in_the_container_that_its_control_group_names() -> None:
    own = Path("/proc/self/cgroup").read_text().strip().rpartition("/")[2]
    assert in_container(os.getpid(), "0123456789abcdef" * 4) is False
    assert in_container(os.getpid(), own) is True
    assert in_container(GONE, own) is None
