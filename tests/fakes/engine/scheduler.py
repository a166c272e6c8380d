"""The engine's steps: each gives every running request its tokens and counts them as vLLM does."""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable

from tests.fakes.engine import faults
from tests.fakes.engine.arguments import BLOCK
from tests.fakes.engine.connection import Loop
from tests.fakes.engine.metrics import Metrics

STEP_S = max(1e-4, float(faults.setting("STEP_S", "0.002")))  # a step of 0 s would keep the sockets waiting
ACCEPT = float(faults.setting("ACCEPT", "0.7"))
HIT = 16  # what the cache knows of a prompt is counted in so many tokens, not in whole blocks


class Request:
    """A prompt of `size` tokens that wants `wanted` more; `reply` is called once they are there."""

    def __init__(self, prompt: str, size: int, wanted: int, reply: Callable[[], object]) -> None:
        self.prompt, self.size, self.wanted, self.reply = prompt, size, wanted, reply
        self.limit = max(1, wanted // 2) if faults.text("ANSWER") == "short" else wanted
        self.seed = self.state = zlib.crc32(prompt.encode())
        self.tokens = self.hits = self.preempted = 0
        self.arrived, self.queued = time.time(), time.monotonic()
        self.scheduled = self.first = self.last = 0.0

    def chance(self) -> float:
        """Return the prompt's next random number, from 0 to 1."""
        self.state = (self.state * 1103515245 + 12345) & 0x7FFFFFFF
        return self.state / 0x80000000

    def blocks(self) -> int:
        return -(-(self.size + self.tokens) // BLOCK)

    def reason(self) -> str:
        return "length" if self.tokens == self.wanted else "stop"

    def text(self) -> str:
        return "".join(f" w{zlib.crc32(f'{self.seed} {i}'.encode()) % 5000}" for i in range(self.tokens))


class Scheduler:
    """Gives every running request one token a step, or 1 + the accepted drafts, first come first served."""

    def __init__(self, args: argparse.Namespace, loop: Loop, die: Callable[[], object]) -> None:
        self.args, self.loop, self.die = args, loop, die
        spec = args.speculative_config or {}
        self.depth = int(spec.get("num_speculative_tokens", 0))
        self.may_miss = spec.get("method") in ("ngram", "ngram_gpu")
        self.metrics = Metrics(args)
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.seen: set[str] = set()
        self.ticking = False
        self.produced = 0

    def submit(self, request: Request) -> None:
        self.waiting.append(request)
        if not self.ticking:
            self.tick()

    def abort(self, request: Request) -> None:
        """Forget a request whose client has gone: its tokens stay counted, its end is counted nowhere."""
        for queue in (self.waiting, self.running):
            if request in queue:
                queue.remove(request)

    def tick(self) -> None:
        if self.running:
            self.step()
        limit = faults.number("HANG_AFTER_TOKENS")
        self.ticking = bool(self.running or self.waiting)
        if self.ticking and not (limit and self.produced >= limit):
            self.admit()
            self.loop.later(STEP_S, self.tick)

    def used(self) -> int:
        return sum(request.blocks() for request in self.running)

    def admit(self) -> None:
        while self.waiting and len(self.running) < self.args.max_num_seqs:
            request = self.waiting[0]
            if self.running and self.used() + request.blocks() >= self.args.blocks:
                return
            self.running.append(self.waiting.pop(0))
            if not request.scheduled:
                request.scheduled = time.monotonic()
                self.look_up(request)

    def look_up(self, request: Request) -> None:
        """Find in the cache a prompt that was seen before: whole, but for its last token."""
        if not self.args.no_enable_prefix_caching:
            request.hits = (request.size - 1) // HIT * HIT if request.prompt in self.seen else 0
            self.metrics.add("prefix_cache_queries_total", request.size)
            self.metrics.add("prefix_cache_hits_total", request.hits)

    def step(self) -> None:
        while len(self.running) > 1 and self.used() >= self.args.blocks:
            self.running[-1].preempted += 1
            self.waiting.insert(0, self.running.pop())
        now, before = time.monotonic(), self.produced
        tokens = sum(self.advance(request, now) for request in self.running)
        self.metrics.observe("iteration_tokens_total", tokens)
        finished = [request for request in self.running if request.tokens >= request.limit]
        for request in finished:
            self.finish(request)
        if before < faults.number("DIE_AFTER_TOKENS") <= self.produced:
            self.die()
        if before < faults.number("RESET_AFTER_TOKENS") <= self.produced:
            self.metrics.reset()
        self.running = [request for request in self.running if request not in finished]
        self.metrics.set("num_requests_running", len(self.running))
        self.metrics.set("num_requests_waiting", len(self.waiting))
        self.metrics.set("num_requests_waiting_by_reason", len(self.waiting), "capacity")
        self.metrics.set("kv_cache_usage_perc", min(1.0, self.used() / max(1, self.args.blocks - 1)))
        for request in finished:
            request.reply()

    def advance(self, request: Request, now: float) -> int:
        """Give a request its tokens of this step; return what they add to iteration_tokens."""
        prefilled = accepted = 0
        if request.first:
            self.metrics.observe("inter_token_latency_seconds", now - request.last)
            accepted = self.draft(request)
        else:
            request.first = now
            prefilled = self.prefill(request)
        new = min(1 + accepted, request.limit - request.tokens)
        request.tokens += new
        request.last = now
        self.produced += new
        self.metrics.add("generation_tokens_total", new)
        self.metrics.add("num_preemptions_total", request.preempted)
        request.preempted = 0
        return prefilled + new

    def prefill(self, request: Request) -> int:
        """Return the tokens that were computed and not found in the cache."""
        computed = request.size - request.hits
        self.seen.add(request.prompt)
        self.metrics.observe("time_to_first_token_seconds", max(0.0, time.time() - request.arrived))
        self.metrics.add("prompt_tokens_total", request.size)
        self.metrics.add("prompt_tokens_cached_total", request.hits)
        self.metrics.add("prompt_tokens_by_source_total", computed, "local_compute")
        self.metrics.add("prompt_tokens_by_source_total", request.hits, "local_cache_hit")
        return computed

    def draft(self, request: Request) -> int:
        """Return the tokens accepted before the cut at max_tokens; ngram finds no draft in one step of four."""
        missed = request.chance() < 0.25 and self.may_miss
        draws = [request.chance() < ACCEPT for _ in range(self.depth)]
        if missed or not draws:
            return 0
        accepted = [*draws, False].index(False)
        self.metrics.add("spec_decode_num_drafts_total")
        self.metrics.add("spec_decode_num_draft_tokens_total", self.depth)
        self.metrics.add("spec_decode_num_accepted_tokens_total", accepted)
        for position in range(accepted):
            self.metrics.add("spec_decode_num_accepted_tokens_per_pos_total", 1, str(position))
        return accepted

    def finish(self, request: Request) -> None:
        self.metrics.add("request_success_total", 1, request.reason())
        self.metrics.add("generation_tokens_total", 1 if faults.text("COUNT_WRONG") else 0)
        decode = request.last - request.first
        for name, number in {
            "prompt_tokens": request.size,
            "prefill_kv_computed_tokens": request.size - request.hits,
            "generation_tokens": request.tokens,
            "max_num_generation_tokens": request.tokens,
            "params_max_tokens": request.wanted,
            "params_n": 1,
            "queue_time_seconds": request.scheduled - request.queued,
            "prefill_time_seconds": request.first - request.scheduled,
            "decode_time_seconds": decode,
            "inference_time_seconds": request.last - request.scheduled,
            "time_per_output_token_seconds": decode / max(1, request.tokens - 1),
        }.items():
            self.metrics.observe(f"request_{name}", number)
        self.metrics.observe("e2e_request_latency_seconds", max(0.0, time.time() - request.arrived))
