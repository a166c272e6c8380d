"""The requests of one stage, encoded before the window, and how long the engine says their prompts are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from collector.core.configuration import Stage
from collector.core.errors import EngineError, RefusedError, UserError
from collector.core.window import STEADY
from collector.measure.client import Client
from collector.measure.failed import CellRefusedError
from collector.measure.load import Body
from collector.measure.prompts import PromptSet, load_prompt_set, repetitions_for, request_body, tokenize_body
from collector.measure.target import post_json

#: Repetitions of the synthetic sentences where the engine cannot count tokens (the reference's number).
REPETITIONS_UNCOUNTED = 26
#: Requests a lane beyond those that are waited for: what is under way when a steady window opens or closes.
SPARE_ROUNDS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """What a stage sends: the discarded warm-up, the ramp of a steady window and the measured requests."""

    warm_up: list[Body]
    ramp: list[Body]
    measured: list[Body]
    tokenized: tuple[int, ...] | None  # tokens of each measured prompt; None where the engine does not count
    prompt_set_digest: str


async def prepare(client: Client, stage: Stage, *, model: str, salt: str, max_model_len: int | None) -> Workload:
    """Make the requests of a stage. Raises CellRefusedError where a prompt would not fit the engine."""
    prompt_set = load_prompt_set(stage.prompt_set)
    repetitions = await _repetitions(client, prompt_set, stage, model)
    measured_salt = f"{salt}/measure"
    steady = stage.window == STEADY
    count = stage.requests + (SPARE_ROUNDS * stage.concurrency if steady else 0)
    tokenized = await _tokenized(client, prompt_set, count, model, measured_salt, repetitions)
    longest = max(tokenized or (0,))
    if max_model_len and longest + stage.output_tokens > max_model_len:
        cause = (
            f"a prompt of {longest} tokens of {stage.prompt_set} and {stage.output_tokens} output tokens "
            f"do not fit the engine's {max_model_len}"
        )
        raise CellRefusedError(category="max_model_len", phase="ready", cause=cause)

    def bodies(lengths: Sequence[int], part_salt: str) -> list[Body]:
        made = (
            request_body(prompt_set, i, model=model, salt=part_salt, repetitions=repetitions, output_tokens=length)
            for i, length in enumerate(lengths)
        )
        return [Body(path=path, content=json.dumps(body).encode()) for path, body in made]

    return Workload(
        warm_up=bodies([stage.warmup_output_tokens] * stage.warmup_requests, f"{salt}/warm-up"),
        ramp=bodies(ramp_lengths(stage), f"{salt}/ramp") if steady else [],
        measured=bodies([stage.output_tokens] * count, measured_salt),
        tokenized=tokenized,
        prompt_set_digest=prompt_set.digest,
    )


def ramp_lengths(stage: Stage) -> list[int]:
    """Return the output lengths of a steady window's ramp.

    The first request of each lane is cut shorter by as much as spreads the lanes over the length of an answer: so
    they do not prefill together, nor hand over together. All others are of full length.
    """
    lanes, whole = stage.concurrency, stage.output_tokens
    staggered = [max(1, round(whole * (lane + 1) / lanes)) for lane in range(lanes)]
    return staggered + [whole] * (SPARE_ROUNDS * lanes)


async def _repetitions(client: Client, prompt_set: PromptSet, stage: Stage, model: str) -> int:
    """Return how often the sentences are repeated to reach the plan's length, by the engine's own tokenizer."""
    if stage.prompt_tokens is None:
        return 1
    counts = [await _count(client, prompt_set, 0, model, "length", repetitions) for repetitions in (1, 2)]
    one, two = counts
    if one is None or two is None:
        return REPETITIONS_UNCOUNTED
    try:
        return repetitions_for(stage.prompt_tokens, one, two)
    except UserError as error:  # known only now, with the engine's tokenizer
        raise CellRefusedError(category="other", phase="ready", cause=str(error)) from error


async def _tokenized(
    client: Client, prompt_set: PromptSet, count: int, model: str, salt: str, repetitions: int
) -> tuple[int, ...] | None:
    lengths = []
    for index in range(count):
        length = await _count(client, prompt_set, index, model, salt, repetitions)
        if length is None:
            return None
        lengths.append(length)
    return tuple(lengths)


async def _count(
    client: Client, prompt_set: PromptSet, index: int, model: str, salt: str, repetitions: int
) -> int | None:
    """Return the tokens of a prompt, or None where the engine has no such route."""
    body = tokenize_body(prompt_set, index, model=model, salt=salt, repetitions=repetitions)
    try:
        return int((await post_json(client, "/tokenize", body))["count"])
    except RefusedError as error:
        if httpx.codes.is_client_error(error.status) or error.status == httpx.codes.NOT_IMPLEMENTED:
            return None
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise EngineError(f"/tokenize answered without a count: {error}") from error
