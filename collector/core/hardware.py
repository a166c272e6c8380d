"""The step-time model of one configuration, from the plain data of a profile's `hardware` and `dimensions`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from collector.core.dimensions import DrafterDimensions, Gpu, Link, ModelDimensions
from collector.core.roofline import Efficiencies, StepModel, step_model

Record = TypeVar("Record", Gpu, Link, ModelDimensions, DrafterDimensions, Efficiencies)


def record(kind: type[Record], data: Mapping[str, Any]) -> Record:
    """Return the record of a mapping, which may say more (a name, a source, a reason)."""
    return kind(**{one.name: data[one.name] for one in fields(kind) if one.name in data})


def model_dimensions(dimensions: Mapping[str, Any]) -> ModelDimensions:
    return record(ModelDimensions, dimensions["target"])


def drafter_dimensions(dimensions: Mapping[str, Any], method: str) -> DrafterDimensions | None:
    """Return the drafter of a method; None without speculation. Raises KeyError for an unknown method."""
    return None if method == "off" else record(DrafterDimensions, dimensions["drafters"][method])


def configured(
    hardware: Mapping[str, Any],
    dimensions: Mapping[str, Any],
    *,
    kv_dtype: str,
    method: str,
    nvlink: str | None,
    tensor_parallel: int,
    scheduled: bool = False,
) -> StepModel:
    """Return the step times of a configuration. `nvlink` None counts as on, as the plan's default does."""
    return step_model(
        record(Gpu, hardware["gpu"]),
        record(Link, hardware["links"]["off" if nvlink == "off" else "on"]),
        model_dimensions(dimensions),
        drafter_dimensions(dimensions, method),
        record(Efficiencies, hardware["efficiencies"]),
        kv_dtype=kv_dtype,
        backend=dimensions["kv_readers"].get(kv_dtype, dimensions["kv_readers"]["auto"]),
        tensor_parallel=tensor_parallel,
        scheduled=scheduled,
    )
