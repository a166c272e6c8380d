"""A failed start to what would help: the kind of remedy, and what its own numbers say about how much.

What to do about each kind is said in the words of templates/article/failures.md.j2; here is what is computed.
Sources: vLLM's own messages (core/failure_numbers) and reports of the same failures in public.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from collector.analysis.figures import Labels
from collector.analysis.pairing import OFF
from collector.analysis.study import PublishedFailure, Study
from collector.core.failure_numbers import MISSING, NUMBERS, fitting_of, missing_of, numbers_in
from collector.core.failure_words import CATEGORIES
from collector.core.rows import Failure, Row

UNKNOWN = "other"
#: Settings that would fit by other figures than their own, and these figures; a model's length has its own above.
FITTING = {
    "gpu_memory_utilization": ("gib_free", "gib_total"),
    "tensor_parallel_size": ("world_size", "gpu_count", "attention_heads", "tensor_parallel_size"),
}
_FITTING = "fitting_"
_NAMES = (
    *dict.fromkeys(name for names in NUMBERS.values() for name in names), *MISSING,
    *(f"{_FITTING}{name}" for name in FITTING),
)  # fmt: skip
#: Settings whose change is advice; another model or series is not.
CHANGEABLE = ("kv_cache_dtype", "speculation", "nvlink")
_DTYPE = re.compile(r"Re-run with --kv-cache-dtype (?P<dtype>[\w]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """A number of a failure. `of`: where it stands, two such names whose difference it is, or what it follows from."""

    value: float
    of: str
    failure_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """What would help. `kind` is a category; `dtype` is the one that the engine itself suggests."""

    kind: str
    numbers: Mapping[str, Told | None]  # of every name in NUMBERS, MISSING and FITTING; None where it was not said
    dtype: str | None
    speculating: bool
    fp8: bool  # whether the KV cache takes 8 bits or fewer already


def remedy(failure: Failure | PublishedFailure) -> Remedy:
    """Return what would help against a failure."""
    known: Labels | Failure = failure.labels if isinstance(failure, PublishedFailure) else failure
    said = failure.message if isinstance(failure, PublishedFailure) else failure.cause
    kind = failure.category if failure.category in CATEGORIES else UNKNOWN
    suggested = _DTYPE.search(said)
    return Remedy(
        kind=kind,
        numbers=dict.fromkeys(_NAMES) | _numbers(failure, said, kind),
        dtype=suggested["dtype"] if suggested else None,
        speculating=known.speculation not in (None, OFF),
        fp8=known.kv_cache_dtype not in (None, "auto", "bfloat16", "float16"),
    )


def _numbers(failure: Failure | PublishedFailure, said: str, kind: str) -> dict[str, Told]:
    """Take a number from its column, else from the cause line; add what is missing, and what would fit by them."""
    names = NUMBERS.get(kind, ())
    line = numbers_in([said])
    values = {name: getattr(failure, name, None) for name in names}
    values = {name: line.get(name) if value is None else value for name, value in values.items()}
    found = {
        name: Told(value=float(value), of=name, failure_id=failure.failure_id)
        for name, value in values.items()
        if value is not None
    }
    for name, gap in missing_of({name: told.value for name, told in found.items()}).items():
        found[name] = Told(value=gap, of="-".join(MISSING[name]), failure_id=failure.failure_id)
    for name, value in fitting_of(kind, {name: told.value for name, told in found.items()}).items():
        if name in FITTING:
            of = ",".join(one for one in FITTING[name] if one in found)
            found[f"{_FITTING}{name}"] = Told(value=value, of=of, failure_id=failure.failure_id)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """A setting of which another value alone is enough: with it the configuration ran."""

    column: str
    values: tuple[str, ...]


def ran_beside(failure: Failure | PublishedFailure, study: Study) -> tuple[Beside, ...]:
    """Return the settings of which a change of that one alone gave a configuration that was measured."""
    known: Labels | Failure = failure.labels if isinstance(failure, PublishedFailure) else failure
    wanted = _key(known)
    found: dict[str, set[str]] = {}
    for key in _measured(study):
        differing = [name for name in wanted if not _alike(wanted[name], key[name])]
        if len(differing) == 1 and differing[0] in CHANGEABLE:
            found.setdefault(differing[0], set()).add(key[differing[0]] or "")
    return tuple(Beside(column=name, values=tuple(sorted(found[name]))) for name in CHANGEABLE if name in found)


def _measured(study: Study) -> list[dict[str, str | None]]:
    labels: list[Labels | Row] = [*study.rows]
    labels += [one.labels for one in study.figures if one.metric == "system_throughput"]
    keys = [_key(one) for one in labels]
    return list({tuple(key.items()): key for key in keys}.values())


def _key(one: Labels | Failure | Row) -> dict[str, str | None]:
    """Speculation and its k are one setting here: to switch it off is one change."""
    k = "" if one.num_speculative_tokens is None else f" k={one.num_speculative_tokens}"
    return {
        "model": one.model,
        "series": one.series,
        "kv_cache_dtype": one.kv_cache_dtype,
        "speculation": f"{one.speculation}{k}",
        "nvlink": one.nvlink,
    }


def _alike(one: str | None, other: str | None) -> bool:
    """What one of them leaves open is no difference."""
    return one is None or other is None or one == other
