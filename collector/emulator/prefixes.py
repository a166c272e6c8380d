"""Which block of the KV cache knows which prefix."""

from __future__ import annotations

from collections.abc import Iterable

#: The block that stands for none.
NULL = 0


class _Prefix:
    """The blocks that know one prefix: one of each group of layers, or NULL."""

    __slots__ = ("blocks", "key")

    def __init__(self, key: int, blocks: list[int]) -> None:
        self.key = key
        self.blocks = blocks


class Prefixes:
    """A prefix is known by its key, in each group of layers by one block at most; a block knows one prefix."""

    def __init__(self, blocks: int) -> None:
        self._by_key: dict[int, _Prefix] = {}
        self.of: list[_Prefix | None] = [None] * blocks  # by block

    def block(self, key: int, group: int) -> int:
        """Return the block that knows a prefix, or NULL."""
        prefix = self._by_key.get(key)
        return prefix.blocks[group] if prefix else NULL

    def enter(self, key: int, blocks: list[int]) -> None:
        """Let blocks, one of each group or NULL, know a prefix that no other block of their group knows."""
        prefix = self._by_key.get(key)
        if prefix is not None:
            self._complete(prefix, blocks)
        elif any(blocks):
            prefix = self._by_key[key] = _Prefix(key, blocks)
            for block in filter(None, blocks):
                self.of[block] = prefix

    def _complete(self, prefix: _Prefix, blocks: list[int]) -> None:
        for group, block in enumerate(blocks):
            if block != NULL and prefix.blocks[group] == NULL and self.of[block] is None:
                prefix.blocks[group] = block
                self.of[block] = prefix

    def forget(self, blocks: Iterable[int]) -> None:
        prefix_of = self.of
        for block in blocks:
            prefix, prefix_of[block] = prefix_of[block], None
            if prefix is not None:
                prefix.blocks[prefix.blocks.index(block)] = NULL
                if not any(prefix.blocks):
                    del self._by_key[prefix.key]
