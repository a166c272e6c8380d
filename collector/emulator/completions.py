"""Completions and chat completions: what is asked, and the answer whole or in chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

from collector.emulator.asgi import problem
from collector.emulator.engine import EmbeddedEngine, EngineDeadError
from collector.emulator.start_log import DEAD
from collector.emulator.tokens import answer_text, chat_ids, prompt_ids, seed_of

#: What a completion gets that names no length.
DEFAULT_TOKENS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One request for an answer, read and found valid."""

    chat: bool
    prompt: Sequence[int]
    max_tokens: int
    kind: str  # of the prompt
    may_stop: bool
    stream: bool
    usage: bool  # a last chunk tells it
    usage_in_chunks: bool
    arrived: float


def check_model(engine: EmbeddedEngine, sent: dict[str, Any]) -> None:
    name = sent.get("model") or engine.setup.model
    if name != engine.setup.model:
        raise problem(404, "NotFoundError", f"The model `{name}` does not exist.", "model")


def prompt_of(engine: EmbeddedEngine, sent: dict[str, Any], *, chat: bool) -> tuple[Sequence[int], str]:
    """Return the tokens of what was sent, and its text. Raises AnswerError where it is none."""
    tokenizer = engine.model.tokenizer
    if chat:
        messages = [
            {"role": str(one.get("role")), "content": _content(one.get("content"))}
            for one in _objects(sent.get("messages"))
        ]
        follows = bool(sent.get("add_generation_prompt", True))
        text = "\n".join(one["content"] for one in messages)
        return chat_ids(tokenizer, messages, answer_follows=follows), text
    prompt = sent.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt_ids(tokenizer, prompt), prompt
    if isinstance(prompt, list) and prompt and all(type(one) is int for one in prompt):
        return prompt, ""
    raise problem(400, "BadRequestError", "prompt: expected a text or a list of token ids, one prompt a request")


def _objects(messages: Any) -> list[dict[str, Any]]:
    if isinstance(messages, list) and messages and all(isinstance(one, dict) for one in messages):
        return messages
    raise problem(400, "BadRequestError", "messages: expected a list of objects with role and content")


def _content(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(one.get("text", "")) for one in content if isinstance(one, dict))
    return str(content or "")


def read_request(engine: EmbeddedEngine, sent: dict[str, Any], *, chat: bool) -> Asked:
    """Read a completion's body. Raises AnswerError with vLLM's words where it cannot be answered."""
    arrived = engine.clock.monotonic()
    check_model(engine, sent)
    if sent.get("n", 1) not in (1, None):
        raise problem(400, "BadRequestError", "n: the embedded engine gives one choice a request", "n")
    prompt, text = prompt_of(engine, sent, chat=chat)
    longest = engine.kv.max_model_len
    wanted = sent.get("max_completion_tokens") or sent.get("max_tokens")
    if wanted is None:
        wanted = max(1, longest - len(prompt)) if chat else DEFAULT_TOKENS
    if type(wanted) is not int or wanted < 1:
        raise problem(400, "BadRequestError", f"max_tokens must be at least 1, got {wanted}.", "max_tokens")
    _check_length(len(prompt), wanted, longest)
    options = sent.get("stream_options") or {}
    return Asked(
        chat=chat,
        prompt=prompt,
        max_tokens=wanted,
        kind=engine.profile.kind_of(text, chat=chat),
        may_stop=not sent.get("ignore_eos", False),
        stream=bool(sent.get("stream", False)),
        usage=bool(options.get("include_usage", False)),
        usage_in_chunks=bool(options.get("continuous_usage_stats", False)),
        arrived=arrived,
    )


def _check_length(prompt: int, wanted: int, longest: int) -> None:
    if prompt + wanted > longest:
        raise problem(
            400,
            "BadRequestError",
            f"This model's maximum context length is {longest} tokens. However, you requested {wanted} output tokens "
            f"and your prompt contains {prompt} input tokens, for a total of {prompt + wanted} tokens. Please reduce "
            "the length of the input prompt or the number of requested output tokens.",
            "input_tokens",
        )


def _head(engine: EmbeddedEngine, asked: Asked, seed: int, *, chunk: bool) -> dict[str, Any]:
    kind = "chat.completion" if asked.chat else "text_completion"
    return {
        "id": f"{'chatcmpl' if asked.chat else 'cmpl'}-{seed:016x}",
        "object": f"{kind}.chunk" if chunk and asked.chat else kind,
        "created": int(engine.unix()),
        "model": engine.setup.model,
    }


def _usage(asked: Asked, generated: int) -> dict[str, int]:
    size = len(asked.prompt)
    return {"prompt_tokens": size, "total_tokens": size + generated, "completion_tokens": generated}


async def whole_answer(engine: EmbeddedEngine, asked: Asked) -> dict[str, Any]:
    """Return the answer to a request that wants it in one piece."""
    try:
        done = await engine.generate(
            asked.prompt, asked.max_tokens, kind=asked.kind, arrived=asked.arrived, may_stop=asked.may_stop
        )
    except EngineDeadError as error:
        raise problem(500, "InternalServerError", DEAD) from error
    text = answer_text(done.seed, 0, done.generated)
    said: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if asked.chat else {"text": text}
    choice = {"index": 0, **said, "logprobs": None, "finish_reason": done.finish_reason, "stop_reason": None}
    return _head(engine, asked, done.seed, chunk=False) | {"choices": [choice], "usage": _usage(asked, done.generated)}


async def chunks(engine: EmbeddedEngine, asked: Asked) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the chunks of a stream: one for each step that gave tokens, then the usage if it was asked for.

    A chat begins with an empty chunk that names the role, together with the first token.
    """
    steps: asyncio.Queue[tuple[int, str | None]] = asyncio.Queue()
    answering = asyncio.ensure_future(
        engine.generate(
            asked.prompt,
            asked.max_tokens,
            kind=asked.kind,
            arrived=asked.arrived,
            may_stop=asked.may_stop,
            deliver=lambda new, reason: steps.put_nowait((new, reason)),
        )
    )
    answering.add_done_callback(lambda _: steps.put_nowait((0, None)))  # the last word, if the engine dies
    seed = seed_of(engine.setup.model, asked.prompt, engine.profile.seed)
    head, generated, reason = _head(engine, asked, seed, chunk=True), 0, None
    try:
        while reason is None:
            new, reason = await steps.get()
            if not new:
                yield problem(500, "InternalServerError", DEAD).content
                return
            if asked.chat and not generated:
                yield head | {"choices": [_choice(asked, "", None, role=True)]}
            text = answer_text(seed, generated, generated + new)
            generated += new
            chunk = head | {"choices": [_choice(asked, text, reason)]}
            yield chunk | {"usage": _usage(asked, generated)} if asked.usage_in_chunks else chunk
        if asked.usage:
            yield head | {"choices": [], "usage": _usage(asked, generated)}
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


def _choice(asked: Asked, text: str, finish_reason: str | None, *, role: bool = False) -> dict[str, Any]:
    delta = {"role": "assistant", "content": text} if role else {"content": text}
    said: dict[str, Any] = {"delta": delta} if asked.chat else {"text": text}
    return {"index": 0, **said, "logprobs": None, "finish_reason": finish_reason}
