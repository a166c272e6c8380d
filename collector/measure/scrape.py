"""GET /metrics to samples: a full parse for the two scrapes of a window, a few lines for the sampler."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from prometheus_client.parser import text_string_to_metric_families

from collector.core.errors import DataError
from collector.core.series import COUNTER_START, COUNTERS, GAUGES, LabelSet, Samples
from collector.measure.client import Client
from collector.measure.clock import Clock
from collector.measure.target import get_text

#: Quantities the sampler picks out of the text without parsing it.
_SAMPLED = {**GAUGES, "generation_tokens": COUNTERS["generation_tokens"]}
#: What follows a name that the sampler looks for.
_REST = re.compile(r"(?:\{.*\})? (\S+)")
#: A line with a value: all before it, and the value.
_LINE = re.compile(r"^([^#\n].*) (\S+)$", re.MULTILINE)
_HELP = "# HELP "  # begins a family
#: Families whose series are remembered: some 50 an engine, each in the few shapes of its labels.
_REMEMBERED = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Scrape:
    """The text of one scrape and when it returned, on the collector's monotonic clock."""

    text: str
    returned_at: float
    took_s: float


async def scrape(client: Client, clock: Clock) -> Scrape:
    """Fetch /metrics. Raises EngineError."""
    began = clock.monotonic()
    text = await get_text(client, "/metrics")
    returned = clock.monotonic()
    return Scrape(text=text, returned_at=returned, took_s=returned - began)


def parse(text: str) -> Samples:
    """Return name, labels and value of every sample; of the `_created` ones only one. Raises DataError.

    A value that is no finite number says nothing: it counts as missing.
    """
    samples: dict[str, dict[LabelSet, float]] = {}
    try:
        first, *others = text.split(f"\n{_HELP}")
        for family in (first, *(f"{_HELP}{one}" for one in others)):
            for name, labels, value in _family(family):
                wanted = name == COUNTER_START or not name.endswith("_created")
                if wanted and math.isfinite(value):
                    samples.setdefault(name, {})[labels] = value
    except ValueError as error:
        raise DataError(f"a scrape is not Prometheus text: {error}") from error
    return samples


def _family(text: str) -> Iterable[tuple[str, LabelSet, float]]:
    """Return the samples of one family. Raises ValueError.

    Names and labels of an engine stay from scrape to scrape: the library, which takes 20 ms for a scrape, reads
    them once and the values alone are read each time.
    """
    parts = _LINE.split(text)
    values = parts[2::3]
    parts[2::3] = [" 0"] * len(values)
    series = _series("".join(parts))
    if series is None or len(series) != len(values) or "_" in "".join(values):
        return [(name, labels, value) for name, labels, value, _ in _read(text)]
    return [(name, labels, float(value)) for (name, labels), value in zip(series, values, strict=True)]


@lru_cache(_REMEMBERED)
def _series(text: str) -> tuple[tuple[str, LabelSet], ...] | None:
    """Return the series of a family whose values are all 0; None where one is more than name, labels and value."""
    read = _read(text)
    plain = all(value == 0 and timestamp is None for _, _, value, timestamp in read)
    return tuple((name, labels) for name, labels, _, _ in read) if plain else None


def _read(text: str) -> list[tuple[str, LabelSet, float, object]]:
    return [
        (one.name, tuple(sorted(one.labels.items())), one.value, one.timestamp)
        for family in text_string_to_metric_families(text)
        for one in family.samples
    ]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def gauges(text: str) -> dict[str, float | None]:
    """Return the sampled quantities: the fullest engine's KV usage, the others summed over engines."""
    picked: dict[str, float | None] = {}
    lines = f"\n{text}"
    for quantity, names in _SAMPLED.items():
        values = next(filter(None, (_values(lines, name) for name in names)), None)
        picked[quantity] = None if values is None else max(values) if quantity == "kv_usage" else sum(values)
    return picked


def _values(lines: str, name: str) -> list[float]:
    """Return the values of a series, whose lines stand together; each of `lines` begins with a line break.

    Searching for a name is ten times as fast as matching line by line.
    """
    found = []
    for start in (f"\n{name}{{", f"\n{name} "):
        at = lines.find(start)
        while at >= 0 and lines.startswith(start, at):
            rest = _REST.match(lines, at + len(start) - 1)
            number = _number(rest[1]) if rest else None
            if number is not None:
                found.append(number)
            at = lines.find("\n", at + 1)
        if found:
            break
    return found
