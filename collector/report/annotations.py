"""What a line chart says beside its lines: the even value, ranges without a measurement, labels of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collector.report.chart import Chart, Even, Gap
from collector.report.labels import FONT, SMALL, Box, Text, box_of, clearest, width_of
from collector.report.plot import Place, Plot

LANE = 18.0  # height of a band where bands of several lines overlap
WORD_SPACE = 8.0  # between a word and the edge it stands at


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """The even value: the place of its line, the shaded side, the words for both sides where there is room."""

    at: float
    shade: Box
    better: Text | None
    worse: Text | None

    @property
    def words(self) -> tuple[Text, ...]:
        return tuple(one for one in (self.better, self.worse) if one)


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """A range of x in which nothing was measured."""

    box: Box
    word: Text | None  # None where there is no room for it


def even_line(plot: Plot, even: Even, busy: Sequence[Place], taken: Sequence[Box]) -> Reference:
    frame, y = plot.frame, plot.y.place(even.value)

    def word(text: str, near: float, far: float) -> Text:
        inner = [frame.left + (frame.right - frame.left) * eighth / 8 for eighth in range(2, 7)]
        places = (
            place
            for baseline in (near, far)
            for place in (
                Text(x=frame.left + WORD_SPACE, y=baseline, text=text),
                Text(x=frame.right - WORD_SPACE, y=baseline, text=text, anchor="end"),
                *(Text(x=x, y=baseline, text=text, anchor="middle") for x in inner),
            )
        )
        return clearest(places, busy, taken)

    above = word(even.above, y - 6, frame.top + FONT + 4)
    below = word(even.below, y + FONT + 3, frame.bottom - 6)
    if even.worse == "below":
        return Reference(at=y, shade=Box(frame.left, y, frame.right, frame.bottom), better=above, worse=below)
    return Reference(at=y, shade=Box(frame.left, frame.top, frame.right, y), better=below, worse=above)


def bands(plot: Plot, chart: Chart, busy: Sequence[Place], taken: Sequence[Box]) -> tuple[Band, ...]:
    """Draw each unmeasured range: over the whole height, or in lanes of their own where several overlap."""
    ranges = gap_words(chart.gaps)
    lanes = _lanes(list(ranges))
    last = max(lanes.values(), default=0)
    middle = plot.frame.bottom if chart.even is None else plot.y.place(chart.even.value)
    first = max(plot.frame.top, min(middle, plot.frame.bottom - LANE * (last + 1)))
    found: list[Band] = []
    covered = list(taken)
    for (low, high), words in ranges.items():
        top = first + LANE * lanes[low, high] if last else plot.frame.top
        box = Box(plot.x.place(low), top, plot.x.place(high), top + LANE - 2 if last else plot.frame.bottom)
        word = _word(box, words, busy, covered)
        covered += [box_of(word)] if word else []
        found.append(Band(box=box, word=word))
    return tuple(found)


def gap_words(gaps: Sequence[Gap]) -> dict[tuple[float, float], str]:
    """Return each unmeasured range once with its words; where there are several, they name their lines."""
    ranges: dict[tuple[float, float], list[Gap]] = {}
    for gap in gaps:
        ranges.setdefault((gap.low, gap.high), []).append(gap)
    found: dict[tuple[float, float], str] = {}
    for ends, same in ranges.items():
        codes = ", ".join(sorted({code for gap in same for code in gap.codes}))
        found[ends] = f"{codes} {same[0].text}" if codes and len(ranges) > 1 else same[0].text
    return found


def _lanes(ranges: Sequence[tuple[float, float]]) -> dict[tuple[float, float], int]:
    """Give each range the first lane in which it overlaps no other."""
    found: dict[tuple[float, float], int] = {}
    for low, high in sorted(ranges):
        met = {lane for (other_low, other_high), lane in found.items() if low < other_high and other_low < high}
        found[low, high] = next(lane for lane in range(len(found) + 1) if lane not in met)
    return found


def _word(box: Box, words: str, busy: Sequence[Place], taken: Sequence[Box]) -> Text | None:
    """Put the word of a band where it covers least: across if it fits, else upwards, else nowhere."""
    width, height, length = box.right - box.left, box.bottom - box.top, width_of(words) + 4
    middle = (box.left + box.right) / 2
    if length <= width:
        baselines = [box.bottom - 5 - LANE * n for n in range(max(1, int(height // LANE)))]
        middles = (middle, box.left + length / 2, box.right - length / 2)
        places = (Text(x=x, y=y, text=words, anchor="middle") for x in middles for y in baselines)
        return clearest(places, busy, taken)
    if width < FONT + 4 or length > height:
        return None
    heights = (box.bottom - length / 2 - 4, (box.top + box.bottom) / 2, box.top + length / 2 + 4)
    x = middle + FONT / 3
    return clearest((Text(x=x, y=y, text=words, anchor="middle", turned=True) for y in heights), busy, taken)


def point_labels(plot: Plot, chart: Chart, busy: Sequence[Place]) -> tuple[Text, ...]:
    """Put each label beside its mark where it covers neither a mark nor another label; leave it out otherwise."""
    drawn = [point for point in chart.points if point.y is not None]
    marks = list(map(plot.room, drawn))
    inside = Box(plot.frame.left, 0.0, plot.frame.right, plot.frame.bottom)
    found: list[Text] = []
    for point in (one for one in drawn if one.label):
        x, y = plot.at(point)
        taken = marks + [box_of(one, SMALL) for one in found]
        sides = (
            Text(x=x, y=y - 8, text=point.label, anchor="middle"),
            Text(x=x, y=y + 18, text=point.label, anchor="middle"),
            Text(x=x + 9, y=y + 4, text=point.label),
            Text(x=x - 9, y=y + 4, text=point.label, anchor="end"),
        )
        free = [one for one in sides if _free(box_of(one, SMALL), inside, taken)]
        if free:
            found.append(clearest(free, busy, ()))
    return tuple(found)


def _free(box: Box, inside: Box, taken: Sequence[Box]) -> bool:
    return box.within(inside) and not any(map(box.meets, taken))
