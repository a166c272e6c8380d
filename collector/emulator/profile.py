"""What the embedded engine is to be: a host, its models, and what a real engine of them was seen to do.

A profile is a JSON file. `hardware` and each model's `dimensions` are for the step-time model alone; nothing
here looks into them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from collector.core.errors import UserError, close_words
from collector.emulator.faults import Faults
from collector.emulator.setup import Setup

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Phase = Literal["config", "weights", "profile", "graph_capture"]

#: Where the prompt's text shows its kind; the first that is found counts. A profile may give its own.
KINDS = {
    "korean": "[가-힣].*[가-힣]",
    "code": r"```|\b(?:Python|Rust|TypeScript|JavaScript|SQL|Go function|C\+\+|[Bb]ash|pytest|regex)\b",
    # Something to work out has at least four numbers, or says so.
    "reasoning": r"(?:\b\d[\d.,:]*\b.*?){4}|\b(?:[Pp]rove|[Dd]educe|puzzle|knaves)\b",
}
DEFAULT_KIND = "synthetic"
DEFAULT_CHAT_KIND = "english"


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Tokenizer(Part):
    """How long a token is: characters of a run of letters, of digits, of Hangul that one token holds."""

    letters: Annotated[float, Field(gt=0)] = 5.0
    digits: Annotated[float, Field(gt=0)] = 1.0
    hangul: Annotated[float, Field(gt=0)] = 1.7
    vocabulary: Positive = 128_000
    begin: Count = 0  # tokens before every prompt
    turn: Count = 4  # tokens that a chat template adds to a message, and once for the answer's head


class Drafter(Part):
    weights_bytes: Count
    layers: Count = 0  # with a KV cache of their own, of the target's size a layer


class Model(Part):
    architecture: str = "CausalLM"
    dimensions: Mapping[str, Any] = Field(default_factory=dict)
    weights_bytes: Count
    layers: Positive
    sliding_layers: Count = 0  # of the layers, those that see a window only
    sliding_window: Positive | None = None
    kv_bytes_per_token_layer: Positive  # keys and values of one layer at 16 bits, over all ranks
    max_position: Positive = 131_072
    #: KV dtype to the backends that fit, the chosen one first; `auto` stands for what is not listed.
    attention_backends: Mapping[str, tuple[str, ...]] = Field(default_factory=lambda: {"auto": ("FLASH_ATTN",)})
    drafters: Mapping[str, Drafter] = Field(default_factory=dict)  # by method
    tokenizer: Tokenizer = Field(default_factory=Tokenizer)
    load_s: Annotated[float, Field(ge=0)] = 30.0
    #: Mean length of an answer that may end by itself; absent, an answer never does.
    answer_tokens: Positive | None = None


class Memory(Part):
    """Of one GPU, in bytes."""

    gpu_bytes: Positive
    non_torch_bytes: Count = 0
    activation_bytes: Count = 0
    graph_bytes: Count = 0
    peer_bytes: Count = 0  # buffers of peer-to-peer links, where they are on


def _of_setup(match: Mapping[str, Any]) -> Mapping[str, Any]:
    facts = [one.name for one in fields(Setup)]
    for name in match:
        if name not in facts:
            raise ValueError(f"found {name!r}, allowed: {', '.join(facts)}{close_words(name, facts)}")
    return match


#: Facts of a start (fields of Setup) that must all be equal.
Match = Annotated[Mapping[str, Any], Field(min_length=1), AfterValidator(_of_setup)]


class Outcome(Part):
    """What becomes of certain starts, where the physics of the profile do not say it: a failure, or faults.

    The first outcome that matches counts. `log` makes the start fail as it was seen to fail: the error as the
    engine printed it, after it came as far as `phase`. `faults` lets it go on and fail in a known way.
    """

    match: Match
    log: Annotated[str, Field(min_length=1)] | None = None
    exit_code: int = 1
    phase: Phase = "config"
    faults: Faults | None = None
    note: str = ""  # where the outcome is from

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.log is None) == (self.faults is None):
            raise ValueError("needs either log, for a start that fails, or faults")
        return self


#: Per position, the chance that a draft's token is accepted when all before it were.
Conditional = Annotated[tuple[Share, ...], Field(min_length=1)]
#: Model, method, k, prompt kind.
Acceptance = Mapping[str, Mapping[str, Mapping[int, Mapping[str, Conditional]]]]


class LoneRun(Part):
    """How drafts were accepted while one request ran alone, in a run whose acceptance is known.

    One prompt answered over and over is one text, and one text may lie far from the mean of many.
    """

    match: Match
    kind: str
    conditional: Conditional
    note: str = ""  # where it is from


class Profile(Part):
    profile: Literal[1]
    name: str
    about: str = ""
    engine_version: str = "0.27.0"
    hardware: Mapping[str, Any] = Field(default_factory=dict)
    memory: Memory
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.92
    max_num_batched_tokens: Positive = 2048
    block_size: Positive = 16
    models: Mapping[str, Model] = Field(min_length=1)
    acceptance: Acceptance = Field(default_factory=dict)
    lone_runs: tuple[LoneRun, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    prompt_kinds: Mapping[str, str] = Field(default_factory=lambda: dict(KINDS))
    default_kind: str = DEFAULT_KIND
    default_chat_kind: str = DEFAULT_CHAT_KIND
    seed: int = 0  # of everything that is drawn

    @cached_property
    def kind_patterns(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        return tuple((kind, re.compile(pattern, re.DOTALL)) for kind, pattern in self.prompt_kinds.items())

    def model(self, name: str) -> Model:
        if name not in self.models:
            raise UserError(f"profile {self.name}: has no model {name!r}; it has {', '.join(self.models)}")
        return self.models[name]

    def outcome(self, setup: Setup) -> Outcome | None:
        """Return what is scripted for a start, if anything."""
        return next((one for one in self.outcomes if _fits(one.match, setup)), None)

    def lone_acceptance(self, setup: Setup) -> dict[str, Conditional]:
        """Return the conditional acceptance of a request that runs alone, by prompt kind, where it is known."""
        return {one.kind: one.conditional for one in reversed(self.lone_runs) if _fits(one.match, setup)}

    def kind_of(self, text: str, *, chat: bool) -> str:
        """Return the kind of a prompt, which its acceptance depends on."""
        if not chat:
            return self.default_kind
        found = (kind for kind, pattern in self.kind_patterns if pattern.search(text))
        return next(found, self.default_chat_kind)

    def conditional(self, model: str, method: str, k: int, kind: str) -> tuple[float, ...]:
        """Return the k conditional acceptance probabilities.

        Without a table for this k the next larger one counts, else the largest, its last value repeated:
        what a position is worth hardly depends on how many follow it.
        """
        tables = self.acceptance.get(model, {}).get(method, {})
        if not tables:
            raise UserError(f"profile {self.name}: has no acceptance of {method} for {model}")
        kinds = tables[min((one for one in tables if one >= k), default=max(tables))]
        chances = kinds.get(kind) or kinds.get(self.default_kind) or next(iter(kinds.values()))
        return (chances + chances[-1:] * k)[:k]


def _fits(match: Mapping[str, Any], setup: Setup) -> bool:
    facts = asdict(setup)
    return all(facts[key] == value for key, value in match.items())
