"""One request inside the engine, and the dice of its speculation."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count

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
        "decodes",
        "deliver",
        "drafted",
        "drafts",
        "due_at",
        "finish_reason",
        "first_at",
        "generated",
        "gone",
        "hits",
        "id",
        "last_at",
        "max_tokens",
        "new",
        "next_key_at",
        "next_skip_at",
        "output",
        "preempted",
        "preemptions",
        "prompt",
        "prompt_size",
        "queued_at",
        "samples",
        "scheduled_at",
        "seed",
        "size",
        "skipped",
        "stop_at",
        "tables",
    )

    def __init__(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        *,
        seed: int,
        arrived: float,
        accept: Acceptance | None = None,
        stop_at: int | None = None,
    ) -> None:
        self.id = next(_ids)
        self.prompt = tuple(prompt)
        self.prompt_size = len(prompt)
        self.max_tokens = max_tokens
        self.stop_at = min(max_tokens, stop_at or max_tokens)
        self.seed = seed
        self.accept = accept
        self.size = self.prompt_size  # tokens of the prompt and of the answer so far
        self.generated = self.computed = self.drafted = 0
        # Of the step under way: positions it computes, drafts among them, whether it decodes, whether it reaches the
        # last token and so gives new ones; and, once it is done, how many.
        self.new = self.drafts = self.output = 0
        self.decodes = self.samples = False
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
        for position, chance in enumerate(chances[place : place + drafted]):
            if chance >= self._conditional[position]:
                return position
        return drafted
