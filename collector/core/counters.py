"""Two parsed scrapes and a duration to a StageResult: every formula, in one place.

Formulas: vLLM 0.27.0's counters (v1/metrics/loggers.py, stats.py). D is after minus before, summed over
engines. A series that the scrape lacks gives None, a counter that fell gives None everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from collector.core import series
from collector.core.series import Histogram, Samples
from collector.core.window import Window

#: Histogram shares that rows print.
P50, P95 = 0.5, 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class Percentile:
    """A percentile with the bounds of its bucket; `value` is None where the rank lies above the last bound."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Deltas:
    """D of every series; None where the engine does not expose it."""

    counters: dict[str, float | None]
    histograms: dict[str, Histogram | None]
    positions: dict[int, float] | None
    fell: tuple[str, ...]  # names of quantities that went down: the engine restarted inside the window

    def counter(self, name: str) -> float | None:
        return self.counters[name]

    def count(self, name: str) -> float | None:
        found = self.histograms[name]
        return found.count if found else None

    def sum(self, name: str) -> float | None:
        found = self.histograms[name]
        return found.sum if found else None


@dataclass(frozen=True, kw_only=True, slots=True)
class StageResult:
    """The figures of one window; units as in rows.py, whose columns have the same names."""

    generation_tokens: int | None
    prompt_tokens: int | None
    prompt_tokens_computed: int | None
    system_throughput_tok_s: float | None
    prefill_throughput_tok_s: float | None
    request_decode_rate_tok_s: float | None
    ttft_mean_s: float | None
    ttft_p50: Percentile
    ttft_p95: Percentile
    queue_mean_s: float | None
    queue_p50: Percentile
    queue_p95: Percentile
    prefill_mean_s: float | None
    prefill_p50: Percentile
    prefill_p95: Percentile
    tpot_mean_s: float | None
    tpot_p50: Percentile
    tpot_p95: Percentile
    step_time_mean_s: float | None
    e2e_mean_s: float | None
    tokens_per_step: float | None
    drafts: int | None
    draft_tokens: int | None
    accepted_tokens: int | None
    acceptance_rate: float | None
    accepted_per_forward: float | None
    drafted_step_share: float | None
    trimmed_tokens: int | None
    positions: dict[int, float] | None
    preemptions: int | None
    decode_steps: int | None
    prefix_hit_rate: float | None
    occupancy: float | None
    frontend_cpu_s: float | None
    kv_usage_peak: float | None
    waiting_peak: int | None
    running_mean: float | None


def deltas(before: Samples, after: Samples) -> Deltas:
    """Return after minus before. Where anything fell, every figure is None: the window is void."""
    counters: dict[str, float | None] = {}
    for name, names in series.COUNTERS.items():
        counters[name] = _minus(series.total(after, names), series.total(before, names))
    for name, (names, label, value) in series.LABELLED.items():
        counters[name] = _minus(
            series.labelled(after, names, label, value), series.labelled(before, names, label, value)
        )
    histograms = {
        name: _histogram_minus(series.histogram(after, names), series.histogram(before, names))
        for name, names in series.HISTOGRAMS.items()
    }
    old, new = series.by_position(before) or {}, series.by_position(after)
    positions = None if new is None else {key: value - old.get(key, 0.0) for key, value in new.items()}
    fell = [name for name, value in counters.items() if value is not None and value < 0]
    fell += [name for name, one in histograms.items() if one is not None and one.count < 0]
    if _restarted(before, after):
        fell.append("process_start")
    if fell:
        counters, histograms, positions = dict.fromkeys(counters), dict.fromkeys(histograms), None
    return Deltas(counters=counters, histograms=histograms, positions=positions, fell=tuple(fell))


def stage_result(window: Window, d: Deltas, *, lane_s: float | None) -> StageResult:
    """Compute the figures of a window. `lane_s`: seconds during which lanes were under load, summed over lanes."""
    w = window.window_s
    generated = d.counter("generation_tokens")
    after_first = _minus(generated, d.count("ttft"))
    tpot_mean = _ratio(d.sum("itl"), after_first)
    api_servers_merged = series.PROCESS_START not in window.after
    return StageResult(
        generation_tokens=_whole(generated),
        prompt_tokens=_whole(d.counter("prompt_tokens")),
        prompt_tokens_computed=_whole(d.counter("prompt_tokens_computed")),
        system_throughput_tok_s=_ratio(generated, w),
        prefill_throughput_tok_s=_ratio(d.counter("prompt_tokens_computed"), w),
        request_decode_rate_tok_s=_ratio(after_first, d.sum("itl")),
        ttft_mean_s=_mean(d.histograms["ttft"]),
        ttft_p50=percentile(d.histograms["ttft"], P50),
        ttft_p95=percentile(d.histograms["ttft"], P95),
        queue_mean_s=_mean(d.histograms["queue"]),
        queue_p50=percentile(d.histograms["queue"], P50),
        queue_p95=percentile(d.histograms["queue"], P95),
        prefill_mean_s=_mean(d.histograms["prefill"]),
        prefill_p50=percentile(d.histograms["prefill"], P50),
        prefill_p95=percentile(d.histograms["prefill"], P95),
        tpot_mean_s=tpot_mean,
        tpot_p50=percentile(d.histograms["tpot"], P50),
        tpot_p95=percentile(d.histograms["tpot"], P95),
        step_time_mean_s=_mean(d.histograms["itl"]),
        e2e_mean_s=_mean(d.histograms["e2e"]),
        tokens_per_step=_ratio(after_first, d.count("itl")),
        drafts=_whole(d.counter("drafts")),
        draft_tokens=_whole(d.counter("draft_tokens")),
        accepted_tokens=_whole(d.counter("accepted_tokens")),
        acceptance_rate=_ratio(d.counter("accepted_tokens"), d.counter("draft_tokens")),
        accepted_per_forward=_ratio(d.counter("accepted_tokens"), d.counter("drafts")),
        drafted_step_share=_ratio(d.counter("drafts"), d.count("itl")),
        trimmed_tokens=_whole(trimmed(d)),
        positions=d.positions,
        preemptions=_whole(d.counter("preemptions")),
        # Several API servers count a step once each: then the number of steps is not known.
        decode_steps=None if api_servers_merged else _whole(d.count("iteration")),
        prefix_hit_rate=_ratio(d.counter("prefix_hits"), d.counter("prefix_queries")),
        occupancy=_ratio(_plus(d.sum("itl"), d.sum("ttft")), lane_s),
        frontend_cpu_s=d.counter("frontend_cpu_s"),
        kv_usage_peak=max((s.kv_usage for s in window.samples if s.kv_usage is not None), default=None),
        waiting_peak=_whole(max((s.waiting for s in window.samples if s.waiting is not None), default=None)),
        running_mean=_fmean([s.running for s in window.samples if s.running is not None]),
    )


def trimmed(d: Deltas) -> float | None:
    """Return TTFT count + ITL count + accepted - generated: what max_tokens cut off; without speculation 0."""
    observed, accepted = _plus(d.count("ttft"), d.count("itl")), d.counter("accepted_tokens")
    if accepted is None and d.counter("drafts") is None:
        accepted = 0.0
    return _minus(_plus(observed, accepted), d.counter("generation_tokens"))


def percentile(histogram: Histogram | None, share: float) -> Percentile:
    """Interpolate linearly inside the bucket that holds the rank, as PromQL's histogram_quantile does."""
    if histogram is None or histogram.count <= 0 or not histogram.buckets:
        return Percentile()
    rank = share * histogram.count
    low, below = 0.0, 0.0
    for high, cumulative in histogram.buckets:
        if cumulative >= rank and cumulative > below:
            if high == float("inf"):
                return Percentile(low=low)
            return Percentile(value=low + (high - low) * (rank - below) / (cumulative - below), low=low, high=high)
        low, below = (high, cumulative) if high != float("inf") else (low, cumulative)
    return Percentile()


def _restarted(before: Samples, after: Samples) -> bool:
    starts = (series.PROCESS_START, series.COUNTER_START)
    return any(series.total(before, (one,)) != series.total(after, (one,)) for one in starts)


def _histogram_minus(after: Histogram | None, before: Histogram | None) -> Histogram | None:
    if after is None:
        return None
    if before is None:
        return after
    old = dict(before.buckets)
    buckets = tuple((bound, count - old.get(bound, 0.0)) for bound, count in after.buckets)
    return Histogram(sum=after.sum - before.sum, count=after.count - before.count, buckets=buckets)


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _plus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or not b else a / b


def _mean(histogram: Histogram | None) -> float | None:
    return _ratio(histogram.sum, histogram.count) if histogram else None


def _fmean(values: list[float]) -> float | None:
    return fmean(values) if values else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
