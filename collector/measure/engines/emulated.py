"""The embedded engine: emulates vLLM on the hardware of a profile, in the collector's own event loop.

Nothing is measured: its rows say `emulated`. This is the one place where measuring imports the emulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from collector.core.configuration import Plan
from collector.core.secrets import redact, secret_values
from collector.core.step import StepLoad
from collector.core.window import Telemetry
from collector.emulator.engine import EmbeddedEngine
from collector.emulator.physics import link_bytes, step_time
from collector.emulator.profile import Profile
from collector.emulator.profile_file import profile_of
from collector.emulator.setup import Setup, setup_of
from collector.emulator.transport import EngineTransport
from collector.measure.engines.interface import End, Launch
from collector.measure.host import Host
from collector.measure.target import Target
from collector.measure.virtual import EPOCH, VirtualClock

SIGNALLED = 128


def preflight(plan: Plan, variables: Mapping[str, str]) -> None:  # nothing of the host is used
    """See that the profile has what the plan asks for."""
    profile = profile_of(plan.engine.profile)
    for run in plan.runs:
        setup = setup_of(run.configuration, run.repeat)
        profile.model(setup.model)
        scripted = profile.outcome(setup)
        if setup.speculates and not (scripted and scripted.log):
            profile.conditional(setup.model, setup.speculation, setup.num_speculative_tokens, profile.default_kind)


def host_of(plan: Plan) -> Host:
    """Return the host that is emulated."""
    profile = profile_of(plan.engine.profile)
    count = max(configuration.tensor_parallel for configuration in plan.configurations)
    return Host(
        host_id=f"emulated-{profile.name}",
        cpu_model=None,
        cpu_count=None,
        memory_gib=None,
        kernel="",
        python="",
        gpu_model=str(profile.hardware["gpu"]["name"]),
        gpu_count=count,
    )


async def prepare(*_: object) -> None:
    """Do nothing: nothing is started outside this process."""


async def start(launch: Launch) -> EmulatedEngine:
    profile = profile_of(launch.engine.profile)
    setup = setup_of(launch.configuration, launch.repeat, launch.attempt)
    launch.log.parent.mkdir(parents=True, exist_ok=True)
    return EmulatedEngine(profile, setup, launch.log, secret_values(launch.variables))


class EmulatedEngine:
    """A running embedded engine. Its log is written when it ends, as a whole."""

    owned = True

    image_digest: str | None = None

    def __init__(self, profile: Profile, setup: Setup, log: Path, secrets: Sequence[str]) -> None:
        self._log = log
        self._secrets = secrets  # what a profile scripts may be copied from a real log
        self._seconds = step_time(profile, setup)
        self._link_bytes = link_bytes(profile, setup)
        self._nvlink_bytes = 0.0
        clock = VirtualClock()
        self._engine = EmbeddedEngine(
            profile,
            setup,
            clock=clock,
            step_time=self._step,
            started_at=EPOCH.timestamp() + clock.monotonic(),
        )
        self.target = Target(base_url="http://emulated", transport=lambda: EngineTransport(self._engine))
        self._engine.start()

    def _step(self, load: StepLoad) -> float:
        if self._link_bytes is not None:
            self._nvlink_bytes += self._link_bytes(load)
        return self._seconds(load)

    async def ended(self) -> End:
        return _end(await self._engine.ended())

    async def stop(self, patience_s: float) -> End:  # nothing to be patient with
        died = self._engine.exit_code
        await self._engine.stop()
        self._log.write_text(redact(self.log_text(), self._secrets), encoding="utf-8")
        return End() if died is None else _end(died)

    def owns(self, pid: int) -> bool | None:  # it has no process
        return None

    def telemetry(self) -> Telemetry:
        return Telemetry(nvlink_bytes=None if self._link_bytes is None else round(self._nvlink_bytes))

    def log_size(self) -> int:
        return self._engine.log.size

    def log_text(self) -> str:
        return self._engine.log.text()


def _end(code: int) -> End:
    return End(exit_code=code) if code >= 0 else End(exit_code=SIGNALLED - code, exit_signal=-code)
