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
class Work:
    """What a step computes of one request."""

    request: Request
    new: int  # positions
    drafts: int  # of them, drafts that are verified
    decodes: bool
    samples: bool  # whether the step reaches the request's last token


@dataclass(slots=True)
class Step:
    work: list[Work]
    load: StepLoad
    next_drafts: int  # proposed at the end of this step for the next one
    queried: int = 0  # tokens looked up in the prefix cache at first admissions
    hit: int = 0


@dataclass(slots=True)
class Output:
    """New tokens of one request, after one step. `accepted` counts before anything was cut off."""

    request: Request
    new: int
    first: bool
    preempted: int


@dataclass(slots=True)
class Outputs:
    outputs: list[Output] = field(default_factory=list)
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
        work: list[Work] = []
        budget, preempted = self._schedule_running(work, self._budget)
        queried = hit = 0
        if not preempted:
            queried, hit = self._admit_waiting(work, budget, now)
        if not work:
            return None
        drafts = self._drafts_at[len(work) - 1]
        return Step(work=work, load=self._load(work, drafts), next_drafts=drafts, queried=queried, hit=hit)

    def _schedule_running(self, work: list[Work], budget: int) -> tuple[int, bool]:
        running, kv, lookahead, longest = self.running, self.kv, self._lookahead, self._max_model_len
        place, preempted = 0, False
        while place < len(running) and budget > 0:
            request = running[place]
            place += 1
            size, computed = request.prompt_size + request.generated, request.computed
            new = size + request.drafted - computed
            if new > budget or computed + new >= longest:
                new = min(budget, longest - 1 - computed)
            if new <= 0:
                continue
            while computed + new >= request.due_at and not kv.grow(request, new, lookahead):
                preempted = True
                victim = running.pop()
                self._preempt(victim)
                if victim is request:
                    return budget, True
            reached = computed + new
            drafts = reached - size if reached > size else 0
            request.drafted = 0
            budget -= new
            work.append(Work(request, new, drafts, computed == size - 1 and request.generated > 0, reached >= size))
        return budget, preempted

    def _preempt(self, request: Request) -> None:
        """Take a request's blocks; it will compute prompt and answer again, ahead of all that wait."""
        self.kv.release(request)
        request.computed = request.drafted = 0
        request.preempted += 1
        request.preemptions += 1
        self.waiting.appendleft(request)

    def _admit_waiting(self, work: list[Work], budget: int, now: float) -> tuple[int, int]:
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
            work.append(Work(request, new, 0, False, hits + new >= request.size))
        return queried, hit

    def _load(self, work: list[Work], drafts: int) -> StepLoad:
        window = self._window
        prefill = decode = decoding = read = sliding = sampled = sampling = 0
        for one in work:
            context = one.request.computed + one.new
            read += context
            if window is not None:
                sliding += min(context, window)
            if one.decodes:
                decoding += 1
                decode += one.new
                sampled += one.new
            else:
                prefill += one.new
                sampled += one.samples
            sampling += one.samples
        return StepLoad(
            prefill_positions=prefill,
            decode_positions=decode,
            requests=len(work),
            decoding=decoding,
            kv_read_tokens=read,
            kv_read_tokens_sliding=sliding,
            drafted_per_request=drafts,
            drafting=sampling if self._setup.speculates else 0,
            sampled=sampled,
        )

    def finish(self, step: Step) -> Outputs:
        """Take in what the step computed: new tokens, ends, and drafts for the next step."""
        done = Outputs(accepted=[0] * self._setup.num_speculative_tokens)
        outputs, ended = done.outputs, False
        for work in step.work:
            request = work.request
            request.computed += work.new
            if request.gone or not work.samples:
                continue
            new = 1
            if work.drafts:
                new += self._verify(work, done)
            before, stop_at = request.generated, request.stop_at
            generated = before + new
            if generated >= stop_at:
                new, generated = stop_at - before, stop_at
            request.generated = generated
            if generated == stop_at:
                request.finish_reason = "length" if generated >= request.max_tokens else "stop"
                self.kv.release(request)
                ended = True
            else:
                request.drafted = step.next_drafts
            outputs.append(Output(request, new, before == 0, request.preempted))
            request.preempted = 0
        if ended:
            self.running = [request for request in self.running if request.finish_reason is None]
        return done

    def _verify(self, work: Work, done: Outputs) -> int:
        request = work.request
        accepted = request.accept.accepted(request.generated, work.drafts) if request.accept else 0
        request.computed -= work.drafts - accepted
        done.drafts += 1
        done.draft_tokens += work.drafts
        for position in range(accepted):
            done.accepted[position] += 1
        return accepted
