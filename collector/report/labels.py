"""Where texts go in a drawing: how wide they are, how far apart, where they cover least."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil
from statistics import fmean
from typing import Literal

from collector.report.scales import Scale
from collector.report.text import cut, one_line

LABEL_GAP = 15.0  # between the baselines of two labels of one line
LINE_GAP = 14.0  # between the lines of one label
PART = " · "  # where a label may be broken
TICK_SPACE = 8.0  # between the texts of two ticks
FONT = 13.0  # px; charts.css says the same
SMALL = 12.0

#: Widths of characters in em, a little above those of the system fonts: a text must not be wider than thought.
FULL_WIDTH = 1.0
CAPITAL = 0.7
NARROW = 0.32
OTHER = 0.56
NARROW_SIGNS = frozenset(" .,:;|!'ijlI()[]·")

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A text at its baseline; `turned` runs upwards."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    turned: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, place: tuple[float, float]) -> bool:
        return self.left <= place[0] <= self.right and self.top <= place[1] <= self.bottom

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def within(self, other: Box) -> bool:
        return (
            other.left <= self.left
            and self.right <= other.right
            and other.top <= self.top
            and self.bottom <= other.bottom
        )


def width_of(text: str, size: float = FONT) -> float:
    """Return the width in px, as far as it can be known without the reader's font."""
    return size * sum(map(_em, text))


def _em(sign: str) -> float:
    if unicodedata.east_asian_width(sign) in "WF":
        return FULL_WIDTH
    if sign in NARROW_SIGNS:
        return NARROW
    return CAPITAL if sign.isupper() or sign in "mwMW%+" else OTHER


def fitted(text: str, width: float, size: float = FONT) -> str:
    """Cut a text to what fits into `width` px."""
    folded = one_line(text)
    if width_of(folded, size) <= width:
        return folded
    room = width - width_of("…", size)
    for end, used in enumerate(accumulate(size * _em(sign) for sign in folded)):
        if used > room:
            return cut(folded, end)[0]
    return folded


def broken(text: str, width: float) -> tuple[str, ...]:
    """Break a text between its parts into at most two lines that fit into `width` px; none where they do not."""
    parts = text.split(PART)
    for end in range(len(parts), 0, -1):
        lines = [PART.join(one) for one in (parts[:end], parts[end:]) if one]
        if all(width_of(line) <= width for line in lines):
            return tuple(lines)
    return ()


def box_of(text: Text, size: float = FONT) -> Box:
    width = width_of(text.text, size)
    before = {"start": 0.0, "middle": width / 2, "end": width}[text.anchor]
    if text.turned:
        return Box(text.x - size, text.y + before - width, text.x + 0.25 * size, text.y + before)
    return Box(text.x - before, text.y - size, text.x - before + width, text.y + 0.25 * size)


def clearest(candidates: Iterable[Text], places: Sequence[tuple[float, float]], taken: Sequence[Box]) -> Text:
    """Return the candidate that covers the fewest places and no text if that can be; the first of equals."""

    def cover(one: Text) -> tuple[int, int]:
        box = box_of(one)
        return sum(map(box.meets, taken)), sum(map(box.holds, places))

    return min(candidates, key=cover)


def spread(places: Sequence[float], top: float, bottom: float, gap: float) -> list[float]:
    """Move places at least `gap` apart, in their order and as little as that takes, between `top` and `bottom`.

    Where there are too many for both, they end at `bottom`.
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    # Labels that would touch form a group, which moves as one to the mean of where its members would stand.
    groups: list[list[float]] = []
    for rank, index in enumerate(order):
        groups.append([places[index] - rank * gap])
        while len(groups) > 1 and fmean(groups[-2]) >= fmean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    starts = [fmean(group) for group in groups for _ in group]
    last = bottom - (len(places) - 1) * gap
    moved = [0.0] * len(places)
    for rank, (index, start) in enumerate(zip(order, starts, strict=True)):
        moved[index] = min(max(start, top), last) + rank * gap
    return moved


def ticks_along(scale: Scale) -> tuple[Tick, ...]:
    """Label every tick of an axis that runs across and has room, the last one always.

    Ticks at equal distances are thinned to equal distances.
    """
    ticks = [Tick(at=scale.place(value), text=text) for value, text in zip(*_ticks(scale), strict=True)][::-1]
    gaps = [before.at - after.at for before, after in pairwise(ticks)]
    if gaps and max(gaps) - min(gaps) < 1:
        widest = max(width_of(tick.text) for tick in ticks) + TICK_SPACE
        return tuple(ticks[:: max(1, ceil(widest / min(gaps)))][::-1])
    found: list[Tick] = []
    for tick in ticks:
        if not found or found[-1].at - tick.at >= (width_of(tick.text) + width_of(found[-1].text)) / 2 + TICK_SPACE:
            found.append(tick)
    return tuple(reversed(found))


def _ticks(scale: Scale) -> tuple[tuple[float, ...], tuple[str, ...]]:
    return scale.reach.ticks, scale.reach.tick_texts()


def ticks_up(scale: Scale) -> tuple[Tick, ...]:
    """Label the ticks of an axis that runs up, from below, where they lie LABEL_GAP apart."""
    found: list[Tick] = []
    for value, text in zip(*_ticks(scale), strict=True):
        tick = Tick(at=scale.place(value), text=text)
        if not found or found[-1].at - tick.at >= LABEL_GAP:
            found.append(tick)
    return tuple(found)
