"""Which blocks of the KV cache know which prefix."""

from __future__ import annotations

from collections.abc import Iterable

#: The block that stands for none.
NULL = 0


class _Prefix:
    """Blocks that came to know one prefix together: one of each group of layers, or NULL."""

    __slots__ = ("blocks", "key")

    def __init__(self, key: int, blocks: list[int]) -> None:
        self.key = key
        self.blocks = blocks


class Prefixes:
    """A block knows one prefix at most. As in vLLM, several blocks of a group may know the same one: the copies
    that requests of one text make at the same time are all kept, and the first is the one that is found."""

    def __init__(self, blocks: int) -> None:
        self._by_key: dict[int, list[_Prefix]] = {}  # in the order in which they were entered
        self.of: list[_Prefix | None] = [None] * blocks  # by block

    def block(self, key: int, group: int) -> int:
        """Return the block that knows a prefix, or NULL."""
        for prefix in self._by_key.get(key, ()):
            if prefix.blocks[group]:
                return prefix.blocks[group]
        return NULL

    def enter(self, key: int, blocks: list[int]) -> None:
        """Let those of the blocks, one of each group or NULL, that know nothing yet know a prefix. Keeps the list."""
        prefix, prefix_of, entered = _Prefix(key, blocks), self.of, False
        for group, block in enumerate(blocks):
            if block == NULL:
                continue
            if prefix_of[block] is None:
                prefix_of[block] = prefix
                entered = True
            else:
                blocks[group] = NULL
        if entered:
            self._by_key.setdefault(key, []).append(prefix)

    def forget(self, blocks: Iterable[int]) -> None:
        prefix_of = self.of
        for block in blocks:
            prefix, prefix_of[block] = prefix_of[block], None
            if prefix is not None:
                prefix.blocks[prefix.blocks.index(block)] = NULL
                if not any(prefix.blocks):
                    self._let_go(prefix)

    def _let_go(self, prefix: _Prefix) -> None:
        same = self._by_key[prefix.key]
        same.remove(prefix)
        if not same:
            del self._by_key[prefix.key]
