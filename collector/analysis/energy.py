"""Energy of the GPUs over tokens: joules for one output token, prompts and waiting included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collector.analysis.curves import Curve, Stage
from collector.analysis.quantity import Quantity, mean_of, pooled_of

ENERGY, TOKENS, POWER = "energy_j", "generation_tokens", "power_mean_w"


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """Energy at one concurrency. The whole window counts, so a stage's ramp and drain are in it."""

    stage: Stage
    per_token: Quantity | None  # J
    power: Quantity | None  # W, all GPUs together

    @property
    def concurrency(self) -> int:
        return self.stage.concurrency


@dataclass(frozen=True, kw_only=True, slots=True)
class Uses:
    """A configuration by concurrency."""

    curve: Curve
    uses: tuple[Use, ...]

    @property
    def measured(self) -> tuple[Use, ...]:
        return tuple(use for use in self.uses if use.per_token)


@dataclass(frozen=True, kw_only=True, slots=True)
class Frugal:
    """A configuration and the concurrency at which it uses this much."""

    uses: Uses
    use: Use
    per_token: Quantity


def uses_of(curve: Curve) -> Uses:
    """Return the energy of a configuration at each concurrency."""
    return Uses(
        curve=curve,
        uses=tuple(
            Use(
                stage=stage,
                per_token=pooled_of(stage.rows, ENERGY, TOKENS),
                power=mean_of(stage.rows, POWER),
            )
            for stage in curve.stages
        ),
    )


def ends(found: Sequence[Uses]) -> tuple[Frugal, Frugal] | None:
    """Return where a token takes least and where it takes most; None where nothing was measured."""
    known = [Frugal(uses=one, use=use, per_token=use.per_token) for one in found for use in one.uses if use.per_token]
    known.sort(key=lambda one: one.per_token.value)
    return (known[0], known[-1]) if known else None
