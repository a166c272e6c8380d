"""Why a gain turns into a loss: what a step yields against what it costs, and two explanations of the cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from collector.analysis.hypotheses import FLAT_BELOW, KV_FULL_PERCENT, RISES_FROM, Judged, judged
from collector.analysis.noise import Noise, noise_among, noise_of
from collector.analysis.pairing import NVLINK
from collector.analysis.predicted import predicted
from collector.analysis.printed_steps import printed_cases
from collector.analysis.quantity import Quantity
from collector.analysis.step_time import (
    DECODE,
    REST,
    STEP,
    TOKENS,
    Case,
    Part,
    cases_of,
    decode_bracket,
    leading,
    moved,
)
from collector.analysis.study import Study
from collector.core.units import DISPLAYED
from collector.report.chart import Axis, Chart, Gap, Line, Point, Style, code
from collector.report.naming import chart_name, conditions
from collector.report.sections.parts.conditions import conditions as printed_conditions
from collector.report.sections.parts.pair_labels import labels
from collector.report.tables import Label
from collector.report.words import Words, plain

#: Pairs in the table; beyond these the CSV serves better.
MOST_CASES = 8
#: Pairs in the chart, each with two lines.
MOST_CHARTED = 3
#: Losses of other models that get a sentence of their own.
MOST_OTHERS = 2
#: A yield this near to 1 means that next to nothing was accepted.
NO_YIELD = 1.05

#: The factors of a ratio by their name in Part, and the expression over columns whose ratio each of them is.
FACTORS = {"tokens": TOKENS, "step": STEP, "decode": DECODE, "rest": REST}

_STEP, _TOKENS = ("", "circle"), ("7 4", "square")


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


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return what the section's template is rendered from."""
    found = printed_cases(study) if study.is_published else cases_of(study.basis, study.failures)
    leads = leading(found)
    main = leads[0] if leads else None
    leads = [one for one in leads if one.load == leads[0].load]
    shown = _shown(found, main)
    lines = _named(shown)
    contrast = _contrast(leads, main)
    return {
        "main": lines[0] if lines else None,
        "lines": lines[:MOST_CASES],
        "left_out": len(lines[MOST_CASES:]),
        "noises": _noises(study, shown[:MOST_CASES]),
        "predicted": predicted(main.telling, study.profile) if main and main.telling else None,
        "moved": moved(main) if main else None,
        "others": _of_other_models([one for one in lines if one.case in leads])[:MOST_OTHERS],
        "contrast": _named([contrast])[0] if contrast else None,
        "chart": _chart(_named(_charted(leads, contrast)), words),
        "thresholds": {"rises": f"{RISES_FROM:g}", "flat": f"{FLAT_BELOW:g}", "full": f"{KV_FULL_PERCENT:g}"},
        "conditions": _conditions(study, main, words),
        "printed_drafter": study.figures_of("drafter_parameters", model=main.pair["model"])[:1] if main else [],
    }


def _noises(study: Study, shown: Sequence[Case]) -> dict[str, Noise]:
    """Return the noise that each factor of the cases shown is judged by; "system" is that of the whole study."""
    rows = {row.row_id: row for row in study.rows}
    parts = [part for case in shown for part in case.parts]
    found = {"system": noise_of(study)}
    for name, column in FACTORS.items():
        ratios = [ratio for part in parts if (ratio := getattr(part, name)) is not None]
        found[name] = noise_among(ratios, rows, None, column, f"causes-{name}")
    return found


def _conditions(study: Study, main: Case | None, words: Words) -> Sequence[str]:
    if study.is_published or main is None:
        return printed_conditions(study, words)
    return conditions([row for part in main.parts for row in (*part.rows_on, *part.rows_off)], words)


def _named(found: Sequence[Case]) -> list[CaseLines]:
    names = labels([one.pair for one in found], _follow(found))
    return [CaseLines(case=one, label=name, judged=tuple(judged(one))) for one, name in zip(found, names, strict=True)]


def _shown(found: Sequence[Case], main: Case | None) -> list[Case]:
    """Return the case that the section is about, then the other losses that can be taken apart."""
    if main is None:
        return []
    others = [one for one in found if one is not main and one.loses and one.known] if main.loses else []
    return [main, *others]


def _follow(found: Sequence[Case]) -> tuple[str, ...]:
    """Return the columns that a label need not show, since they change with NVLink and only with it."""
    settings = {(one.pair["nvlink"], *(one.pair[name] for name in NVLINK.follows)) for one in found}
    return NVLINK.follows if len(settings) == len({nvlink for nvlink, *_ in settings}) else ()


def _of_other_models(found: Sequence[CaseLines]) -> list[CaseLines]:
    """Return the first loss of each model but the first: the sentences name a model once."""
    first: dict[str, CaseLines] = {}
    for one in found:
        first.setdefault(one.label.model, one)
    return list(first.values())[1:]


def _contrast(leads: Sequence[Case], main: Case | None) -> Case | None:
    """Return the best gain where the main pair loses most: what it does otherwise is a clue."""
    if main is None or not main.loses or not main.telling:
        return None
    at = main.telling.concurrency
    gains = [(part, one) for one in leads if not one.loses for part in one.parts if part.concurrency == at]
    told = [(part.decode.value, one) for part, one in gains if part.complete and part.decode and part.decode.value > 1]
    return max(told, key=lambda gain: gain[0], default=(0.0, None))[1]


def _charted(leads: Sequence[Case], contrast: Case | None) -> list[Case]:
    """Return the pairs that turn, or the first one where none does, and the gain beside them."""
    able = [one for one in leads if any(part.complete for part in one.parts)]
    turning = [one for one in able if one.turns] or able[:1]
    beside = [contrast] if contrast else []
    return [*turning[: MOST_CHARTED - len(beside)], *beside]


def _chart(found: Sequence[CaseLines], words: Words) -> Chart | None:
    """Return both ratios by concurrency: where the step time lies above, a request decodes slower."""
    if not found:
        return None
    main = found[0]
    same = [one for one in found if one.case.pair["provenance"] == main.case.pair["provenance"]]
    short = len({one.label.model for one in same}) == len(same)
    lines = [line for index, one in enumerate(same) for line in _lines(index, one, words, short=short)]
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
        gaps=_gaps(main, words),
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


def _point(part: Part, ratio: Quantity | None) -> Point:
    if ratio is None:
        return Point(x=part.concurrency, y=None)
    return Point(x=part.concurrency, y=ratio.value, low=ratio.low, high=ratio.high, ids=(*ratio.ids, *ratio.base))


def _stages(found: Sequence[CaseLines]) -> tuple[float, ...]:
    return tuple(sorted({float(part.concurrency) for one in found for part in one.case.parts}))


def _gaps(main: CaseLines, words: Words) -> tuple[Gap, ...]:
    """Return where the lines of the main pair cross unmeasured; of more pairs the hatches would cover the chart."""
    bracket = decode_bracket(main.case)
    if bracket is None:
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
