"""Does speculative decoding pay? System throughput with it ÷ without it, all else equal, by concurrency.

Rows and failures in, findings out; nothing here depends on the order of the rows. A row with a failed check
feeds no ratio, and a ratio that cannot be formed is a point with its reason, so that a page can say why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from collector.analysis.pairing import (
    SETTING,
    STAGE,
    Arm,
    Key,
    Reason,
    failures_of,
    in_stage,
    key,
    mean,
    nearest_difference,
    sortable,
)
from collector.core.rows import Failure, Row

OFF = "off"

#: What tells one way of speculating from another.
SPECULATION = ("speculation", "num_speculative_tokens", "drafter", "speculative_config")
#: All that a failure tells of it.
TOLD_BY_FAILURE = ("speculation", "num_speculative_tokens")

#: A ratio this near to 1 prints as 1.00 and counts neither as a gain nor as a loss.
EVEN_WITHIN = 0.005

#: gain, loss and even hold at every measured concurrency; no_loss and no_gain have even points among them.
Outcome = Literal["gain", "no_loss", "even", "no_gain", "loss", "falls", "rises", "mixed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RatioPoint:
    """One stage of a pair. Throughputs are means over the repeats whose checks held."""

    concurrency: int
    requests: int
    warmup_requests: int
    ratio: float | None
    low: float | None  # smallest and largest ratio of any repeat on to any repeat off;
    high: float | None  # None while either arm has fewer than two: no spread measured
    on_tok_s: float | None
    off_tok_s: float | None
    row_ids_on: tuple[str, ...]
    row_ids_off: tuple[str, ...]
    row_ids_left_out: tuple[str, ...]
    reason: Reason | None

    @property
    def n_on(self) -> int:
        return len(self.row_ids_on)

    @property
    def n_off(self) -> int:
        return len(self.row_ids_off)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One way of speculating against none: a line of the chart. `setting` holds what was equal."""

    setting: tuple[tuple[str, Any], ...]
    speculation: str
    num_speculative_tokens: int | None
    drafter: str | None
    speculative_config: str | None
    points: tuple[RatioPoint, ...]

    def __getitem__(self, column: str) -> Any:
        return getattr(self, column) if column in SPECULATION else dict(self.setting)[column]

    @property
    def measured(self) -> tuple[RatioPoint, ...]:
        return tuple(point for point in self.points if point.ratio is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the ratios of one pair say. `falls` and `rises`: the break-even lies within `bracket`."""

    outcome: Outcome
    best: RatioPoint
    worst: RatioPoint
    bracket: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class _Arms:
    off: dict[Key, list[Row]]
    on: dict[tuple[Key, Key], list[Row]]
    failures: list[Failure]
    ids_with_rows: frozenset[str]


def pairs(rows: Iterable[Row], failures: Iterable[Failure] = ()) -> list[Pair]:
    """Return every way of speculating of these rows, ordered by what it is."""
    arms = _arms(rows, failures)
    ways = set(arms.on)
    for setting in {setting for setting, _ in arms.on} | set(arms.off):
        never_started = failures_of(setting, (), arms.failures, arms.ids_with_rows)
        ways |= {
            (setting, (failure.speculation, failure.num_speculative_tokens, None, None))
            for failure in never_started
            if failure.speculation != OFF
        }
    found = [_pair(setting, way, arms) for setting, way in ways]
    return sorted(found, key=_order)


def _arms(rows: Iterable[Row], failures: Iterable[Failure]) -> _Arms:
    kept = sorted(rows, key=lambda row: (row.campaign, row.row_id))
    off: dict[Key, list[Row]] = defaultdict(list)
    on: dict[tuple[Key, Key], list[Row]] = defaultdict(list)
    for row in kept:
        setting = key(row, SETTING)
        if row.speculation == OFF:
            off[setting].append(row)
        else:
            on[setting, key(row, SPECULATION)].append(row)
    ids = frozenset(row.configuration_id for row in kept)
    return _Arms(off=dict(off), on=dict(on), failures=list(failures), ids_with_rows=ids)


def _pair(setting: Key, way: Key, arms: _Arms) -> Pair:
    on, off = arms.on.get((setting, way), []), arms.off.get(setting, [])
    tried = [one for one in arms.failures if tuple(getattr(one, name) for name in TOLD_BY_FAILURE) == way[:2]]
    failed_on = failures_of(setting, on, tried, arms.ids_with_rows)
    without = [one for one in arms.failures if one.speculation == OFF]
    failed_off = failures_of(setting, off, without, arms.ids_with_rows)
    points = [
        _point(
            stage,
            Arm("on", in_stage(on, stage), failed_on),
            Arm("off", in_stage(off, stage), failed_off),
            () if in_stage(off, stage) else nearest_difference(setting, stage, arms.off),
        )
        for stage in sorted({key(row, STAGE) for row in (*on, *off)})
    ]
    return Pair(
        setting=tuple(zip(SETTING, setting, strict=True)),
        points=tuple(points),
        **dict(zip(SPECULATION, way, strict=True)),
    )


def _point(stage: Key, on: Arm, off: Arm, difference: tuple[str, ...]) -> RatioPoint:
    reason_on, reason_off = on.reason(), off.reason(difference)
    on_tok_s = mean(on.throughputs) if reason_on is None else None
    off_tok_s = mean(off.throughputs) if reason_off is None else None
    ratio = on_tok_s / off_tok_s if on_tok_s is not None and off_tok_s is not None else None
    spread = ratio is not None and min(len(on.usable), len(off.usable)) > 1
    used = {row.row_id for row in (*on.usable, *off.usable)}
    return RatioPoint(
        **dict(zip(STAGE, stage, strict=True)),
        ratio=ratio,
        low=min(on.throughputs) / max(off.throughputs) if spread else None,
        high=max(on.throughputs) / min(off.throughputs) if spread else None,
        on_tok_s=on_tok_s,
        off_tok_s=off_tok_s,
        row_ids_on=tuple(row.row_id for row in on.usable),
        row_ids_off=tuple(row.row_id for row in off.usable),
        row_ids_left_out=tuple(sorted(row.row_id for row in (*on.rows, *off.rows) if row.row_id not in used)),
        reason=reason_on or reason_off,
    )


def verdict(pair: Pair) -> Verdict | None:
    """Say what the measured ratios of a pair show; None when there is none."""
    measured = [(point.ratio, point) for point in pair.points if point.ratio is not None]
    if not measured:
        return None
    outcome, bracket = _outcome([(point.concurrency, side(ratio)) for ratio, point in measured])
    return Verdict(
        outcome=outcome,
        best=max(measured, key=lambda one: (one[0], -one[1].concurrency))[1],
        worst=min(measured, key=lambda one: (one[0], one[1].concurrency))[1],
        bracket=bracket,
    )


def _outcome(sides: Sequence[tuple[int, int]]) -> tuple[Outcome, tuple[int, int] | None]:
    gains = [concurrency for concurrency, side in sides if side > 0]
    losses = [concurrency for concurrency, side in sides if side < 0]
    one_sided: dict[frozenset[int], Outcome] = {
        frozenset({1}): "gain",
        frozenset({0, 1}): "no_loss",
        frozenset({0}): "even",
        frozenset({-1, 0}): "no_gain",
        frozenset({-1}): "loss",
    }
    seen = frozenset(side for _, side in sides)
    if seen in one_sided:
        return one_sided[seen], None
    if max(gains) < min(losses):
        return "falls", (max(gains), min(losses))
    if max(losses) < min(gains):
        return "rises", (max(losses), min(gains))
    return "mixed", None


def side(ratio: float) -> int:
    return 0 if abs(ratio - 1) < EVEN_WITHIN else (1 if ratio > 1 else -1)


def _order(pair: Pair) -> tuple[tuple[bool, Any], ...]:
    return sortable((*(value for _, value in pair.setting), *(getattr(pair, name) for name in SPECULATION)))
