"""What a published figure is, how figures depend on each other, and whether the printed ones agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from collector.analysis.pairing import OFF
from collector.core.rows import Row

GIB = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """What a figure speaks of; None is left open."""

    model: str | None = None
    kv_cache_dtype: str | None = None
    speculation: str | None = None
    num_speculative_tokens: int | None = None
    nvlink: str | None = None
    concurrency: int | None = None
    prompt_set: str | None = None
    series: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A printed figure. `resolution` is its last printed digit."""

    figure_id: str
    section: str
    labels: Labels
    metric: str
    value: float
    unit: str
    resolution: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """A figure made of two: `form` of `first` and `second`."""

    quantity: str
    first: Callable[[Labels], Labels]
    second: Callable[[Labels], Labels]
    form: Callable[[float, float], float]
    varies: tuple[str, ...] = ()  # columns in which its sides differ by nature


def _ratio(first: float, second: float) -> float:
    return first / second


def _percent(first: float, second: float) -> float:
    return 100 * (first / second - 1)


def _difference(first: float, second: float) -> float:
    return first - second


def _itself(labels: Labels) -> Labels:
    return labels


def _off(labels: Labels) -> Labels:
    return replace(labels, speculation=OFF, num_speculative_tokens=None)


def _kv_auto(labels: Labels) -> Labels:
    return replace(labels, kv_cache_dtype="auto")


def _nvlink_off(labels: Labels) -> Labels:
    return replace(labels, nvlink=OFF)


def _at(concurrency: int) -> Callable[[Labels], Labels]:
    return lambda labels: replace(labels, concurrency=concurrency)


#: Metric to the column that it is a mean of, and the scale.
COLUMNS: dict[str, tuple[str, float]] = {
    "system_throughput": ("system_throughput_tok_s", 1.0),
    "request_decode_rate": ("request_decode_rate_tok_s", 1.0),
    "nvlink_traffic": ("nvlink_bytes", 1 / GIB),
}
#: Metric to numerator and denominator of a ratio of sums.
SUMS = {"acceptance_rate": ("accepted_tokens", "draft_tokens"), "accepted_per_forward": ("accepted_tokens", "drafts")}
EXTREMES: dict[str, Callable[..., Row]] = {"ttft_min": min, "ttft_max": max}
RELATIONS = {
    "speculation_ratio": Relation("system_throughput", _itself, _off, _ratio),
    "kv_fp8_gain": Relation("system_throughput", _itself, _kv_auto, _percent, ("kv_cache_dtype", "attention_backend")),
    "nvlink_gain": Relation("system_throughput", _itself, _nvlink_off, _percent, ("nvlink", "extra_flags")),
    "throughput_change_c8_to_c32": Relation("system_throughput", _at(32), _at(8), _percent),
    "throughput_change_c16_to_c32": Relation("system_throughput", _at(32), _at(16), _percent),
    "throughput_loss": Relation("system_throughput", _off, _itself, _difference),
    "nvlink_traffic_on_vs_off_speculation": Relation("nvlink_traffic", _itself, _off, _ratio),
}
#: Where neither side gains.
EVEN = {"speculation_ratio": 1.0} | {name: 0.0 for name, one in RELATIONS.items() if one.form is _percent}

COMPUTED = (*COLUMNS, *SUMS, *EXTREMES, *RELATIONS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recomputation:
    """A printed ratio or gain from its own printed throughputs, with the edges that their rounding allows."""

    figure: Figure
    sides: tuple[Figure, Figure]
    value: float
    low: float
    high: float
    agrees: bool


def recomputed(figures: Sequence[Figure]) -> list[Recomputation]:
    """Return every derived figure whose two throughputs were printed as well."""
    printed = {figure.labels: figure for figure in figures if figure.metric == "system_throughput"}
    found = []
    for figure in figures:
        relation = RELATIONS.get(figure.metric)
        if relation is None or relation.quantity != "system_throughput":
            continue
        first, second = (printed.get(side(figure.labels)) for side in (relation.first, relation.second))
        if first and second:
            corners = [relation.form(*pair) for pair in product(_edges(first), _edges(second))]
            low, high = min(corners), max(corners)
            below, above = _edges(figure)
            value = relation.form(first.value, second.value)
            agrees = low <= above and high >= below
            sides = first, second
            found.append(Recomputation(figure=figure, sides=sides, value=value, low=low, high=high, agrees=agrees))
    return found


def _edges(figure: Figure) -> tuple[float, float]:
    return figure.value - figure.resolution / 2, figure.value + figure.resolution / 2
