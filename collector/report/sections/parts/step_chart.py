"""The chart of what a ratio is made of: tokens per step against step time, and how many requests were decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collector.analysis.hypotheses import Judged
from collector.analysis.noise import Noise
from collector.analysis.quantity import Quantity
from collector.analysis.step_time import Case, Part, decode_bracket
from collector.core.units import DISPLAYED
from collector.report.chart import Axis, Chart, Gap, Line, Point, Style, code
from collector.report.naming import chart_name
from collector.report.tables import Label
from collector.report.words import Words, plain

#: A yield this near to 1 means that next to nothing was accepted.
NO_YIELD = 1.05

_STEP, _TOKENS, _REST = ("", "circle"), ("7 4", "square"), ("2 4", "triangle-up")


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseLines:
    """A case as the section shows it, judged at each concurrency that has a ratio."""

    case: Case
    label: Label
    judged: tuple[Judged, ...]

    @property
    def part(self) -> Part | None:
        """Return the part that the sentences speak of."""
        return self.case.telling

    @property
    def first(self) -> Part | None:
        """Return the part at the lowest concurrency that is known, if there is a higher one."""
        known = self.case.known
        return known[0] if len(known) > 1 and known[0] is not self.part else None

    @property
    def last(self) -> Judged | None:
        """Return the judgement at the concurrency that the sentences speak of."""
        return next((one for one in self.judged if one.part is self.part), None)

    @property
    def yields_nothing(self) -> bool:
        part = self.part
        return part is not None and part.tokens is not None and part.tokens.value <= NO_YIELD


def step_chart(found: Sequence[CaseLines], decode: Noise, words: Words) -> Chart | None:
    """Return both ratios by concurrency: where the step time lies above, a request decodes slower.

    `decode` is the noise of decode rates.
    """
    if not found:
        return None
    main = found[0]
    same = [one for one in found if one.case.pair["provenance"] == main.case.pair["provenance"]]
    short = len({one.label.model for one in same}) == len(same)
    lines = [line for index, one in enumerate(same) for line in _lines(index, one, words, short=short)]
    lines.append(_rest(len(lines), main, words, short=short))
    return Chart(
        id="causes-step-time",
        title=_title(main, words),
        subtitle=words.t(
            "추측을 켠 쪽 ÷ 끈 쪽. 스텝 시간의 선이 스텝당 토큰의 선보다 위에 있으면 요청이 느려집니다.",
            "Speculation on ÷ off. Where the line of step time lies above that of tokens per step, requests slow down.",
        ),
        x=Axis(title=words.t("동시 요청 수", "Concurrency"), scale="log2", digits=0, ticks=_stages(same)),
        y=Axis(title=words.t("켬 ÷ 끔", "on ÷ off"), unit="×", scale="log2", digits=2),
        lines=tuple(lines),
        provenance=str(main.case.pair["provenance"]),
        alt=" ".join(_sentence(line, words) for line in lines),
        columns=("concurrency", "ratio"),
        gaps=_gaps(main, decode, words),
    )


def _title(main: CaseLines, words: Words) -> str:
    known = [part for part in main.case.known if part.tokens and part.step]
    low, high = known[0], known[-1]
    names = {
        "model": words.name(main.label.model),
        "high": words.setting(high.concurrency, "concurrency"),
        "tokens": _fig(high.tokens, words),
        "step": _fig(high.step, words),
    }
    if low is high:
        return words.t(
            "{model}: 동시 {high}에서 스텝당 토큰 {tokens}배, 스텝 시간 {step}배",
            "{model} at concurrency {high}: {tokens}× the tokens per step, {step}× the step time",
            **names,
        )
    names |= {
        "low": words.setting(low.concurrency, "concurrency"),
        "tokens_low": _fig(low.tokens, words),
        "step_low": _fig(low.step, words),
    }
    return words.t(
        "{model}: 동시 {low}부터 {high}까지 스텝당 토큰은 {tokens_low}배 → {tokens}배, "
        "스텝 시간은 {step_low}배 → {step}배",
        "{model}, concurrency {low} to {high}: tokens per step {tokens_low}× → {tokens}×, "
        "step time {step_low}× → {step}×",
        **names,
    )


def _fig(quantity: Quantity | None, words: Words) -> object:
    return words.fig(quantity, "factor") if quantity else None


def _lines(index: int, one: CaseLines, words: Words, *, short: bool) -> tuple[Line, Line]:
    name = one.label.model if short else chart_name(one.label, words)
    step, tokens = words.t("스텝 시간", "step time"), words.t("스텝당 토큰", "tokens per step")
    return (
        Line(
            code=code(2 * index),
            name=f"{name} {step}",
            points=tuple(_point(part, part.step) for part in one.case.parts),
            style=Style(colour=index, dash=_STEP[0], marker=_STEP[1]),
        ),
        Line(
            code=code(2 * index + 1),
            name=f"{name} {tokens}",
            points=tuple(_point(part, part.tokens) for part in one.case.parts),
            style=Style(colour=index, dash=_TOKENS[0], marker=_TOKENS[1]),
        ),
    )


def _rest(index: int, main: CaseLines, words: Words, *, short: bool) -> Line:
    """Return the third factor, of the pair that the section is about: of all of them the chart would be covered."""
    name = main.label.model if short else chart_name(main.label, words)
    return Line(
        code=code(index),
        name=f"{name} {words.t('디코딩 중인 요청', 'requests decoding')}",
        points=tuple(_point(part, part.rest) for part in main.case.parts),
        style=Style(colour=0, dash=_REST[0], marker=_REST[1]),
    )


def _point(part: Part, ratio: Quantity | None) -> Point:
    if ratio is None:
        return Point(x=part.concurrency, y=None)
    return Point(x=part.concurrency, y=ratio.value, low=ratio.low, high=ratio.high, ids=(*ratio.ids, *ratio.base))


def _stages(found: Sequence[CaseLines]) -> tuple[float, ...]:
    return tuple(sorted({float(part.concurrency) for one in found for part in one.case.parts}))


def _gaps(main: CaseLines, decode: Noise, words: Words) -> tuple[Gap, ...]:
    """Return where the lines of the main pair cross unmeasured; of more pairs the hatches would cover the chart."""
    bracket = decode_bracket(main.case, decode)
    if bracket is None or bracket[1] - bracket[0] == 1:
        return ()
    text = str(words.t("측정 없음", "not measured"))
    return (Gap(low=bracket[0], high=bracket[1], text=text, codes=(code(0), code(1))),)


def _sentence(line: Line, words: Words) -> str:
    shape = DISPLAYED["factor"]
    points = ", ".join(f"{point.x:g}: {shape.text(point.y)}×" for point in line.points if point.y is not None)
    return plain(
        words.t(
            "{name}, 동시 요청 수별 배율 {points}.",
            "{name}, ratio by concurrency {points}.",
            name=line.name,
            points=points,
        )
    )
