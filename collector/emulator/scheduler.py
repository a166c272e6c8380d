"""Continuous batching as vLLM's V1 scheduler does it: which tokens of which requests one step computes.

Running requests come first, in their order; then waiting ones, first come first served. What is left of a
step's token budget goes to prompts in chunks. A running request that finds no block preempts the last one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from collector.core.step import StepLoad
from collector.emulator.blocks import KvCache
from collector.emulator.request import Request
from collector.emulator.setup import Setup


@dataclass(slots=True)
class Step:
    """What one step computes; how much of each request stands in the request."""

    requests: list[Request]
    load: StepLoad
    next_drafts: int  # proposed at the end of this step for the next one
    queried: int = 0  # tokens looked up in the prefix cache at first admissions
    hit: int = 0


@dataclass(slots=True)
class Outputs:
    """What came of a step. `accepted` counts before anything was cut off."""

    requests: list[Request] = field(default_factory=list)  # those that got tokens
    ended: list[Request] = field(default_factory=list)  # of them, those that got their last
    tokens: int = 0
    preemptions: int = 0  # that the requests went through since their last output
    drafts: int = 0
    draft_tokens: int = 0
    accepted: list[int] = field(default_factory=list)  # per position, drafts accepted up to it


class Scheduler:
    def __init__(self, setup: Setup, kv: KvCache, *, budget: int, max_model_len: int, window: int | None) -> None:
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.kv = kv
        self._setup = setup
        self._lookahead = setup.lookahead
        self._budget = budget
        self._max_model_len = max_model_len
        self._window = window
        self._drafts_at = [setup.drafts_at(batch) for batch in range(1, setup.max_num_seqs + 1)]

    @property
    def busy(self) -> bool:
        return bool(self.running or self.waiting)

    def add(self, request: Request) -> None:
        self.waiting.append(request)

    def drop_gone(self) -> None:
        """Forget the requests whose clients have gone."""
        for request in self.running:
            if request.gone:
                self.kv.release(request)
        self.running = [request for request in self.running if not request.gone]
        self.waiting = deque(request for request in self.waiting if not request.gone)

    def schedule(self, now: float) -> Step | None:
        """Choose the next step, or return None where nothing can run."""
        for request in reversed(self.waiting):  # what the engine had not seen before
            if request.queued_at is not None:
                break
            request.queued_at = now
        chosen: list[Request] = []
        budget, preempted = self._schedule_running(chosen, self._budget)
        queried = hit = 0
        if not preempted:
            queried, hit = self._admit_waiting(chosen, budget, now)
        if not chosen:
            return None
        drafts = self._drafts_at[len(chosen) - 1]
        return Step(requests=chosen, load=self._load(chosen, drafts), next_drafts=drafts, queried=queried, hit=hit)

    def _schedule_running(self, chosen: list[Request], budget: int) -> tuple[int, bool]:
        running, kv, lookahead, longest = self.running, self.kv, self._lookahead, self._max_model_len
        preempted = False
        for request in running:  # which a preemption shortens at its end
            if budget <= 0:
                break
            size, computed = request.size, request.computed
            new = size + request.drafted - computed
            if new > budget or computed + new >= longest:
                new = min(budget, longest - 1 - computed)
            if new <= 0:
                continue
            reached = computed + new
            while reached >= request.due_at and not kv.grow(request, new, lookahead):
                preempted = True
                victim = running.pop()
                self._preempt(victim)
                if victim is request:
                    return budget, True
            request.new = new
            request.drafts = reached - size if reached > size else 0
            request.drafted = 0
            request.decodes = computed == size - 1 and request.generated > 0
            request.samples = reached >= size
            budget -= new
            chosen.append(request)
        return budget, preempted

    def _preempt(self, request: Request) -> None:
        """Take a request's blocks; it will compute prompt and answer again, ahead of all that wait."""
        self.kv.release(request)
        request.computed = request.drafted = 0
        request.preempted += 1
        request.preemptions += 1
        self.waiting.appendleft(request)

    def _admit_waiting(self, chosen: list[Request], budget: int, now: float) -> tuple[int, int]:
        queried = hit = 0
        while self.waiting and budget > 0 and len(self.running) < self._setup.max_num_seqs:
            request = self.waiting[0]
            hits = self.kv.hits(request)
            new = min(request.size - hits, budget)
            if not self.kv.admit(request, new, self._lookahead, hits):
                break
            self.waiting.popleft()
            self.running.append(request)
            if not request.preemptions:
                request.hits = hits
                if self._setup.enable_prefix_caching:
                    queried += request.size
                    hit += hits
            if request.scheduled_at is None:
                request.scheduled_at = now
            budget -= new
            request.new, request.drafts = new, 0
            request.decodes, request.samples = False, hits + new >= request.size
            chosen.append(request)
        return queried, hit

    def _load(self, chosen: list[Request], drafts: int) -> StepLoad:
        window = self._window
        prefill = decode = decoding = read = sliding = ending = 0
        for request in chosen:
            new = request.new
            context = request.computed + new
            read += context
            if window is not None:
                sliding += min(window, context)
            if request.decodes:
                decoding += 1
                decode += new
            else:
                prefill += new
                ending += request.samples
        return StepLoad(
            prefill_positions=prefill,
            decode_positions=decode,
            requests=len(chosen),
            decoding=decoding,
            kv_read_tokens=read,
            kv_read_tokens_sliding=sliding,
            drafted_per_request=drafts,
            drafting=decoding + ending if self._setup.speculates else 0,
            sampled=decode + ending,
        )

    def finish(self, step: Step) -> Outputs:
        """Take in what the step computed: new tokens, ends, and drafts for the next step."""
        done = Outputs(accepted=[0] * self._setup.num_speculative_tokens)
        for request in step.requests:
            request.computed += request.new
            if request.gone or not request.samples:
                continue
            new = 1 + self._verify(request, done) if request.drafts else 1
            generated, stop_at = request.generated + new, request.stop_at
            if generated >= stop_at:
                new, generated = new - (generated - stop_at), stop_at
                request.finish_reason = "length" if generated >= request.max_tokens else "stop"
                self.kv.release(request)
                done.ended.append(request)
            else:
                request.drafted = step.next_drafts
            request.generated = generated
            request.size += new
            request.output = new
            done.tokens += new
            done.preemptions += request.preempted
            request.preempted = 0
            done.requests.append(request)
        if done.ended:
            self.running = [request for request in self.running if request.finish_reason is None]
        return done

    def _verify(self, request: Request, done: Outputs) -> int:
        """Return how many of a request's drafts are accepted."""
        drafts = request.drafts
        accepted = request.accept.accepted(request.generated, drafts) if request.accept else 0
        request.computed -= drafts - accepted
        done.drafts += 1
        done.draft_tokens += drafts
        for position in range(accepted):
            done.accepted[position] += 1
        return accepted
