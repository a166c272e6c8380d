"""One stage of closed-loop load, as a list of steps with their weights; no time in it.

In a closed loop a request arrives when another one ends, so which steps a stage has does not depend on how
long they take. (It arrives while the next step runs, which asynchronous scheduling has chosen already, and is seen one
step later.) A stage is thus walked once, and its window, TTFT and token times are sums over its steps of
step time times a weight: what a fit evaluates thousands of times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil

from collector.core.step import StepLoad

TOKEN_BUDGET = 2048  # vLLM's default of max_num_batched_tokens on a 24 GB card
MAX_NUM_SEQS = 32
BLOCK = 16  # tokens of a KV block
OUTPUT_TOKENS = 256
#: Steps that differ only in the KV they read, by less than this many tokens, are counted as one with their mean.
KV_GROUP = 4096
#: Fractional parts of the golden ratio and of the plastic number's: steps of low-discrepancy sequences.
GOLDEN = 0.6180339887498949
SPREAD = 0.7548776662466927


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """What is asked of a stage."""

    prompt_tokens: int
    concurrency: int
    requests: int
    k: int = 0
    conditional: tuple[float, ...] = ()  # acceptance of each draft position, given that the ones before were
    capacity_tokens: int = 1_000_000_000
    parallel_drafter: bool = False  # its slots are taken off the token budget, as vLLM does
    window: int = 0  # of sliding layers; 0: none

    @property
    def budget(self) -> int:
        return TOKEN_BUDGET - ((self.k - 1) * MAX_NUM_SEQS if self.parallel_drafter and self.k else 0)


@dataclass(frozen=True, slots=True)
class Weighted:
    """Steps of one load: how many, and how many requests waited for a first token or decoded in them."""

    load: StepLoad
    steps: int
    waiting: int
    decoding: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Walk:
    """All steps of a stage."""

    groups: tuple[Weighted, ...]
    requests: int
    tokens: int
    drafts: int
    accepted: int
    preemptions: int

    def window_s(self, step_time: Callable[[StepLoad], float]) -> float:
        return sum(one.steps * step_time(one.load) for one in self.groups)

    def result(self, step_time: Callable[[StepLoad], float]) -> Result:
        times = [step_time(one.load) for one in self.groups]
        window = sum(one.steps * time for one, time in zip(self.groups, times, strict=True))
        waited = sum(one.waiting * time for one, time in zip(self.groups, times, strict=True))
        decoded = sum(one.decoding * time for one, time in zip(self.groups, times, strict=True))
        return Result(
            window_s=window,
            throughput_tok_s=self.tokens / window,
            ttft_s=waited / self.requests,
            decode_tok_s=(self.tokens - self.requests) / decoded,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    window_s: float
    throughput_tok_s: float
    ttft_s: float
    decode_tok_s: float  # of one request, after its first token


@dataclass(slots=True)
class Request:
    prompt: int
    draw: float  # position in the low-discrepancy sequence that decides acceptance
    computed: int = 0
    generated: int = 0
    drafted: bool = False
    blocks: int = 0
    scheduled: int = 0

    @property
    def known(self) -> int:
        return self.prompt + self.generated

    @property
    def decodes(self) -> bool:
        return self.generated > 0 and self.computed >= self.known - 1


@dataclass(slots=True)
class Scheduler:
    """vLLM's rules that matter here: running requests first, then waiting ones, until the budget is spent."""

    stage: Stage
    free: int
    waiting: deque[Request] = field(default_factory=deque)
    running: list[Request] = field(default_factory=list)
    preemptions: int = 0

    def wanted(self, request: Request) -> int:
        drafts = self.stage.k if request.decodes and request.drafted else 0
        return request.known - request.computed + drafts

    def grow(self, request: Request, tokens: int) -> bool:
        needed = max(0, ceil((request.computed + tokens) / BLOCK) - request.blocks)
        if needed > self.free:
            return False
        self.free -= needed
        request.blocks += needed
        return True

    def release(self, request: Request) -> None:
        self.free += request.blocks
        request.blocks = 0

    def preempt(self, index: int) -> int:
        """Give up the last running request in favour of the one at `index`; return its share of the budget."""
        victim = self.running.pop()
        self.release(victim)
        returned, victim.scheduled, victim.computed, victim.drafted = victim.scheduled, 0, 0, False
        self.waiting.appendleft(victim)
        self.preemptions += 1
        return returned if len(self.running) < index else 0

    def schedule(self) -> list[Request]:
        budget, before, index = self.stage.budget, self.preemptions, 0
        while index < len(self.running) and budget > 0:
            request = self.running[index]
            request.scheduled = 0
            tokens = min(self.wanted(request), budget)
            while request in self.running and not self.grow(request, tokens):
                budget += self.preempt(index)
            if index < len(self.running) and self.running[index] is request:
                request.scheduled = tokens
                budget -= tokens
            index += 1
        if self.preemptions == before:
            self.admit(budget)
        return [one for one in self.running if one.scheduled]

    def admit(self, budget: int) -> None:
        while self.waiting and budget > 0 and len(self.running) < MAX_NUM_SEQS:
            request = self.waiting[0]
            tokens = min(self.wanted(request), budget)
            if ceil(request.known / BLOCK) > self.free or not self.grow(request, tokens):
                return
            self.running.append(self.waiting.popleft())
            request.scheduled = tokens
            budget -= tokens


def unconditional(conditional: Sequence[float]) -> tuple[float, ...]:
    """Return the probability that a draft is accepted at least up to each position."""
    reached, found = 1.0, []
    for one in conditional:
        reached *= one
        found.append(reached)
    return tuple(found)


def arrivals(stage: Stage, arrived: int, done: int) -> list[Request]:
    """Return the requests that lanes send as soon as theirs have ended."""
    last = min(stage.requests, done + stage.concurrency)
    return [Request(stage.prompt_tokens, (one * SPREAD) % 1.0) for one in range(arrived, last)]


def walk(stage: Stage) -> Walk:
    """Return the steps of a stage. Acceptance follows a low-discrepancy sequence: its mean is the expected one."""
    scheduler = Scheduler(stage, stage.capacity_tokens // BLOCK)
    chances = unconditional(stage.conditional)
    found: dict[tuple[int, ...], list[int]] = {}
    arrived = done = tokens = drafts = accepted = 0
    late: list[Request] = []
    while done < stage.requests:
        scheduler.waiting.extend(late)
        late = arrivals(stage, arrived, done)
        arrived += len(late)
        if not scheduler.running and not scheduler.waiting:
            scheduler.waiting.extend(late)
            late = []
        scheduled = scheduler.schedule()
        if not scheduled:
            raise ValueError("the KV capacity does not hold one request")
        everyone = [*scheduler.running, *scheduler.waiting, *late]
        waiting = sum(1 for one in everyone if not one.generated)
        decoding = sum(1 for one in everyone if one.generated)
        load = step_load(stage, scheduled)
        drafts += load.decoding if stage.k else 0
        for request in scheduled:
            new, taken = advance(request, stage, chances)
            accepted += taken
            tokens += new
            if request.generated >= OUTPUT_TOKENS:
                scheduler.running.remove(request)
                scheduler.release(request)
                done += 1
        count(found, load, waiting, decoding)
    groups = tuple(averaged(key, sums) for key, sums in found.items())
    return Walk(
        groups=groups,
        requests=stage.requests,
        tokens=tokens,
        drafts=drafts,
        accepted=accepted,
        preemptions=scheduler.preemptions,
    )


def step_load(stage: Stage, scheduled: Sequence[Request]) -> StepLoad:
    decoding = [one for one in scheduled if one.decodes]
    ending = [one for one in scheduled if not one.decodes and one.computed + one.scheduled >= one.known]
    contexts = [one.computed + one.scheduled for one in scheduled]
    decode_positions = sum(one.scheduled for one in decoding)
    return StepLoad(
        prefill_positions=sum(one.scheduled for one in scheduled) - decode_positions,
        decode_positions=decode_positions,
        requests=len(scheduled),
        decoding=len(decoding),
        kv_read_tokens=sum(contexts),
        kv_read_tokens_sliding=sum(min(one, stage.window) for one in contexts) if stage.window else sum(contexts),
        drafted_per_request=stage.k,
        drafting=len(decoding) + len(ending) if stage.k else 0,
        sampled=decode_positions + len(ending),
    )


def advance(request: Request, stage: Stage, chances: Sequence[float]) -> tuple[int, int]:
    """Apply a step to a request; return its new tokens (trimmed at the end) and accepted drafts (not trimmed)."""
    taken = 0
    if request.decodes and request.drafted and stage.k:
        taken = sum(1 for chance in chances if request.draw < chance)
        request.draw = (request.draw + GOLDEN) % 1.0
    whole = request.computed + request.scheduled >= request.known
    request.computed = min(request.computed + request.scheduled, request.known) + taken
    request.scheduled = 0
    if not whole:
        return 0, 0
    new = min(1 + taken, OUTPUT_TOKENS - request.generated)
    request.generated += new
    request.drafted = stage.k > 0
    return new, taken


def count(found: dict[tuple[int, ...], list[int]], load: StepLoad, waiting: int, decoding: int) -> None:
    key = (
        load.prefill_positions,
        load.decode_positions,
        load.requests,
        load.decoding,
        load.drafted_per_request,
        load.drafting,
        load.sampled,
        load.kv_read_tokens // KV_GROUP,
    )
    sums = found.setdefault(key, [0, 0, 0, 0, 0])
    for index, value in enumerate((1, waiting, decoding, load.kv_read_tokens, load.kv_read_tokens_sliding)):
        sums[index] += value


def averaged(key: tuple[int, ...], sums: Sequence[int]) -> Weighted:
    steps, waiting, decoding, read, sliding = sums
    load = StepLoad(
        prefill_positions=key[0],
        decode_positions=key[1],
        requests=key[2],
        decoding=key[3],
        kv_read_tokens=round(read / steps),
        kv_read_tokens_sliding=round(sliding / steps),
        drafted_per_request=key[4],
        drafting=key[5],
        sampled=key[6],
    )
    return Weighted(load, steps, waiting, decoding)
