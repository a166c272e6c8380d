"""How far counts of accepted drafts may be off by chance alone: their standard error, from the positions.

With P_i the share of drafts of which at least i tokens were accepted, the number n accepted of a draft has
E[n] = sum of P_i and E[n^2] = sum of (2 i - 1) P_i. Drafts are taken as independent. Those of one request are not
on a real engine: the text goes on, and is easy or hard for a while. So the error found here is a lower bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from collector.core.rows import Position, Row


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafts:
    """The drafts of one row: how many, and of how many of them at least 1, 2, ... tokens were accepted."""

    count: int
    accepted: tuple[int, ...]

    @property
    def variance(self) -> float:
        """Variance of the tokens accepted of one draft, tokens squared."""
        shares = [each / self.count for each in self.accepted]
        squares = fsum((2 * position - 1) * share for position, share in enumerate(shares, start=1))
        return max(0.0, squares - fsum(shares) ** 2)


def drafts_of(positions: Iterable[Position]) -> dict[str, Drafts]:
    """Return the drafts by row id, of rows that drafted anything."""
    by_row: dict[str, list[Position]] = defaultdict(list)
    for one in positions:
        by_row[one.row_id].append(one)
    found = {}
    for row_id, members in by_row.items():
        members.sort(key=lambda one: one.position)
        if members[0].drafts:
            accepted = tuple(one.accepted_tokens for one in members)
            found[row_id] = Drafts(count=members[0].drafts, accepted=accepted)
    return found


def standard_error(rows: Sequence[Row], drafts: Mapping[str, Drafts]) -> float | None:
    """Return the standard error of accepted tokens per forward, pooled over rows; in tokens.

    Each row spreads about its own mean, so that a difference between prompt sets is not taken for chance. None where
    a row tells no positions, and where no draft differed from another: that says nothing of chance.
    """
    known = [drafts[row.row_id] for row in rows if row.row_id in drafts]
    if not known or len(known) < sum(bool(row.drafts) for row in rows):
        return None
    spread = fsum(one.count * one.variance for one in known)
    return sqrt(spread) / sum(one.count for one in known) if spread else None
