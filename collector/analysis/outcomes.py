"""What came of looking for break-evens, pair by pair, and which engines never started: no measurement places those."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collector.analysis.break_even import BreakEven, break_even
from collector.analysis.compared import Pair, RatioPoint, compared
from collector.analysis.pairing import SPECULATION
from collector.core.rows import Failure, Row
from collector.core.speculative import is_plain


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocked:
    """A configuration that gave failures and no row: what is compared with it has no ratio."""

    failure: Failure  # the last
    failure_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """A pair of speculation on and off. `found` is None where no concurrency has a ratio."""

    pair: Pair
    found: BreakEven | None

    @property
    def lacking(self) -> tuple[RatioPoint, ...]:
        return tuple(point for point in self.pair.points if point.reason)


def outcomes(rows: Sequence[Row], failures: Iterable[Failure]) -> list[Outcome]:
    """Return what is known of each pair whose drafts are a drafter's, as many in each step."""
    pairs = compared(SPECULATION, rows, failures)
    return [
        Outcome(pair=pair, found=break_even(pair))
        for pair in pairs
        if pair.points and is_plain(pair.get("speculative_config"))
    ]


def blocked(rows: Iterable[Row], failures: Iterable[Failure]) -> list[Blocked]:
    """Return the configurations that failed and never gave a row, in the order of their first failure."""
    started = {row.configuration_id for row in rows}
    found: dict[str, list[Failure]] = {}
    for one in failures:
        if one.configuration_id not in started:
            found.setdefault(one.configuration_id, []).append(one)
    return [Blocked(failure=own[-1], failure_ids=tuple(one.failure_id for one in own)) for own in found.values()]
