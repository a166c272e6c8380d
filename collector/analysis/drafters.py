"""What each drafter gets accepted, by prompt and by draft position.

A drafter here is one way of speculating with one model. Its rows are pooled over KV dtypes, links, series and
concurrencies: none of them changes what is drafted, and the range over the rows shows how little they do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import fsum
from typing import Any, Literal

from collector.analysis.figures import Figure, Labels
from collector.analysis.pairing import OFF, SPECULATING, sortable
from collector.analysis.published import GENERAL
from collector.analysis.quantity import Quantity, pooled_of, printed
from collector.analysis.study import PUBLISHED, Study
from collector.core.prompt_names import PROMPT_SETS
from collector.core.rows import Position, Row, comparable
from collector.core.speculative import is_plain
from collector.core.window import WHOLE_STAGE

#: What tells one drafter from another.
OF_DRAFTER = ("provenance", "model", "model_path", "model_revision", "engine_version", *SPECULATING)
#: A draft position at which fewer than this many per cent of the drafts are still accepted is rarely reached.
RARE_BELOW_PERCENT = 10

SYNTHETIC = "synthetic"
Range = tuple[float, float]
Why = Literal["missing", "checks", "not_published"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafter:
    """Acceptance by prompt set; "general" pools the general ones as a ratio of sums."""

    known: tuple[tuple[str, Any], ...]  # OF_DRAFTER
    rows: tuple[Row, ...]  # none behind published figures
    rate: Mapping[str, Quantity]  # accepted ÷ drafted tokens
    per_forward: Mapping[str, Quantity]  # accepted tokens ÷ drafts
    repeats: Mapping[str, Range] = field(default_factory=dict)  # range of per_forward where a set was repeated

    def __getitem__(self, column: str) -> Any:
        return dict(self.known)[column]

    @property
    def general(self) -> tuple[str, ...]:
        """Return the general prompt sets with a figure of their own."""
        return tuple(name for name in self.per_forward if is_general(name))

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the rows or figures behind all of it."""
        every = (*self.rate.values(), *self.per_forward.values())
        return tuple(dict.fromkeys(one for quantity in every for one in quantity.ids))

    def why(self, prompt_set: str) -> Why:
        """Return why there is no figure for a prompt set."""
        if self["provenance"] == PUBLISHED:
            return "not_published"
        return "checks" if any(is_of(row, prompt_set) for row in self.rows) else "missing"


def is_general(prompt_set: str) -> bool:
    return prompt_set.startswith(f"{GENERAL}/")


def drafters(study: Study) -> list[Drafter]:
    """Return every drafter of a study, ordered by what it is."""
    found = _printed(study) if study.is_published else _measured(study.basis)
    return sorted(found, key=lambda one: sortable(value for _, value in one.known))


def _measured(rows: Iterable[Row]) -> list[Drafter]:
    grouped: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row.speculation != OFF and is_plain(row.speculative_config):
            grouped[tuple(getattr(row, name) for name in OF_DRAFTER)].append(row)
    return [_drafter(known, _of_one_window(members)) for known, members in grouped.items()]


def _of_one_window(rows: Sequence[Row]) -> Sequence[Row]:
    """Nothing is pooled over two window methods: where other prompts have other windows, whole stages speak."""
    return [row for row in rows if row.window_method == WHOLE_STAGE] or rows


def _drafter(known: tuple[Any, ...], rows: Sequence[Row]) -> Drafter:
    names = in_order({row.prompt_set for row in rows})
    pools = [*names, *([GENERAL] if any(map(is_general, names)) else [])]
    members = {name: [row for row in rows if is_of(row, name)] for name in pools}
    rate = {name: pooled_of(members[name], "accepted_tokens", "draft_tokens") for name in pools}
    per_forward = {name: pooled_of(members[name], "accepted_tokens", "drafts") for name in pools}
    return Drafter(
        known=tuple(zip(OF_DRAFTER, known, strict=True)),
        rows=tuple(rows),
        rate={name: one for name, one in rate.items() if one},
        per_forward={name: one for name, one in per_forward.items() if one},
        repeats={name: found for name in pools if (found := _over_repeats(members[name]))},
    )


def _over_repeats(rows: Sequence[Row]) -> Range | None:
    """Return the range of accepted per forward over the repeats, each pooled; None of fewer than two."""
    each = [
        pooled_of((row for row in rows if row.repeat == repeat), "accepted_tokens", "drafts")
        for repeat in sorted({row.repeat for row in rows})
    ]
    values = [one.value for one in each if one]
    return (min(values), max(values)) if len(values) > 1 else None


def is_of(row: Row, prompt_set: str) -> bool:
    """Whether a row belongs to a prompt set, or to the pool of the general ones."""
    return is_general(row.prompt_set) if prompt_set == GENERAL else row.prompt_set == prompt_set


def _printed(study: Study) -> list[Drafter]:
    """What was printed for one link or one concurrency is no figure of the drafter."""
    rates: dict[tuple[Any, ...], dict[str, Quantity]] = defaultdict(dict)
    forwards: dict[tuple[Any, ...], dict[str, Quantity]] = defaultdict(dict)
    for metric, found in (("acceptance_rate", rates), ("accepted_per_forward", forwards)):
        for figure in study.figures_of(metric, nvlink=None, concurrency=None):
            if figure.labels.prompt_set:
                found[_of_labels(figure.labels)].setdefault(figure.labels.prompt_set, printed(figure))
    return [
        Drafter(
            known=tuple(zip(OF_DRAFTER, known, strict=True)),
            rows=(),
            rate=_ordered(rates[known]),
            per_forward=_ordered(forwards[known]),
        )
        for known in dict.fromkeys([*rates, *forwards])
    ]


def _of_labels(labels: Labels) -> tuple[Any, ...]:
    known = asdict(labels) | {"provenance": PUBLISHED}
    return tuple(known.get(name) for name in OF_DRAFTER)


def in_order(prompt_sets: Iterable[str]) -> list[str]:
    """Return prompt sets in the order of the package, others after them by name."""
    places = {name: place for place, name in enumerate(PROMPT_SETS)}
    return sorted(prompt_sets, key=lambda name: (places.get(name, len(places)), name))


def _ordered(found: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {name: found[name] for name in in_order(found)}


def size_of(study: Study, drafter: Drafter) -> Figure | None:
    """Return the printed size of a drafter: its parameters, or its weights. Rows hold none."""
    way = {name: drafter[name] for name in ("model", "speculation")}
    exact = study.figures_of("drafter_parameters", **way, num_speculative_tokens=drafter["num_speculative_tokens"])
    found = exact or study.figures_of("mtp_weights", **way)
    return found[0] if found else None


# --- prompts ---------------------------------------------------------------------------------------------------

Choice = tuple[tuple[str, ...], tuple[Drafter, ...]]


def chosen(found: Iterable[Drafter], choose: Callable[[Iterable[float]], float]) -> list[Choice]:
    """Return the general prompts with the least (min) or most (max) accepted per forward, and of which drafters.

    The prompts that hold for most drafters come first. A drafter with one prompt set, or with the same figure on
    all of them, has none.
    """
    grouped: dict[tuple[str, ...], list[Drafter]] = defaultdict(list)
    for one in found:
        values = {name: one.per_forward[name].value for name in one.general}
        if len(set(values.values())) > 1:
            end = choose(values.values())
            grouped[tuple(name for name, value in values.items() if value == end)].append(one)
    ordered = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(names, tuple(members)) for names, members in ordered]


# --- positions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class AtPosition:
    """Share of the drafts that were accepted up to a position; the range spans the repeats, each pooled."""

    position: int
    rate: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionLine:
    """Acceptance by position over the rows of one kind of prompt."""

    drafter: Drafter
    prompts: str  # "general", or the one set
    rates: tuple[AtPosition, ...]
    ids: tuple[str, ...]

    @property
    def ends_rare(self) -> bool:
        """Whether drafts that begin well hardly ever get to their last position."""
        return self.rates[-1].rate < RARE_BELOW_PERCENT / 100 <= self.rates[0].rate


def by_position(study: Study, found: Iterable[Drafter]) -> list[PositionLine]:
    """Return acceptance by draft position: on the general prompts where they were measured, else on the others."""
    lines = []
    for drafter in found:
        held = [row for row in drafter.rows if comparable(row)]
        for name in (GENERAL, *in_order({row.prompt_set for row in held})):
            line = _position_line(study, drafter, name, [row for row in held if is_of(row, name)])
            if line:
                lines.append(line)
                break
    return lines


def _position_line(study: Study, drafter: Drafter, prompts: str, rows: Sequence[Row]) -> PositionLine | None:
    repeats = {row.row_id: row.repeat for row in rows}
    members = [one for one in study.positions if one.row_id in repeats and one.drafts]
    rates = []
    for position in sorted({one.position for one in members}):
        here = [one for one in members if one.position == position]
        again = sorted({repeats[one.row_id] for one in here})
        each = [_share(one for one in here if repeats[one.row_id] == repeat) for repeat in again]
        low, high = (min(each), max(each)) if len(each) > 1 else (None, None)
        rates.append(AtPosition(position=position, rate=_share(here), low=low, high=high))
    ids = tuple(dict.fromkeys(one.row_id for one in members))
    return PositionLine(drafter=drafter, prompts=prompts, rates=tuple(rates), ids=ids) if rates else None


def _share(positions: Iterable[Position]) -> float:
    known = list(positions)
    return fsum(one.accepted_tokens for one in known) / fsum(one.drafts for one in known)
