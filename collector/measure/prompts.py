"""What the load sends: the prompt sets of this package and the request bodies made from them.

Every prompt begins with its own nonce, so that no two requests share a prefix which the engine could
answer from its cache.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from collector.core.errors import EngineError, UserError, close_words
from collector.core.prompt_names import PROMPT_SETS

NONCE_DIGITS = 12  # 48 bits: among a million requests, a chance of 0.2 % that any two are equal
DIGEST_DIGITS = 12

Kind = Literal["completion", "chat"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptSet:
    """The texts of one prompt set: sentences to repeat (completion) or user messages (chat)."""

    name: str
    kind: Kind
    texts: tuple[str, ...]
    digest: str  # of kind and texts; two rows with the same digest were asked the same things


def load_prompt_set(name: str) -> PromptSet:
    """Read a prompt set of this package."""
    if name not in PROMPT_SETS:
        expected = f"expected one of {', '.join(PROMPT_SETS)}"
        raise UserError(f"prompt set {name!r} is not known: {expected}{close_words(name, PROMPT_SETS)}")
    resource = files("collector.measure") / "prompt_sets" / f"{name}.json"
    data = json.loads(resource.read_text(encoding="utf-8"))
    texts = tuple(data["texts"])
    return PromptSet(name=data["name"], kind=data["kind"], texts=texts, digest=digest(data["kind"], texts))


def digest(kind: Kind, texts: Sequence[str]) -> str:
    """Identify the content of a prompt set: the start of the sha256 of its canonical JSON."""
    canonical = json.dumps(
        {"kind": kind, "texts": list(texts)}, ensure_ascii=False, sort_keys=True, separators=(",", ":")
    )
    return hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST_DIGITS]


def nonce(salt: str, index: int) -> str:
    """Return the mark of one request. A salt of its own per stage keeps it unique within a campaign."""
    return hashlib.sha256(f"{salt}:{index}".encode()).hexdigest()[:NONCE_DIGITS]


def prompt_text(prompt_set: PromptSet, index: int, *, salt: str, repetitions: int) -> str:
    """Return the prompt of request `index`; only a completion set is repeated."""
    match prompt_set.kind:
        case "completion":
            body = " ".join(prompt_set.texts * repetitions)
        case "chat":
            body = prompt_set.texts[index % len(prompt_set.texts)]
    return f"{nonce(salt, index)} {body}"


def request_body(
    prompt_set: PromptSet, index: int, *, model: str, salt: str, repetitions: int, output_tokens: int
) -> tuple[str, dict[str, object]]:
    """Return path and body of a request which is greedy and gives exactly `output_tokens` tokens."""
    text = prompt_text(prompt_set, index, salt=salt, repetitions=repetitions)
    answer: dict[str, object] = {
        "max_tokens": output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": False,
    }
    match prompt_set.kind:
        case "completion":
            return "/v1/completions", {"model": model, "prompt": text, **answer}
        case "chat":
            return "/v1/chat/completions", {"model": model, "messages": _messages(text), **answer}


def tokenize_body(prompt_set: PromptSet, index: int, *, model: str, salt: str, repetitions: int) -> dict[str, object]:
    """Return the body for vLLM's POST /tokenize that counts the tokens of the same prompt."""
    text = prompt_text(prompt_set, index, salt=salt, repetitions=repetitions)
    match prompt_set.kind:
        case "completion":
            return {"model": model, "prompt": text}
        case "chat":
            return {"model": model, "messages": _messages(text), "add_generation_prompt": True}


def repetitions_for(target_tokens: int, one: int, two: int) -> int:
    """Return how often to repeat, so that the prompt is as long as `target_tokens` allows, never longer.

    `one` and `two` are the token counts of the same prompt with one and two repetitions.
    """
    if one > target_tokens:
        raise UserError(
            f"the shortest synthetic prompt has {one} tokens, more than the {target_tokens} asked for: "
            f"set the prompt length to {one} tokens or more"
        )
    if two <= one:
        raise EngineError(f"one repetition of the prompt counts {one} tokens, but two count {two}")
    return 1 + (target_tokens - one) // (two - one)


def _messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]
