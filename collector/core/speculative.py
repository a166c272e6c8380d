"""A --speculative-config object: what vLLM would refuse late, refused before anything starts.

vLLM checks a batch-size schedule only after weights are loaded and graphs captured, so a slip there
costs a whole start (vllm/v1/spec_decode/dynamic/utils.py at 0.27.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

SCHEDULE = "num_speculative_tokens_per_batch_size"
TOKENS = "num_speculative_tokens"
DRAFTER = "{drafter}"
#: Methods without a drafter's forward: at k = 0 nothing of them is left to run.
WITHOUT_FORWARD = ("ngram", "ngram_gpu", "suffix")
SAMPLER, SYNTHETIC = "rejection_sample_method", "synthetic"
SYNTHETIC_RATES, SYNTHETIC_LENGTH = "synthetic_acceptance_rates", "synthetic_acceptance_length"


def tokens_of(config: Mapping[str, Any]) -> int | None:
    value = config.get(TOKENS)
    return value if isinstance(value, int) else None


def schedule_of(config: str | None) -> tuple[tuple[int, int, int], ...]:
    """Return the batch-size schedule of an object as JSON: first batch size, last, k; () where it has none."""
    ranges = json.loads(config).get(SCHEDULE, ()) if config and SCHEDULE in config else ()
    return tuple(sorted((first, last, k) for first, last, k in ranges))


def synthetic_of(config: str | None) -> str | None:
    """Return the tokens a step that an object as JSON asks for, as text; None where it asks for no acceptance."""
    stated = json.loads(config) if config and SAMPLER in config else {}
    if stated.get(SAMPLER) != SYNTHETIC:
        return None
    return f"{stated.get(SYNTHETIC_LENGTH) or 1 + sum(stated.get(SYNTHETIC_RATES, ())):.2f}"


def is_plain(config: str | None) -> bool:
    """Whether drafts are the drafter's own, as many in each step: no schedule, no acceptance asked for."""
    return not schedule_of(config) and synthetic_of(config) is None


def k_at(schedule: tuple[tuple[int, int, int], ...], batch: int) -> int:
    """Return the k of a sorted schedule at a batch size: a gap, and what lies beyond, has the k before it."""
    return [k for first, _, k in schedule if first <= batch][-1]


def reachable(config: str | None, most: int) -> str | None:
    """Return an object as JSON without the part of its schedule that no step of `most` requests or fewer can reach.

    A schedule of one k, the largest, says nothing more than that k and is left out.
    """
    ranges = schedule_of(config)
    if config is None or not ranges:
        return config
    stated = json.loads(config)
    kept = [[first, min(last, most), k] for first, last, k in ranges if first <= most]
    if [k for _, _, k in kept] == [stated.get(TOKENS)]:
        kept = []
    return json.dumps(
        {name: value for name, value in stated.items() if name != SCHEDULE} | ({SCHEDULE: kept} if kept else {}),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )


def with_drafter(config: Mapping[str, Any], drafter: str | None) -> dict[str, Any]:
    """Return the object with '{drafter}' replaced by the model's drafter. Raises ValueError if it has none."""
    if DRAFTER in config.values() and drafter is None:
        raise ValueError(f"{DRAFTER!r} needs a drafter")
    return {key: drafter if value == DRAFTER else value for key, value in config.items()}


def check_speculation(config: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the object, or None. Method names are vLLM's to judge: they change."""
    if not config:
        return "an empty object; write off for no speculation"
    method = config.get("method", "draft_model")
    if not isinstance(method, str) or method in ("", "off"):
        return f"method: found {method!r}, expected the name of a method"
    k = config.get(TOKENS)
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        return f"{TOKENS}: found {k!r}, expected a whole number of at least 1"
    if SCHEDULE in config:
        return _check_schedule(config[SCHEDULE], k)
    return _check_synthetic(config, k) if config.get(SAMPLER) == SYNTHETIC else None


def _check_synthetic(config: Mapping[str, Any], k: int | None) -> str | None:
    rates, length = config.get(SYNTHETIC_RATES), config.get(SYNTHETIC_LENGTH)
    if k is None or (rates is None) == (length is None):
        return f"{SAMPLER} {SYNTHETIC} needs {TOKENS} and either {SYNTHETIC_RATES} or {SYNTHETIC_LENGTH}"
    if length is not None:
        fits = isinstance(length, int | float) and 1 <= length <= k + 1
        return None if fits else f"{SYNTHETIC_LENGTH}: found {length!r}, expected a number from 1 to {k + 1}"
    found = rates if isinstance(rates, list) else []
    chances = all(isinstance(one, int | float) and 0 <= one <= 1 for one in found)
    if len(found) != k or not chances or found != sorted(found, reverse=True):
        return f"{SYNTHETIC_RATES}: found {rates!r}, expected {k} numbers from 0 to 1, none larger than the one before"
    return None


def _check_schedule(schedule: Any, k: int | None) -> str | None:
    if k is None:
        return f"{SCHEDULE} needs {TOKENS} beside it, as the largest k"
    if not isinstance(schedule, list) or not schedule or not all(map(_is_range, schedule)):
        return f"{SCHEDULE}: expected a list of [first batch size, last batch size, k], found {schedule!r}"
    ordered = sorted(schedule)
    if ordered[0][0] != 1:
        return f"{SCHEDULE}: the first range must start at batch size 1, found {ordered[0][0]}"
    for before, after in pairwise(ordered):
        if after[0] <= before[1]:
            return f"{SCHEDULE}: the ranges {before} and {after} overlap"
    return None


def _is_range(entry: Any) -> bool:
    whole = isinstance(entry, list) and len(entry) == 3 and all(type(one) is int for one in entry)
    return bool(whole and 1 <= entry[0] <= entry[1] and entry[2] >= 0)
