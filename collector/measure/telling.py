"""What a sweep says while it works, a line at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from collector.core.configuration import Run
from collector.core.rows import Failure, Row
from collector.measure.ready import Ready

if TYPE_CHECKING:  # findings are loaded by a sweep that looks for a break-even
    from collector.analysis.narrowing import Narrowing

#: Characters of a cause that the terminal shows; failures.csv has all of it.
TOLD_CAUSE = 200


def run(one: Run) -> str:
    repeat = f" · repeat {one.repeat}" if one.repeat > 1 else ""
    return f"{one.configuration.label}{repeat} ({one.configuration.configuration_id})"


def left(starts: int, planned: int) -> str:
    return f"{planned - starts} of {planned} engine starts have nothing left to measure"


def ready(one: Ready) -> str:
    return f"    ready after {one.start_s:.0f} s: vLLM {one.version}"


def row(one: Row) -> str:
    parts = [f"    concurrency {one.concurrency:>3} · {one.prompt_set}:"]
    if one.system_throughput_tok_s is not None:
        parts.append(f" {one.system_throughput_tok_s:.1f} tok/s")
    if one.tpot_mean_s is not None:
        parts.append(f", TPOT {one.tpot_mean_s * 1000:.2f} ms")
    if one.acceptance_rate is not None:
        parts.append(f", acceptance {one.acceptance_rate:.3f}")
    if one.checks:
        parts.append(f"; failed checks: {one.checks}")
    return "".join(parts)


def missing(names: Sequence[str]) -> str:
    return f"    /metrics lacks {', '.join(names)}"


def failure(one: Failure) -> str:
    cause = one.cause if len(one.cause) <= TOLD_CAUSE else f"{one.cause[:TOLD_CAUSE]}…"
    return f"    failed, {one.category} ({one.phase}): {cause or 'no cause in the log'}"


def narrowing(one: Narrowing) -> str:
    way = f"{one.pair['model']} {one.pair.speculation} k={one.pair.num_speculative_tokens}, {one.pair['prompt_set']}"
    at = " and ".join(map(str, one.concurrencies))
    return f"break-even of {way}: between {one.bracket.low} and {one.bracket.high}; adding concurrency {at}"
