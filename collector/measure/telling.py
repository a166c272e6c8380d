"""What a sweep says while it works, a line at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from collector.core.configuration import Run
from collector.core.rows import Failure, Row
from collector.measure.ready import Ready

if TYPE_CHECKING:  # findings are loaded by a sweep that looks for a break-even
    from collector.analysis.break_even import Crossing
    from collector.analysis.compared import Pair
    from collector.analysis.narrowing import Narrowing
    from collector.analysis.outcomes import Blocked, Outcome
    from collector.analysis.pairing import Reason

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
    at = " and ".join(map(str, one.concurrencies))
    return f"break-even of {_way(one.pair)}: between {one.bracket.low} and {one.bracket.high}; adding concurrency {at}"


def outcome(one: Outcome) -> str:
    """Return what came of looking for the break-even of a pair."""
    if one.found is None:
        return f"no break-even of {_way(one.pair)}: no ratio, {_lacking(one)}"
    measured = ", ".join(str(point.concurrency) for point in one.found.points)
    places = [_place(one, crossing) for crossing in one.found.crossings]
    if places:
        return f"break-even of {_way(one.pair)} lies {' and '.join(places)}"
    said = _NEVER.get(one.found.outcome, "changes sides within what counts as even")
    return f"no break-even of {_way(one.pair)}: {said} at the measured concurrencies ({measured})"


_NEVER = {
    "gain": "it never loses",
    "no_loss": "it never loses",
    "even": "it neither gains nor loses",
    "no_gain": "it never gains",
    "loss": "it never gains",
}


def _place(one: Outcome, crossing: Crossing) -> str:
    low, high = crossing.bracket
    between = [point for point in one.pair.points if low < point.concurrency < high]
    tried = ", ".join(str(point.concurrency) for point in between)
    if high - low == 1:
        rest = "neighbours"
    elif any(point.reason for point in between):
        rest = f"not narrowed further: {_lacking(one, (low, high))}"
    else:
        rest = f"not narrowed further: {f'{tried} decide nothing' if tried else 'no stage could be added'}"
    return f"between {low} and {high} ({rest})"


def _lacking(one: Outcome, within: tuple[int, int] | None = None) -> str:
    """Return why concurrencies have no ratio, a reason each."""
    found: dict[str, list[int]] = {}
    for point in one.lacking:
        if point.reason and (within is None or within[0] < point.concurrency < within[1]):
            found.setdefault(_why(point.reason), []).append(point.concurrency)
    return "; ".join(f"at {', '.join(map(str, dict.fromkeys(at)))} {why}" for why, at in found.items())


def _why(reason: Reason) -> str:
    side = f"speculation {reason.arm}"
    told = {
        "failed": f"{side} has no rows because its engine failed ({', '.join(reason.names)}; failures.csv: "
        f"{', '.join(reason.failure_ids)})",
        "checks": f"rows of {side} failed checks ({', '.join(reason.names)})",
        "settings_differ": f"{side} was measured with other settings ({', '.join(reason.names)})",
        "ambiguous": f"rows of {side} are of more than one configuration",
        "no_throughput": f"rows of {side} have no throughput",
    }
    return told.get(reason.kind, f"{side} was not measured")


def blocked(one: Blocked) -> str:
    """Return which configuration never gave a row, and where its failure is."""
    of = one.failure
    k = f" k={of.num_speculative_tokens}" if of.num_speculative_tokens is not None else ""
    link = f" · NVLink {of.nvlink}" if of.nvlink else ""
    ids = ", ".join(one.failure_ids)
    return (
        f"{of.model} · KV {of.kv_cache_dtype} · speculation {of.speculation}{k}{link} has no rows: {of.category} "
        f"(failures.csv: {ids}); until it starts, nothing can be compared with it"
    )


def _way(pair: Pair) -> str:
    told = [f"{pair['model']} {pair.speculation} k={pair.num_speculative_tokens}", f"KV {pair.get('kv_cache_dtype')}"]
    told += [f"NVLink {pair.get('nvlink')}"] if pair.get("nvlink") else []
    return ", ".join([*told, str(pair["prompt_set"])])
