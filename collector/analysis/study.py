"""What an article is about: the rows of a campaign, or figures published elsewhere. Findings take either."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, cast

from collector.analysis.compared import Pair, RatioPoint, compared
from collector.analysis.figures import Figure, Labels
from collector.analysis.pairing import KV_CACHE, NVLINK, OFF, SPECULATION, Factor, Reason, sortable
from collector.analysis.quantity import Quantity, printed, printed_gain
from collector.core.configuration import Plan
from collector.core.errors import PlanError
from collector.core.plan import parse_plan
from collector.core.rows import PROVENANCES, Failure, Position, Row
from collector.core.speculative import synthetic_of
from collector.core.window import WHOLE_STAGE

PUBLISHED = "published"
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedFailure:
    """A start that failed elsewhere, in the engine's words."""

    failure_id: str
    labels: Labels
    category: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFile:
    """A text file as it is stored with a study; `size` in bytes."""

    name: str
    size: int
    lines: int
    sha256: str


@dataclass(frozen=True, kw_only=True)  # no slots: what was compared once is kept
class Study:
    """A campaign read from its files, or what was published (then there are figures and no rows)."""

    name: str
    rows: tuple[Row, ...] = ()
    failures: tuple[Failure, ...] = ()
    positions: tuple[Position, ...] = ()
    figures: tuple[Figure, ...] = ()
    published_failures: tuple[PublishedFailure, ...] = ()
    plan_text: str | None = None
    continuing: tuple[str, ...] = ()  # the plans that added cells to it
    plan_path: str | None = None  # where the repository keeps the same plan, for whoever sweeps it again
    host_text: str | None = None
    files: tuple[str, ...] = ()  # all that is stored, scrapes and logs with it, relative to the campaign
    tables: tuple[StoredFile, ...] = ()  # of these, the tables and what describes them
    profile: Mapping[str, Any] | None = None  # what an emulated campaign emulates, where it is a shipped one
    scripted: tuple[str, ...] = ()  # failures that the emulation's profile gives by itself

    def __post_init__(self) -> None:
        """Put the records into one order, that of measurement: no finding may depend on that of a file."""
        orders: dict[str, Callable[[Any], Any]] = {
            "rows": lambda row: (row.measured_at, row.row_id),
            "failures": lambda failure: (failure.failed_at, failure.failure_id),
            "positions": lambda position: (position.row_id, position.position),
        }
        for name, order in orders.items():
            object.__setattr__(self, name, tuple(sorted(getattr(self, name), key=order)))

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """Return the plans that it was measured by, as far as they can still be read."""
        return tuple(one for one in self._plans_or_faults if isinstance(one, Plan))

    @property
    def unreadable_plans(self) -> tuple[str, ...]:
        """Return what is wrong with the others, a sentence each that names the file."""
        return tuple(str(one) for one in self._plans_or_faults if isinstance(one, PlanError))

    @cached_property
    def _plans_or_faults(self) -> tuple[Plan | PlanError, ...]:
        names = sorted(name for name in self.files if name.startswith("plan-") and name.endswith(".yaml"))
        names += ["a plan that continues it"] * (len(self.continuing) - len(names))
        found: list[Plan | PlanError] = []
        for name, text in (("plan.yaml", self.plan_text), *zip(names, self.continuing, strict=False)):
            try:
                found += [parse_plan(text, f"{self.name}/{name}")] if text else []
            except PlanError as error:
                found.append(error)
        return tuple(found)

    @property
    def is_published(self) -> bool:
        return bool(self.figures)

    @cached_property
    def basis(self) -> tuple[Row, ...]:
        """Return the rows that findings rest on, but those on window methods and on acceptance that was asked for.

        Acceptance that was asked for is no drafter's. A load that was measured by both window methods speaks by its
        whole stages: the two are never pooled, and what they say of each other is analysis/windows.py.
        """
        own = [row for row in self.rows if synthetic_of(row.speculative_config) is None]
        whole = {_load(row) for row in own if row.window_method == WHOLE_STAGE}
        return tuple(row for row in own if row.window_method == WHOLE_STAGE or _load(row) not in whole)

    @property
    def records(self) -> tuple[Row | Failure, ...]:
        return (*self.rows, *self.failures)

    @property
    def provenances(self) -> tuple[str, ...]:
        """Return the provenances that occur, measured first."""
        found = {one.provenance for one in self.records} | ({PUBLISHED} if self.is_published else set())
        return tuple(one for one in PROVENANCES if one in found) + tuple(sorted(found - set(PROVENANCES)))

    @property
    def dates(self) -> tuple[str, str] | None:
        """First and last day on which something was measured or failed; None where no record tells."""
        times = [row.measured_at for row in self.rows] + [failure.failed_at for failure in self.failures]
        return (min(times)[:10], max(times)[:10]) if times else None

    def pairs(self, factor: Factor) -> tuple[Pair, ...]:
        """Return what a factor changes, from rows or from what was printed."""

        def make() -> tuple[Pair, ...]:
            printed = published_pairs(self.figures, factor) if self.is_published else None
            return tuple(printed or compared(factor, self.basis, self.failures))

        return self.once(f"pairs {factor.name}", make)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return a finding that many ask for, made the first time; `name` is its own among findings."""
        if name not in self._made:
            self._made[name] = make()
        return cast("T", self._made[name])

    @cached_property
    def _made(self) -> dict[str, Any]:
        return {}

    def figures_of(self, metric: str, **labels: Any) -> list[Figure]:
        """Return the published figures of a metric whose labels are these."""
        return [
            one
            for one in self.figures
            if one.metric == metric and all(getattr(one.labels, name) == value for name, value in labels.items())
        ]


def _load(row: Row) -> tuple[Any, ...]:
    return row.provenance, row.model, row.prompt_set, row.output_tokens


#: The printed metric of a factor, and what to make of it: a ratio, or a gain in per cent.
_PRINTED = {
    SPECULATION.name: ("speculation_ratio", printed),
    KV_CACHE.name: ("kv_fp8_gain", printed_gain),
    NVLINK.name: ("nvlink_gain", printed_gain),
}
_NOT_PUBLISHED = Reason(kind="not_published", arm="on")


def published_pairs(figures: Sequence[Figure], factor: Factor) -> list[Pair]:
    """Return the printed ratios of a factor as pairs; throughputs stand beside them where they were printed."""
    metric, quantity = _PRINTED[factor.name]
    throughputs = {one.labels: one for one in figures if one.metric == "system_throughput"}
    lines: dict[Labels, dict[int, RatioPoint]] = {}
    for figure in _first_of_each(figures, metric):
        at = figure.labels.concurrency or 0
        on, off = throughputs.get(figure.labels), throughputs.get(_base(figure.labels, factor))
        line = lines.setdefault(replace(figure.labels, concurrency=None), {})
        line[at] = _printed_point(at, quantity(figure), on, off)
    stages = sorted({at for line in lines.values() for at in line})
    found = [_printed_pair(factor, labels, points, stages) for labels, points in lines.items()]
    return sorted(found, key=lambda pair: sortable(value for _, value in (*pair.setting, *pair.way)))


def _first_of_each(figures: Iterable[Figure], metric: str) -> list[Figure]:
    """What was printed twice counts once."""
    found: dict[Labels, Figure] = {}
    for figure in figures:
        if figure.metric == metric:
            found.setdefault(figure.labels, figure)
    return list(found.values())


def _base(labels: Labels, factor: Factor) -> Labels:
    if factor is SPECULATION:
        return replace(labels, speculation=OFF, num_speculative_tokens=None)
    if factor is KV_CACHE:
        return replace(labels, kv_cache_dtype=factor.base)
    return replace(labels, nvlink=factor.base)


def _printed_point(at: int, value: Quantity | None, on: Figure | None, off: Figure | None) -> RatioPoint:
    return RatioPoint(
        concurrency=at,
        value=value,
        on=printed(on) if on else None,
        off=printed(off) if off else None,
        row_ids_on=(on.figure_id,) if on else (),
        row_ids_off=(off.figure_id,) if off else (),
        reason=None if value else _NOT_PUBLISHED,
    )


def _printed_pair(factor: Factor, labels: Labels, points: dict[int, RatioPoint], stages: Sequence[int]) -> Pair:
    known = asdict(labels) | {"provenance": PUBLISHED, "campaign": PUBLISHED}
    return Pair(
        factor=factor,
        setting=tuple((name, known.get(name)) for name in factor.setting),
        way=tuple((name, known.get(name)) for name in factor.way),
        points=tuple(points.get(at) or _printed_point(at, None, None, None) for at in stages),
    )
