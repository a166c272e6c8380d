"""The identities that a window must satisfy, each a named check with its threshold and reason.

A failed check marks the row, names itself and keeps the row; a check whose series the engine lacks is
listed as not run. A whole-stage window starts and ends idle, so that what was sent and what was counted must agree
in it. A steady window cuts through requests: there the same is asked of the whole load around it, from idle to
idle, and of the window itself only what holds inside a running stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from collector.core import gpu_figures, series
from collector.core.configuration import Stage
from collector.core.counters import Deltas, trimmed
from collector.core.series import Samples
from collector.core.telemetry import GpuWatch
from collector.core.window import STEADY, Window

#: Above this share of prompt tokens found in the prefix cache, prefill is not what the plan asked for.
#: A nonce at the start of each prompt makes it 0 but for a shared head of a chat template.
PREFIX_HIT_LIMIT = 0.01
#: Below this share of the loaded lane time inside the engine, the client or the frontend starves it.
OCCUPANCY_LIMIT = 0.95
#: Below this share of its lane time with a request under way, a steady window was not one.
HELD_LIMIT = 0.95
#: Counters that must stand still once every response is in.
SETTLED = ("generation_tokens", "prompt_tokens", "requests_succeeded", "preemptions")


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What a check looks at."""

    window: Window
    deltas: Deltas
    whole: Deltas  # of the whole load, from idle to idle: those of the window, unless it is a steady one
    after_window: Deltas  # from the closing scrape to the one that confirms it
    stage: Stage
    speculation: bool
    k: int | None
    occupancy: float | None
    emulated: bool = False
    nvlink: str | None = None  # on, off, or None where it makes no difference

    @property
    def steady(self) -> bool:
        return self.window.method == STEADY

    @property
    def idle(self) -> Samples:
        return self.window.before if self.window.idle is None else self.window.idle

    @property
    def completed_tokens(self) -> int:
        return sum(one.completion_tokens or 0 for one in self.window.requests)


#: A check returns True when it holds, False when it failed, None when it could not run.
Check = Callable[[Evidence], bool | None]


def _request_failed(e: Evidence) -> bool:
    w = e.window
    sent = w.requests_sent == len(w.requests) and all(one.done for one in w.requests)
    if e.steady:
        return sent and sum(one.ended_s <= w.window_s for one in w.measured) >= e.stage.requests
    return sent and w.requests_sent == e.stage.requests


def _short_output(e: Evidence) -> bool:
    done = [one for one in e.window.measured if one.done]
    return all(one.completion_tokens == e.stage.output_tokens and one.finish_reason == "length" for one in done)


def _counter_reset(e: Evidence) -> bool:
    """No counter fell between the scrapes, nor between the samples inside the window."""
    sampled = [one.generation_tokens for one in e.window.samples if one.generation_tokens is not None]
    return not (e.deltas.fell or e.whole.fell or e.after_window.fell) and sampled == sorted(sampled)


def _missing_series(e: Evidence) -> bool:
    return not series.missing_series(e.window.before) and not series.missing_series(e.window.after)


def _engine_busy(e: Evidence) -> bool | None:
    """Somebody else's requests were in the engine when the load began."""
    running = series.total(e.idle, series.GAUGES["running"])
    waiting = series.total(e.idle, series.GAUGES["waiting"])
    return None if running is None or waiting is None else running + waiting == 0


def _token_mismatch(e: Evidence) -> bool | None:
    return _same(e.whole.counter("generation_tokens"), e.completed_tokens)


def _prompt_mismatch(e: Evidence) -> bool | None:
    return _same(e.whole.counter("prompt_tokens"), sum(one.prompt_tokens or 0 for one in e.window.requests))


def _prompt_length(e: Evidence) -> bool | None:
    """Each prompt is as long as the engine's own tokenizer says: nothing was cut or added on the way."""
    if e.window.tokenized is None:
        return None
    return all(e.window.tokenized[one.index] == one.prompt_tokens for one in e.window.measured if one.done)


def _request_mismatch(e: Evidence) -> bool | None:
    return _same(e.whole.counter("requests_succeeded"), sum(one.done for one in e.window.requests))


def _first_token_mismatch(e: Evidence) -> bool | None:
    return _same(e.whole.count("ttft"), sum(one.done for one in e.window.requests))


def _late_counters(e: Evidence) -> bool | None:
    """Nothing moved once all was answered. A steady window closes before that."""
    if e.steady:
        return None
    moved = [e.after_window.counter(name) for name in SETTLED]
    known = [one for one in moved if one is not None]
    return all(one == 0 for one in known) if known else None


def _tokens_per_step(e: Evidence) -> bool | None:
    """Without speculation each step gives each request exactly one token."""
    if e.speculation:
        return True
    generated, first, steps = (
        e.deltas.counter("generation_tokens"),
        e.deltas.count("ttft"),
        e.deltas.count("itl"),
    )
    return None if generated is None or first is None or steps is None else generated - first == steps


def _trimmed_tokens(e: Evidence) -> bool | None:
    """Between 0 and k tokens per request are accepted and then cut off at the output length."""
    cut = trimmed(e.deltas)
    if cut is None:
        return None
    if not e.speculation:
        return cut == 0
    if e.k is None:
        return cut >= 0
    return 0 <= cut <= e.k * len(e.window.requests)


def _position_sum(e: Evidence) -> bool | None:
    if not e.speculation:
        return True
    accepted, positions = e.deltas.counter("accepted_tokens"), e.deltas.positions
    return None if accepted is None or positions is None else sum(positions.values()) == accepted


def _speculation_mismatch(e: Evidence) -> bool:
    """The engine exposes the speculation series exactly when it speculates."""
    return e.speculation == (series.pick(e.window.after, series.COUNTERS["drafts"]) is not None)


def _prefix_hits(e: Evidence) -> bool | None:
    if series.cache_info(e.window.after).prefix_caching is False:
        return True
    queries, hits = e.deltas.counter("prefix_queries"), e.deltas.counter("prefix_hits")
    if queries is None or hits is None:
        return None
    return hits < PREFIX_HIT_LIMIT * queries if queries else hits == 0


def _client_bound(e: Evidence) -> bool | None:
    return None if e.occupancy is None else e.occupancy >= OCCUPANCY_LIMIT


def _not_steady(e: Evidence) -> bool:
    """In a steady window every lane has a request under way, but for the moment between two."""
    if not e.steady:
        return True
    w = e.window
    busy = sum(max(0.0, min(one.ended_s, w.window_s) - max(one.sent_s, 0.0)) for one in w.requests)
    return busy >= HELD_LIMIT * e.stage.concurrency * w.window_s


def _of_cards(holds: Callable[[GpuWatch], bool | None]) -> Check:
    """Return a check of the GPUs: emulated ones have nothing to fail, of unwatched ones nothing is known."""

    def check(e: Evidence) -> bool | None:
        if e.emulated:
            return True
        return holds(e.window.gpus) if e.window.gpus else None

    return check


def _throttled(watch: GpuWatch) -> bool | None:
    """No card slowed down by heat, by the hardware or by the power brake; its power limit is no such thing."""
    return _not(gpu_figures.throttled(watch))


def _link_width_changed(watch: GpuWatch) -> bool | None:
    return _not(gpu_figures.link_changed(watch))


def _foreign_gpu_process(watch: GpuWatch) -> bool | None:
    """Nobody else computed on the engine's cards. A desktop only draws: `collector doctor` speaks of it."""
    return None if watch.foreign is None else not watch.foreign


def _nvlink_traffic(e: Evidence) -> bool | None:
    """The link carried the all-reduces exactly in the arm that has it."""
    if e.nvlink is None:
        return True
    tokens = e.deltas.counter("generation_tokens")
    used = gpu_figures.link_used(e.window, None if tokens is None else round(tokens))
    return None if used is None else used == (e.nvlink == "on")


def _not(fault: bool | None) -> bool | None:
    return None if fault is None else not fault


def _same(counted: float | None, known: int) -> bool | None:
    return None if counted is None else counted == known


CHECKS: dict[str, Check] = {
    "missing_series": _missing_series,
    "counter_reset": _counter_reset,
    "engine_busy": _engine_busy,
    "request_failed": _request_failed,
    "short_output": _short_output,
    "token_mismatch": _token_mismatch,
    "prompt_mismatch": _prompt_mismatch,
    "prompt_length": _prompt_length,
    "request_mismatch": _request_mismatch,
    "first_token_mismatch": _first_token_mismatch,
    "late_counters": _late_counters,
    "speculation_mismatch": _speculation_mismatch,
    "tokens_per_step": _tokens_per_step,
    "trimmed_tokens": _trimmed_tokens,
    "position_sum": _position_sum,
    "prefix_hits": _prefix_hits,
    "client_bound": _client_bound,
    "not_steady": _not_steady,
    "gpu_lost": _of_cards(lambda watch: not gpu_figures.gpu_lost(watch)),
    "throttled": _of_cards(_throttled),
    "link_width_changed": _of_cards(_link_width_changed),
    "foreign_gpu_process": _of_cards(_foreign_gpu_process),
    "nvlink_traffic": _nvlink_traffic,
}


def run_checks(evidence: Evidence) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the checks that failed and of those that could not run."""
    verdicts = {name: check(evidence) for name, check in CHECKS.items()}
    failed = tuple(name for name, held in verdicts.items() if held is False)
    not_run = tuple(name for name, held in verdicts.items() if held is None)
    return failed, not_run


def lane_seconds(window: Window) -> float | None:
    """Return how long lanes were under load, summed: per lane from its first request to its last response.

    The drain, when a lane has no further request, is not in it: Little's law is asked of the loaded part. In a
    steady window all lanes are loaded all the time.
    """
    if window.method == STEADY:
        return window.window_s * len({one.lane for one in window.requests}) or None
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for one in window.requests:
        first[one.lane] = min(one.sent_s, first.get(one.lane, one.sent_s))
        last[one.lane] = max(one.ended_s, last.get(one.lane, one.ended_s))
    loaded = sum(last[lane] - first[lane] for lane in first)
    return loaded or None
