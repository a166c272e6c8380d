"""The charts of section 2: ratio by concurrency, and the throughputs that it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from collector.analysis.brackets import Bracket
from collector.analysis.compared import Pair, RatioPoint
from collector.analysis.doubtful import doubtful_ratio, doubtful_throughput
from collector.analysis.pairing import OFF, SPECULATION, Side
from collector.analysis.speculation import Verdict
from collector.analysis.study import PUBLISHED
from collector.core.rows import Row
from collector.core.units import METRICS, SPECULATION_RATIO
from collector.report import chart
from collector.report.chart import Axis, Chart, Even, Gap, Line, Point
from collector.report.sections.parts.outcomes import outcome, rank, short_outcome
from collector.report.sections.parts.pair_labels import plain_label
from collector.report.tables import ASKED, Label
from collector.report.words import Words

#: With more models than this a title counts them instead of naming them.
NAMED_MODELS = 3
EVEN = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CodedPair:
    """A pair with the code that ties its line, its legend and its rows of the table together."""

    code: str
    style: chart.Style
    label: Label
    pair: Pair
    verdict: Verdict | None
    brackets: tuple[Bracket, ...]


def ratio_chart(
    name: str, lines: Sequence[CodedPair], rows: Mapping[str, Row], words: Words, top: float
) -> Chart | None:
    """Return the ratios of these pairs; None where none was compared. `top` is the highest ratio of all charts."""
    drawn = [one for one in lines if one.verdict]
    if not drawn:
        return None
    across = _concurrencies(drawn, words)
    return Chart(
        id=name,
        kind="line",
        title=title(drawn, words),
        subtitle=words.t(
            "추측 디코딩을 켠 시스템 처리량 ÷ 끈 시스템 처리량, 다른 조건은 모두 같음",
            "System throughput with speculative decoding ÷ without it, all else equal",
        ),
        x=across,
        y=Axis(
            title=words.t("처리량 배율(켬 ÷ 끔)", "throughput, on ÷ off"),
            unit=SPECULATION_RATIO.unit,
            scale="linear",
            from_zero=True,
            digits=SPECULATION_RATIO.digits,
            includes=(top,),
        ),
        lines=tuple(
            Line(code=one.code, name=plain_label(one.label, words), points=_ratios(one.pair, rows), style=one.style)
            for one in drawn
        ),
        even=Even(value=EVEN, above=words.t("이득", "gain"), below=words.t("손해", "loss")),
        gaps=_gaps(drawn, words),
        provenance=str(drawn[0].pair["provenance"]),
        alt="\n".join(_sentence(one, words) for one in drawn),
        columns=("concurrency", "speculation_ratio"),
    )


def _concurrencies(lines: Sequence[CodedPair], words: Words) -> Axis:
    ticks = sorted({point.concurrency for one in lines for point in one.pair.points})
    return Axis(
        title=words.t("동시 요청 수", "concurrency"),
        scale="log2",
        digits=0,
        ticks=tuple(float(one) for one in ticks),
    )


def title(lines: Sequence[CodedPair], words: Words) -> str:
    """State the finding: what each model does, or how many ways do what."""
    outcomes: dict[str, list[str]] = {}
    for one in lines:
        if one.verdict:
            outcomes.setdefault(one.verdict.outcome, []).append(one.label.model)
    ordered = sorted(outcomes, key=rank)
    if len(outcomes) == 1 and len(lines) == 1:
        return words.t("{model}: {what}", "{model}: {what}", model=words.name(lines[0].label.model),
                       what=outcome(ordered[0], words))  # fmt: skip
    if len(outcomes) == 1:
        return words.t("비교한 {n}가지 모두: {what}", "All {n} ways: {what}", n=words.count(len(lines), "pairs"),
                       what=outcome(ordered[0], words))  # fmt: skip
    if len({one.label.model for one in lines}) <= NAMED_MODELS:
        parts = [
            words.t("{models}: {what}", "{models}: {what}", models=_names(outcomes[name], words),
                    what=short_outcome(name, words))
            for name in ordered
        ]  # fmt: skip
        return words.t(" · ", " · ").join(parts)
    counted = [
        words.t("{what} {n}건", "{what}: {n}", n=words.count(len(outcomes[name]), "pairs"),
                what=short_outcome(name, words))
        for name in ordered
    ]  # fmt: skip
    return words.t(", ", ", ").join(counted)


def _names(models: Sequence[str], words: Words) -> str:
    return words.t(", ", ", ").join(words.name(one) for one in dict.fromkeys(models))


def _ratios(pair: Pair, rows: Mapping[str, Row]) -> tuple[Point, ...]:
    return tuple(_ratio(point, rows) for point in pair.points)


def _ratio(point: RatioPoint, rows: Mapping[str, Row]) -> Point:
    at = float(point.concurrency)
    if point.value:
        value = point.value
        return Point(x=at, y=value.value, low=value.low, high=value.high, ids=(*value.ids, *value.base))
    found = doubtful_ratio(point, SPECULATION, rows)
    return Point(x=at, y=found.value, comparable=False, ids=found.ids) if found else Point(x=at, y=None)


def _gaps(lines: Sequence[CodedPair], words: Words) -> tuple[Gap, ...]:
    """Return the ranges in which a line crosses the even value with nothing known; a broken line shows its own."""
    codes: dict[tuple[int, int], list[str]] = {}
    for one in lines:
        for found in one.brackets:
            broken = any(found.low < point.concurrency < found.high for point in one.pair.points)
            if found.empty and not broken:
                codes.setdefault((found.low, found.high), []).append(one.code)
    published = lines[0].pair["provenance"] == PUBLISHED
    text = words.t("발표되지 않음", "not published") if published else words.t("측정 없음", "not measured")
    return tuple(
        Gap(low=float(low), high=float(high), text=text, codes=tuple(own)) for (low, high), own in codes.items()
    )


def _sentence(line: CodedPair, words: Words) -> str:
    """Say a line in words, for those who do not see it."""
    values = [
        words.t("동시 {c}에서 {r}배", "{r}× at {c}", c=point.concurrency, r=SPECULATION_RATIO.text(point.ratio))
        for point in line.pair.measured
        if point.ratio is not None
    ]
    return f"{line.code} {plain_label(line.label, words)}: {', '.join(values)}."


def throughput_chart(name: str, lines: Sequence[CodedPair], rows: Mapping[str, Row], words: Words) -> Chart | None:
    """Return the throughputs of one model, on and off; None where no throughput is known."""
    found: list[Line] = []
    sides: tuple[Side, ...] = ("off", "on")
    for side in sides:
        for index, one in enumerate(lines):
            points = tuple(_throughput(point, side, rows) for point in one.pair.points)
            known = {line.points for line in found}  # two ways of speculating share what is off
            if points not in known and any(point.y is not None for point in points):
                found.append(_side_line(one, side, points, index, words))
    found = _told_apart(found, lines, words)
    if not found:
        return None
    model = lines[0].label.model
    metric = METRICS[0]
    return Chart(
        id=name,
        kind="line",
        title=words.t("{model}의 처리량, 추측 디코딩을 켤 때와 끌 때",
                      "Throughput of {model} with and without speculation", model=words.name(model)),
        subtitle=words.t("요청 전체를 합친 시스템 처리량", "System throughput, all requests together"),
        x=_concurrencies(lines, words),
        y=Axis(title=metric.name(words.language), unit=metric.unit, scale="linear", from_zero=True,
               digits=metric.digits),
        lines=tuple(found),
        provenance=str(lines[0].pair["provenance"]),
        alt="\n".join(_read_out(line, words) for line in found),
        columns=("concurrency", metric.column),
    )  # fmt: skip


def _side_line(one: CodedPair, side: Side, points: tuple[Point, ...], index: int, words: Words) -> Line:
    """Both sides of a pair share colour and marker; what is off is dashed."""
    shared = tuple(item for item in one.label.varying if item[0] not in ASKED)
    off = Label(model=one.label.model, speculation=OFF, k=None, varying=shared)
    look = chart.style(index)
    return Line(
        code=one.code if side == "on" else f"{one.code}0",
        name=plain_label(off if side == "off" else one.label, words, model=False),
        points=points,
        style=chart.Style(colour=look.colour, dash=chart.DASHES[side == "off"], marker=look.marker),
    )


def _told_apart(found: Sequence[Line], lines: Sequence[CodedPair], words: Words) -> list[Line]:
    """Add its series to the name of a line that shares it with another."""
    series = {one.code: one.pair["series"] for one in lines}
    names = [line.name for line in found]
    return [
        replace(line, name=f"{line.name} · {words.t('묶음', 'series')} {series[line.code.rstrip('0')]}")
        if names.count(line.name) > 1
        else line
        for line in found
    ]


def _throughput(point: RatioPoint, side: Side, rows: Mapping[str, Row]) -> Point:
    at = float(point.concurrency)
    known = point.on if side == "on" else point.off
    if known:
        return Point(x=at, y=known.value, low=known.low, high=known.high, ids=known.ids)
    found = doubtful_throughput(point, SPECULATION, side, rows)
    return Point(x=at, y=found.value, comparable=False, ids=found.ids) if found else Point(x=at, y=None)


def _read_out(line: Line, words: Words) -> str:
    values = [
        words.t("동시 {c}에서 {v} tok/s", "{v} tok/s at {c}", c=int(point.x), v=METRICS[0].text(point.y))
        for point in line.points
        if point.y is not None and point.comparable
    ]
    return f"{line.code} {line.name}: {', '.join(values)}."
