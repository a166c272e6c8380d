"""GET /metrics to samples: a full parse for the two scrapes of a window, a few lines for the sampler."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from collector.core.errors import DataError
from collector.core.series import COUNTER_START, COUNTERS, GAUGES, LabelSet, Samples
from collector.measure.clock import Clock
from collector.measure.target import get_text

#: Quantities the sampler picks out of the text without parsing it.
_SAMPLED = {**GAUGES, "generation_tokens": COUNTERS["generation_tokens"]}
_LINES = re.compile(
    "^(" + "|".join(re.escape(name) for names in _SAMPLED.values() for name in names) + r")(?:\{.*\})? (\S+)",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scrape:
    """The text of one scrape and when it returned, on the collector's monotonic clock."""

    text: str
    returned_at: float
    took_s: float


async def scrape(client: httpx.AsyncClient, clock: Clock) -> Scrape:
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
        for family in text_string_to_metric_families(text):
            for one in family.samples:
                wanted = one.name == COUNTER_START or not one.name.endswith("_created")
                if wanted and math.isfinite(one.value):
                    samples.setdefault(one.name, {})[tuple(sorted(one.labels.items()))] = one.value
    except ValueError as error:
        raise DataError(f"a scrape is not Prometheus text: {error}") from error
    return samples


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def gauges(text: str) -> dict[str, float | None]:
    """Return the sampled quantities: the fullest engine's KV usage, the others summed over engines."""
    found: dict[str, list[float]] = {}
    for name, value in _LINES.findall(text):
        number = _number(value)
        if number is not None:
            found.setdefault(name, []).append(number)
    picked: dict[str, float | None] = {}
    for quantity, names in _SAMPLED.items():
        values = next((found[name] for name in names if name in found), None)
        picked[quantity] = None if values is None else max(values) if quantity == "kv_usage" else sum(values)
    return picked
