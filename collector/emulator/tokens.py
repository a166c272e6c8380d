"""A deterministic tokenizer and the texts that go with it: the same word always gives the same tokens."""

from __future__ import annotations

import hashlib
import math
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache

from collector.emulator.profile import Tokenizer

_WORD = re.compile(r"(?P<hangul>[가-힣]+)|(?P<digits>\d+)|(?P<letters>[^\W\d_]+)|[^\s]")
#: What an answer is made of; it says nothing and does not pretend to.
_PIECES = (" lorem", " ipsum", " dolor", " sit", " amet", " sed", " tempor", " magna", " enim", " nisi", " aute")
#: Ids of the tokens that a chat template and the beginning of a prompt add.
_SPECIAL = tuple(zlib.crc32(f"special {place}".encode()) for place in range(64))


def tokenize(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of a text, without what begins a prompt.

    Words do not touch each other, so what follows the first one, a prompt's nonce, is looked up as a whole.
    """
    first, _, rest = text.partition(" ")
    sizes = (tokenizer.letters, tokenizer.digits, tokenizer.hangul)
    return [*_ids(first, sizes, tokenizer.vocabulary), *_ids(rest, sizes, tokenizer.vocabulary)]


@lru_cache(maxsize=4096)
def _ids(text: str, sizes: tuple[float, float, float], vocabulary: int) -> tuple[int, ...]:
    by_kind = dict(zip(("letters", "digits", "hangul"), sizes, strict=True))
    ids: list[int] = []
    for match in _WORD.finditer(text):
        word = match.group()
        size = by_kind[match.lastgroup] if match.lastgroup else len(word)
        ids += _word(word, math.ceil(len(word) / size), vocabulary)
    return tuple(ids)


@lru_cache(maxsize=65_536)
def _word(word: str, pieces: int, vocabulary: int) -> tuple[int, ...]:
    return tuple(zlib.crc32(f"{piece} {word}".encode()) % vocabulary for piece in range(pieces))


def prompt_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of a completion's prompt."""
    return _special(tokenizer, tokenizer.begin) + tokenize(tokenizer, text)


def chat_ids(tokenizer: Tokenizer, messages: Sequence[Mapping[str, str]], *, answer_follows: bool = True) -> list[int]:
    """Return the ids of a chat after the template: each message in its turn, then the head of the answer."""
    turn = _special(tokenizer, tokenizer.turn)
    ids = _special(tokenizer, tokenizer.begin)
    for message in messages:
        ids += turn + tokenize(tokenizer, message["content"])
    return ids + turn if answer_follows else ids


def _special(tokenizer: Tokenizer, count: int) -> list[int]:
    return [one % tokenizer.vocabulary for one in _SPECIAL[:count]]


def seed_of(model: str, prompt: Sequence[int], seed: int) -> int:
    """Return the seed of a request: the same prompt has the same answer, whatever runs beside it."""
    tokens = struct.pack(f"<{len(prompt)}Q", *prompt)
    key = f"{model} {seed}".encode()
    return int.from_bytes(hashlib.blake2b(tokens, digest_size=8, key=key[:64]).digest(), "big")


def answer_text(seed: int, first: int, last: int) -> str:
    """Return the text of the answer's tokens from `first` up to, not including, `last`; the pieces come in turn."""
    count = len(_PIECES)
    turn = [_PIECES[(seed + 5 * place) % count] for place in range(first, min(last, first + count))]
    rounds, rest = divmod(last - first, count)
    return "".join(turn) * rounds + "".join(turn[:rest])
