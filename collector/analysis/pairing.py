"""What two measurements must share before one may be divided by the other, or why they may not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Literal

from collector.core.rows import Failure, Row, comparable, failed_checks

Key = tuple[Any, ...]

#: What must be equal at engine start. The attention backend is the engine's choice, but a pair across two
#: backends would compare the backends.
SAME_ENGINE = (
    "provenance", "series", "model", "kv_cache_dtype", "nvlink", "tensor_parallel", "max_model_len",
    "max_num_seqs", "extra_flags", "attention_backend", "engine_kind", "engine_version", "image",
    "image_digest", "model_path", "model_revision", "model_commit", "host_id", "gpu_model", "gpu_count",
    "driver_version", "campaign",
)  # fmt: skip
#: What must be equal in the load for two stages to lie on one line ...
SAME_LOAD = ("prompt_set", "prompt_set_digest", "output_tokens", "window_method")
#: ... and for two measurements to be of one stage.
STAGE = ("concurrency", "requests", "warmup_requests")
#: What tells one way of speculating from another.
SPECULATING = ("speculation", "num_speculative_tokens", "drafter", "speculative_config")
#: The same with what lay on the host under the drafter's name.
DRAFTING = (*SPECULATING, "drafter_commit")
#: All that a failure tells of its setting; where the nearest partner is looked for.
KINDRED = (
    "campaign", "provenance", "series", "model", "kv_cache_dtype", "nvlink", "speculation", "num_speculative_tokens",
)  # fmt: skip

OFF = "off"
Side = Literal["on", "off"]


@dataclass(frozen=True, slots=True)
class Factor:
    """What a comparison varies. `way` tells its sides apart; its first column says which side is the base."""

    name: str
    way: tuple[str, ...]
    base: str
    follows: tuple[str, ...] = ()  # columns that change with it by nature: not required to be equal

    @property
    def setting(self) -> tuple[str, ...]:
        """Return the columns that must be equal on both sides."""
        return tuple(name for name in (*SAME_ENGINE, *DRAFTING, *SAME_LOAD) if name not in (*self.way, *self.follows))

    @property
    def kindred(self) -> tuple[str, ...]:
        return tuple(name for name in KINDRED if name in self.setting)

    @property
    def told(self) -> tuple[str, ...]:
        """Return what a failure tells of the way."""
        return tuple(name for name in self.way if name in KINDRED)

    def side(self, record: Row | Failure) -> Side | None:
        """Return the side that a record is on; None where it does not vary this."""
        value = getattr(record, self.way[0])
        return None if value is None else ("off" if value == self.base else "on")


SPECULATION = Factor("speculation", DRAFTING, OFF)
#: The engine chooses another backend for another dtype, so such a pair compares backends as well.
KV_CACHE = Factor("kv_cache_dtype", ("kv_cache_dtype",), "auto", ("attention_backend",))
#: Without NVLink a plan also turns off what reaches around NCCL.
NVLINK = Factor("nvlink", ("nvlink",), OFF, ("extra_flags",))

ReasonKind = Literal["checks", "failed", "settings_differ", "missing", "ambiguous", "no_throughput", "not_published"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Why there is no ratio. `names` are checks, failure categories or columns, by kind."""

    kind: ReasonKind
    arm: str
    names: tuple[str, ...] = ()
    failure_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a ratio in one stage: its rows and the failed starts of its configuration."""

    name: str
    rows: Sequence[Row]
    failures: Sequence[Failure]

    @property
    def usable(self) -> list[Row]:
        return [row for row in self.rows if comparable(row) and row.system_throughput_tok_s]

    def reason(self, difference: tuple[str, ...] = ()) -> Reason | None:
        """Return why this arm gives no throughput, or None when it does."""
        if self.usable:
            return None if self._is_one_configuration() else Reason(kind="ambiguous", arm=self.name)
        checks = sorted({name for row in self.rows for name in failed_checks(row)})
        if checks:
            return Reason(kind="checks", arm=self.name, names=tuple(checks))
        if self.rows:
            return Reason(kind="no_throughput", arm=self.name)
        if self.failures:
            categories = tuple(sorted({failure.category for failure in self.failures}))
            ids = tuple(sorted(failure.failure_id for failure in self.failures))
            return Reason(kind="failed", arm=self.name, names=categories, failure_ids=ids)
        if difference:
            return Reason(kind="settings_differ", arm=self.name, names=difference)
        return Reason(kind="missing", arm=self.name)

    def _is_one_configuration(self) -> bool:
        """The columns do not hold everything (environment, prompt length): never pool what ids tell apart."""
        repeats = [row.repeat for row in self.usable]
        return len({row.configuration_id for row in self.usable}) == 1 and len(set(repeats)) == len(repeats)


def key(row: Row | Failure, columns: Iterable[str]) -> Key:
    return tuple(getattr(row, name) for name in columns)


def in_stage(rows: Iterable[Row], stage: Key) -> list[Row]:
    return [row for row in rows if key(row, STAGE) == stage]


def failures_of(
    factor: Factor, setting: Key, rows: Sequence[Row], failures: Iterable[Failure], ids_with_rows: frozenset[str]
) -> list[Failure]:
    """Return the failures of this arm: of its own configuration, or of one that never gave a row anywhere."""
    known = dict(zip(factor.setting, setting, strict=True))
    own = {row.configuration_id for row in rows}
    return [
        failure
        for failure in failures
        if all(getattr(failure, name) == known[name] for name in factor.kindred)
        and (failure.configuration_id in own or failure.configuration_id not in ids_with_rows)
    ]


def nearest_difference(factor: Factor, setting: Key, stage: Key, arms: dict[Key, list[Row]]) -> tuple[str, ...]:
    """Return the columns in which the nearest kindred arm with this stage differs; () when there is none."""
    own = dict(zip(factor.setting, setting, strict=True))
    found = []
    for other, rows in arms.items():
        theirs = dict(zip(factor.setting, other, strict=True))
        if other != setting and all(own[name] == theirs[name] for name in factor.kindred) and in_stage(rows, stage):
            found.append(tuple(name for name in factor.setting if own[name] != theirs[name]))
    return min(found, key=lambda differing: (len(differing), differing), default=())


def mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def sortable(values: Iterable[Any]) -> tuple[tuple[bool, Any], ...]:
    """Return a sort key in which a missing value comes first."""
    return tuple((value is not None, "" if value is None else value) for value in values)
