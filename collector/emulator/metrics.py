"""The engine's /metrics: what each step and each finished request adds, as vLLM 0.27.0 counts it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from collector.emulator.exposition import Histogram, Series, labelled, number
from collector.emulator.families import FAMILIES, UP_TO_LENGTH, Family, speculation, up_to
from collector.emulator.request import Request
from collector.emulator.scheduler import Outputs, Scheduler, Step

_FINISH = {"stop": 0, "length": 1}


class Metrics:
    """All series of one engine. `positions`: the largest k, 0 without speculation."""

    def __init__(
        self,
        *,
        model_name: str,
        max_model_len: int,
        positions: int,
        cache_info: Mapping[str, str],
        unix: float,
        dropped: Collection[str] = (),
    ) -> None:
        self._own = {"engine": "0", "model_name": model_name}
        self._max_model_len = max_model_len
        self._positions = positions
        self._dropped = {_bare(name) for name in dropped}
        self._cache_info = _cache_info(cache_info)
        self._process_start = unix
        self._http: dict[tuple[str, str, str], int] = {}
        self._http_lines = ""  # rendered again only when it changed, as every series is
        self.begin(unix)

    def begin(self, unix: float) -> None:
        """Set every series to its start, as a new process would."""
        self._unix = unix
        families = (speculation(self._positions) if self._positions else ()) + FAMILIES
        made = {family.name: self._make(family, unix) for family in families}
        self._series = {name: one for name, one in made.items() if isinstance(one, Series)}
        self._histograms = {name: one for name, one in made.items() if isinstance(one, Histogram)}
        self._texts = [one for name, one in made.items() if _bare(name) not in self._dropped]
        self._series["engine_sleep_state"].set(1.0)
        self._in_engine = 0, 0, 0.0

    def _make(self, family: Family, unix: float) -> Series | Histogram:
        name = f"vllm:{family.name}"
        if family.kind == "histogram":
            bounds = up_to(self._max_model_len) if family.bounds == UP_TO_LENGTH else family.bounds
            return Histogram(name, family.about, bounds, self._own, unix)
        labels = [self._own | {family.label: value} for value in family.values] or [self._own]
        return Series(name, family.kind, family.about, labels, unix)

    def count(self, name: str) -> float:
        """Return a counter's sum over its labels."""
        return sum(self._series[name].values)

    def step(self, step: Step, done: Outputs, scheduler: Scheduler, now: float) -> None:
        """Count one engine step; `now` is when its outputs were there."""
        series = self._series
        if step.queried:
            series["prefix_cache_queries_total"].add(step.queried)
            series["prefix_cache_hits_total"].add(step.hit)
        if done.drafts:
            self._count_drafts(done)
        if done.requests:
            self._count_outputs(done, now)
        self.gauges(scheduler)

    def gauges(self, scheduler: Scheduler) -> None:
        """Take over what is in the engine now; this happens with a step, never between."""
        self._in_engine = len(scheduler.running), len(scheduler.waiting), scheduler.kv.usage

    def _count_drafts(self, done: Outputs) -> None:
        self._series["spec_decode_num_drafts_total"].add(done.drafts)
        self._series["spec_decode_num_draft_tokens_total"].add(done.draft_tokens)
        self._series["spec_decode_num_accepted_tokens_total"].add(sum(done.accepted))
        self._series["spec_decode_num_accepted_tokens_per_pos_total"].add_each(done.accepted)

    def _count_outputs(self, done: Outputs, now: float) -> None:
        prompts = 0
        gaps: dict[float, int] = {}  # since the last output of each request; mostly one for all
        for request in done.requests:
            if request.generated == request.output:
                prompts += request.prompt_size - request.hits
                self._count_first(request, now)
            else:
                gaps[request.last_at] = gaps.get(request.last_at, 0) + 1
            request.last_at = now
        for request in done.ended:
            self._count_end(request, now)
        for last, times in gaps.items():
            self._histograms["inter_token_latency_seconds"].observe(now - last, times)
        self._series["generation_tokens_total"].add(done.tokens)
        if done.preemptions:
            self._series["num_preemptions_total"].add(done.preemptions)
        self._histograms["iteration_tokens_total"].observe(prompts + done.tokens)

    def _count_first(self, request: Request, now: float) -> None:
        request.first_at = now
        self._series["prompt_tokens_total"].add(request.prompt_size)
        self._series["prompt_tokens_by_source_total"].add(request.prompt_size - request.hits, 0)
        self._series["prompt_tokens_by_source_total"].add(request.hits, 1)
        self._series["prompt_tokens_cached_total"].add(request.hits)
        self._histograms["time_to_first_token_seconds"].observe(now - request.arrived)

    def _count_end(self, request: Request, now: float) -> None:
        queued, scheduled = request.queued_at or 0.0, request.scheduled_at or 0.0
        decode = now - request.first_at
        self._series["request_success_total"].add(1, _FINISH[request.finish_reason or "length"])
        for name, value in (
            ("request_prompt_tokens", request.prompt_size),
            ("request_generation_tokens", request.generated),
            ("request_max_num_generation_tokens", request.generated),
            ("request_params_n", 1),
            ("request_params_max_tokens", request.max_tokens),
            ("request_prefill_kv_computed_tokens", request.prompt_size - request.hits),
            ("e2e_request_latency_seconds", now - request.arrived),
            ("request_queue_time_seconds", scheduled - queued),
            ("request_prefill_time_seconds", request.first_at - scheduled),
            ("request_decode_time_seconds", decode),
            ("request_inference_time_seconds", now - scheduled),
            ("request_time_per_output_token_seconds", decode / max(1, request.generated - 1)),
        ):
            self._histograms[name].observe(value)

    def answered(self, handler: str, method: str, status: int) -> None:
        """Count an HTTP request, as the front end does for all routes but its own small ones."""
        key = (handler, method, f"{status // 100}xx")
        self._http[key] = self._http.get(key, 0) + 1
        self._http_lines = ""

    def text(self) -> str:
        """Return the scrape."""
        running, waiting, usage = self._in_engine
        self._series["num_requests_running"].set(running)
        self._series["num_requests_waiting"].set(waiting)
        self._series["num_requests_waiting_by_reason"].set(waiting)
        self._series["kv_cache_usage_perc"].set(usage)
        name = "process_start_time_seconds"
        about = "Start of the process, in seconds since 1970."
        parts = [f"# HELP {name} {about}\n# TYPE {name} gauge\n{name} {number(self._process_start)}\n"]
        parts += [one.text() for one in self._texts]
        if "cache_config_info" not in self._dropped:
            parts.append(self._cache_info)
        if self._http and not self._http_lines:
            self._http_lines = self._http_text()
        parts.append(self._http_lines)
        return "".join(parts)

    def _http_text(self) -> str:
        labels = [
            labelled({"handler": handler, "method": method, "status": status}) for handler, method, status in self._http
        ]
        about = "Requests by method, status and handler."
        counts = "".join(
            f"http_requests_total{label} {number(count)}\n"
            for label, count in zip(labels, self._http.values(), strict=True)
        )
        created = "".join(f"http_requests_created{label} {number(self._unix)}\n" for label in labels)
        return (
            f"# HELP http_requests_total {about}\n# TYPE http_requests_total counter\n{counts}"
            f"# HELP http_requests_created {about}\n# TYPE http_requests_created gauge\n{created}"
        )


def _bare(name: str) -> str:
    return name.removeprefix("vllm:").removesuffix("_total")


def _cache_info(facts: Mapping[str, str]) -> str:
    name = "vllm:cache_config_info"
    about = "The engine's cache configuration, in labels."
    return f"# HELP {name} {about}\n# TYPE {name} gauge\n{name}{labelled(dict(facts))} 1.0\n"
