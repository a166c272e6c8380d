"""Counters, gauges and histograms in the Prometheus text format, written as prometheus_client writes them.

A series renders its text again only after it changed: a scrape of an idle engine costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from math import inf


def number(value: float) -> str:
    """Return a float as prometheus_client does: Go's way, with an exponent from seven digits on."""
    if value == inf:
        return "+Inf"
    text = repr(float(value))
    dot = text.find(".")
    if value > 0 and dot > 6:
        mantissa = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
        return f"{mantissa}e+0{dot - 1}"
    return text


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def labelled(pairs: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{escape(value)}"' for name, value in sorted(pairs.items())) + "}"


def _literal(text: str) -> str:
    """Return a text for a template that is filled in with the operator %."""
    return text.replace("%", "%%")


class Series:
    """One counter or gauge: a value, or one for each value of a label."""

    def __init__(self, name: str, kind: str, about: str, labels: Sequence[dict[str, str]], created: float) -> None:
        self.name = name
        self.values = [0.0] * len(labels)
        self._created = created
        self._head = f"# HELP {name} {about}\n# TYPE {name} {kind}\n"
        self._lines = [f"{name}{labelled(one)} " for one in labels]
        base = f"{name.removesuffix('_total')}_created"
        self._creation = ""
        if kind == "counter":
            lines = "".join(f"{base}{labelled(one)} {number(created)}\n" for one in labels)
            self._creation = f"# HELP {base} {about}\n# TYPE {base} gauge\n{lines}"
        self._text: str | None = None

    def add(self, amount: float, place: int = 0) -> None:
        self.values[place] += amount
        self._text = None

    def add_each(self, amounts: Sequence[float]) -> None:
        """Add to every value of the label."""
        self.values = [value + amount for value, amount in zip(self.values, amounts, strict=True)]
        self._text = None

    def set(self, value: float, place: int = 0) -> None:
        if self.values[place] != value:
            self.values[place] = value
            self._text = None

    def text(self) -> str:
        if self._text is None:
            pairs = zip(self._lines, self.values, strict=True)
            self._text = self._head + "".join(f"{line}{number(value)}\n" for line, value in pairs) + self._creation
        return self._text


class Histogram:
    """Counts in buckets, and a sum."""

    def __init__(self, name: str, about: str, bounds: Sequence[float], labels: dict[str, str], created: float) -> None:
        self.name = name
        self._bounds = tuple(map(float, bounds))
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self.count = 0
        own = labelled(labels)
        buckets = [f"{name}_bucket{labelled(labels | {'le': number(one)})}" for one in (*self._bounds, inf)]
        base = f"{name}_created"
        head = f"# HELP {name} {about}\n# TYPE {name} histogram\n"
        creation = f"# HELP {base} {about}\n# TYPE {base} gauge\n{base}{own} {number(created)}\n"
        counts = "".join(f"{_literal(one)} %d.0\n" for one in (*buckets, f"{name}_count{own}"))
        self._template = f"{_literal(head)}{counts}{_literal(f'{name}_sum{own}')} %s\n{_literal(creation)}"
        self._text: str | None = None

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times
        self.count += times
        self._text = None

    def text(self) -> str:
        if self._text is None:
            counts = list(accumulate(self._counts))
            self._text = self._template % (*counts, counts[-1], number(self.sum))
        return self._text
