"""The paged KV cache: blocks, who holds them, and which prefixes they still know.

As vLLM's block pool: block 0 is the null block; free blocks that know nothing are taken first, then the
longest unused of those that still hold a prefix, which then forget it. Layers come in groups that share a
block table; a sliding-window group gives back what its window has left.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from collector.emulator.prefixes import NULL, Prefixes
from collector.emulator.request import Request


class KvCache:
    """`windows`: for each group of layers its sliding window, or None for full attention."""

    def __init__(
        self,
        blocks: int,
        block_size: int,
        *,
        windows: Sequence[int | None] = (None,),
        max_model_len: int,
        in_flight: int = 0,
        caching: bool = True,
        recompute_last: bool = False,
    ) -> None:
        self.blocks = blocks
        self.block_size = block_size
        self._windows = tuple(windows)
        self._sliding = [(group, window) for group, window in enumerate(self._windows) if window is not None]
        self._max_model_len = max_model_len
        self._caching = caching
        self._recompute_last = recompute_last
        self._blank = list(range(blocks - 1, NULL, -1))  # the last is taken first
        # Free blocks with a prefix, the longest unused first. No plain dict: its first key takes ever longer to find.
        self._known: OrderedDict[int, None] = OrderedDict()
        self._prefixes = Prefixes(blocks)
        self._shared: dict[int, int] = {}  # held by so many requests more than one
        self._caps = [self._cap(window, in_flight) for window in self._windows]

    def _cap(self, window: int | None, in_flight: int) -> int:
        """Return the most blocks that a request can hold in a group: a window, and what is being computed."""
        tokens = self._max_model_len if window is None else min(window - 1 + in_flight, self._max_model_len)
        return -(-tokens // self.block_size) + (window is not None)

    @property
    def free(self) -> int:
        return len(self._blank) + len(self._known)

    @property
    def usage(self) -> float:
        return 1.0 - self.free / (self.blocks - 1)

    def per_request(self, tokens: int) -> int:
        """Return how many blocks a request of so many tokens holds at most."""
        return sum(min(-(-tokens // self.block_size), cap) for cap in self._caps)

    def admit(self, request: Request, new: int, lookahead: int, hits: int) -> bool:
        """Give a waiting request its first blocks, `hits` of its tokens from the prefix cache.

        The whole prompt must fit, although only a part of it is computed now.
        """
        found = self._found(request, hits)
        evictable = sum(1 for blocks in found for block in blocks if block in self._known)
        whole = min(request.size, self._max_model_len)
        have = hits // self.block_size
        if self._missing(whole, have, capped=True) + evictable > self.free:
            return False
        slots = min(hits + new + lookahead, self._max_model_len)
        if self._missing(slots, have) + evictable > self.free:
            return False
        for blocks in found:
            for block in blocks:
                self._hold(block)
        request.tables = found
        request.computed = hits
        request.skipped = 0
        self._note_skips(request)
        self._extend(request, slots)
        request.next_key_at = hits + self.block_size
        self._remember(request, hits + new)
        self._note_due(request, lookahead)
        return True

    def grow(self, request: Request, new: int, lookahead: int) -> bool:
        """Give a running request the blocks of its step, or return False where there are too few.

        Needed from the length `due_at` on.
        """
        computed = request.computed
        if computed >= request.next_skip_at:
            self._skip(request)
        slots = min(computed + new + lookahead, self._max_model_len)
        if slots > request.capacity:
            if self._missing(slots, request.capacity // self.block_size) > self.free:
                return False
            self._extend(request, slots)
        if min(computed + new, request.size) >= request.next_key_at:
            self._remember(request, computed + new)
        self._note_due(request, lookahead)
        return True

    def _note_due(self, request: Request, lookahead: int) -> None:
        """Work out at which length the request needs this cache again; most steps are none of its business."""
        request.due_at = min(request.capacity - lookahead + 1, request.next_key_at, request.next_skip_at)

    def release(self, request: Request) -> None:
        """Take all blocks back; the end of a sequence is forgotten before its beginning."""
        for table in request.tables:
            self._drop(reversed(table))
        request.tables = []
        request.capacity = 0

    def hits(self, request: Request) -> int:
        """Return how many tokens of a waiting request are in the cache; the last token never counts."""
        if not self._caching:
            return 0
        full = [group for group, window in enumerate(self._windows) if window is None]
        most, found = (request.size - 1) // self.block_size, 0
        self._make_keys(request, most)
        while found < most and all(self._prefixes.block(request.block_keys[found], group) for group in full):
            found += 1
        if self._recompute_last and found:
            found -= 1
        while found and not all(self._window_known(request, group, window, found) for group, window in self._sliding):
            found -= 1
        return found * self.block_size

    def _window_known(self, request: Request, group: int, window: int, end: int) -> bool:
        first = max(0, end - -(-(window - 1) // self.block_size))
        return all(self._prefixes.block(key, group) for key in request.block_keys[first:end])

    def _found(self, request: Request, hits: int) -> list[list[int]]:
        keys = request.block_keys[: hits // self.block_size]
        return [[self._prefixes.block(key, group) for key in keys] for group in range(len(self._windows))]

    def _missing(self, tokens: int, have: int, *, capped: bool = False) -> int:
        needed = -(-tokens // self.block_size)
        if capped:
            return sum(max(0, min(needed, cap) - have) for cap in self._caps)
        return max(0, needed - have) * len(self._windows)

    def _extend(self, request: Request, tokens: int) -> None:
        """Give every group as many blocks as so many tokens need; the tables stay of one length."""
        tables = request.tables
        missing = -(-tokens // self.block_size) - len(tables[0])
        if missing > 0:
            taken = self._take(missing * len(tables))
            for group, table in enumerate(tables):
                table.extend(taken[group * missing : (group + 1) * missing])
        request.capacity = len(tables[0]) * self.block_size

    def _take(self, count: int) -> list[int]:
        taken: list[int] = []
        if self._blank:
            taken = self._blank[: -count - 1 : -1]
            del self._blank[-count:]
        if len(taken) < count:
            unused = [self._known.popitem(last=False)[0] for _ in range(count - len(taken))]
            self._prefixes.forget(unused)
            taken += unused
        return taken

    def _hold(self, block: int) -> None:
        if block in self._known:
            del self._known[block]
        elif block != NULL:
            self._shared[block] = self._shared.get(block, 0) + 1

    def _drop(self, blocks: Iterable[int]) -> None:
        shared, known, blank, prefix_of = self._shared, self._known, self._blank, self._prefixes.of
        for block in blocks:
            if block in shared:
                self._share_less(block)
            elif block != NULL:
                if prefix_of[block] is None:
                    blank.append(block)
                else:
                    known[block] = None

    def _share_less(self, block: int) -> None:
        self._shared[block] -= 1
        if not self._shared[block]:
            del self._shared[block]

    def _remember(self, request: Request, tokens: int) -> None:
        """Enter the full blocks of what is verified into the prefix cache."""
        if not self._caching:
            request.next_key_at = self._max_model_len + self.block_size
            return
        first = request.next_key_at // self.block_size - 1
        last = min(tokens, request.size) // self.block_size
        self._make_keys(request, last)
        for place, key in enumerate(request.block_keys[first:last], first):
            self._prefixes.enter(key, [table[place] for table in request.tables])
        request.next_key_at = (max(first, last) + 1) * self.block_size

    def _make_keys(self, request: Request, count: int) -> None:
        """Extend a request's keys: each stands for a block's tokens and all before them.

        An answer follows from its prompt, so that a key needs none of its tokens.
        """
        keys, size, prompt = request.block_keys, self.block_size, request.prompt
        key = keys[-1] if keys else 0
        for start in range(len(keys) * size, count * size, size):
            key = hash((key, prompt[start : start + size]))
            keys.append(key)

    def _note_skips(self, request: Request) -> None:
        """Work out at which length the shortest window leaves another block behind."""
        if self._sliding:
            window = min(window for _, window in self._sliding)
            request.next_skip_at = window - 1 + (request.skipped + 1) * self.block_size
        else:
            request.next_skip_at = self._max_model_len + 1

    def _skip(self, request: Request) -> None:
        """Give back what lies before the windows."""
        for group, window in self._sliding:
            table = request.tables[group]
            behind = min((request.computed - window + 1) // self.block_size, len(table))
            left = next((place for place in range(behind, 0, -1) if table[place - 1] == NULL), 0)
            self._drop(table[place] for place in range(behind - 1, left - 1, -1))
            table[left:behind] = [NULL] * (behind - left)
            request.skipped = max(request.skipped, behind)
        self._note_skips(request)
