"""What the embedded engine is to be: a host, its models, and what a real engine of them was seen to do.

A profile is a JSON file. `hardware` and each model's `dimensions` are for the step-time model alone; nothing
here looks into them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collector.core.errors import UserError

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Phase = Literal["config", "load", "profile", "graph_capture"]

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


class Outcome(Part):
    """A start that fails as it was seen to fail, where the physics of the profile do not say why.

    `match` names facts of a configuration (fields of Setup); all must be equal. `log` is the error as the
    engine printed it; `phase` is how far the start comes before.
    """

    match: Mapping[str, Any] = Field(min_length=1)
    log: Annotated[str, Field(min_length=1)]
    exit_code: int = 1
    phase: Phase = "config"
    note: str = ""  # where the outcome is from


#: Per position, the chance that a draft's token is accepted when all before it were.
Conditional = Annotated[tuple[Share, ...], Field(min_length=1)]
#: Model, method, k, prompt kind.
Acceptance = Mapping[str, Mapping[str, Mapping[int, Mapping[str, Conditional]]]]


class LoneRun(Part):
    """How drafts were accepted while one request ran alone, in a run whose acceptance is known.

    One prompt answered over and over is one text, and one text may lie far from the mean of many. `match` names
    facts of a configuration (fields of Setup); all must be equal.
    """

    match: Mapping[str, Any] = Field(min_length=1)
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


def load_profile(path: Path) -> Profile:
    """Read a profile. Raises UserError that names the file and the place in it."""
    try:
        return parse_profile(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def parse_profile(text: str, name: str) -> Profile:
    try:
        return Profile.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "file"
        raise UserError(f"{name}: {place}: {first['msg']}") from error
