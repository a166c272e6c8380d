"""One request inside the engine, and the dice of its speculation."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count

from collector.emulator.tokens import answer_id

#: Chances are drawn in lots of this size.
_LOT = 256
_ids = count(1)


class Request:
    """What the scheduler, the KV cache and the metrics know of a request. Times are the engine's clock.

    `computed` counts tokens whose KV is in the cache; `drafted` tokens wait for verification in the next step.
    """

    __slots__ = (
        "accept",
        "arrived",
        "block_keys",
        "capacity",
        "computed",
        "deliver",
        "drafted",
        "due_at",
        "finish_reason",
        "first_at",
        "generated",
        "gone",
        "hits",
        "id",
        "last_at",
        "max_tokens",
        "next_key_at",
        "next_skip_at",
        "preempted",
        "preemptions",
        "prompt",
        "prompt_size",
        "queued_at",
        "scheduled_at",
        "seed",
        "skipped",
        "stop_at",
        "tables",
        "vocabulary",
    )

    def __init__(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        *,
        seed: int,
        vocabulary: int,
        arrived: float,
        accept: Acceptance | None = None,
        stop_at: int | None = None,
    ) -> None:
        self.id = next(_ids)
        self.prompt = prompt
        self.prompt_size = len(prompt)
        self.max_tokens = max_tokens
        self.stop_at = min(max_tokens, stop_at or max_tokens)
        self.seed = seed
        self.vocabulary = vocabulary
        self.accept = accept
        self.generated = self.computed = self.drafted = 0
        self.hits = 0  # prompt tokens found in the prefix cache when it was first admitted
        self.preempted = 0  # preemptions that its next output will tell
        self.preemptions = 0
        self.arrived = arrived
        self.queued_at: float | None = None
        self.scheduled_at: float | None = None
        self.first_at = self.last_at = 0.0
        self.finish_reason: str | None = None
        self.gone = False  # its client is
        #: Called with the number of new tokens and, at the last, the reason to end.
        self.deliver: Callable[[int, str | None], None] | None = None
        # Of the KV cache: a table of blocks per group of layers, and when the next of them is due.
        self.tables: list[list[int]] = []
        self.block_keys: list[int] = []
        self.capacity = self.next_key_at = self.next_skip_at = self.due_at = self.skipped = 0

    @property
    def size(self) -> int:
        """Tokens of the prompt and of the answer so far."""
        return self.prompt_size + self.generated

    def tokens(self, first: int, last: int) -> tuple[int, ...]:
        """Return the tokens of prompt and answer from `first` up to, not including, `last`."""
        prompt, size = self.prompt, self.prompt_size
        if last <= size:
            return tuple(prompt[first:last])
        answer = (answer_id(self.seed, place - size, self.vocabulary) for place in range(max(first, size), last))
        return (*prompt[first:size], *answer)


class Acceptance:
    """Decides which drafts are accepted: one chance for each place of the answer.

    A place is judged once in a request's life, so its chance does not depend on the batch, on k or on a
    preemption: the same request is answered in the same way beside whatever runs.
    """

    __slots__ = ("_chances", "_conditional", "_dice")

    def __init__(self, seed: int, conditional: Sequence[float]) -> None:
        self._conditional = tuple(conditional)
        self._dice = random.Random(seed)  # noqa: S311
        self._chances: list[float] = []

    def accepted(self, place: int, drafted: int) -> int:
        """Return how many of the drafts for `place` and what follows are accepted, before any is cut off."""
        chances, draw = self._chances, self._dice.random
        while len(chances) < place + drafted:
            chances += [draw() for _ in range(_LOT)]
        for position in range(drafted):
            if chances[place + position] >= self._conditional[position]:
                return position
        return drafted
