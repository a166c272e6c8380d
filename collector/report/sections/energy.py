"""Energy per output token, where the host measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from collector.analysis.curves import curves, main_load, of_each_model
from collector.analysis.energy import Frugal, Uses, ends, uses_of
from collector.analysis.study import Study
from collector.core.units import DISPLAYED
from collector.report.chart import Axis, Chart, Line, Point, Style, code, style
from collector.report.naming import chart_name, conditions, row_labels
from collector.report.tables import Label
from collector.report.words import Words, plain

#: Lines of the chart; more cannot be told apart. The table has all.
MOST_LINES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class UseLines:
    """A configuration as the section shows it; `code` is empty where the chart does not draw it."""

    code: str
    style: Style
    label: Label
    uses: Uses


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return what the section's template is rendered from."""
    main = main_load(curves(row for row in study.basis if row.energy_j is not None))
    drawn = of_each_model(main, MOST_LINES)
    others = [one for one in main if one not in drawn]
    names = row_labels([one.record for one in (*drawn, *others)])
    lines = [
        UseLines(code=code(index) if index < len(drawn) else "", style=style(index), label=name, uses=uses_of(one))
        for index, (one, name) in enumerate(zip((*drawn, *others), names, strict=True))
    ]
    measured = [one for one in lines if one.uses.measured]
    extremes = ends([one.uses for one in measured])
    return {
        "lines": measured,
        "drawn": len([one for one in measured if one.code]),
        "least": _named(extremes[0], measured) if extremes else None,
        "most": _named(extremes[1], measured) if extremes else None,
        "chart": _chart(measured, extremes, words),
        "conditions": conditions([row for one in main for row in one.rows], words) if main else [],
        "emulated": bool(study.rows) and all(row.provenance == "emulated" for row in study.rows),
    }


def _named(found: Frugal, lines: Sequence[UseLines]) -> tuple[Label, Frugal]:
    return next(one.label for one in lines if one.uses is found.uses), found


def _chart(lines: Sequence[UseLines], extremes: tuple[Frugal, Frugal] | None, words: Words) -> Chart | None:
    drawn = [one for one in lines if one.code]
    if not drawn or extremes is None:
        return None
    stages = sorted({float(use.concurrency) for one in drawn for use in one.uses.uses})
    return Chart(
        id="energy-per-token",
        title=_title(extremes[0], words),
        subtitle=words.t(
            "GPU 에너지 ÷ 생성한 토큰. 아래일수록 좋습니다.", "Energy of the GPUs ÷ generated tokens. Lower is better."
        ),
        x=Axis(title=words.t("동시 요청 수", "Concurrency"), scale="log2", digits=0, ticks=tuple(stages)),
        y=Axis(
            title=DISPLAYED["joules_per_token"].name(words.language),
            unit=DISPLAYED["joules_per_token"].unit,
            from_zero=True,
            digits=DISPLAYED["joules_per_token"].digits,
        ),
        lines=tuple(
            Line(code=one.code, name=chart_name(one.label, words), points=_points(one.uses), style=one.style)
            for one in drawn
        ),
        provenance=drawn[0].uses.curve.record.provenance,
        alt=" ".join(_sentence(one, words) for one in drawn),
        columns=("concurrency", "joules_per_token"),
    )


def _title(least: Frugal, words: Words) -> Markup:
    return words.t(
        "토큰당 에너지는 {model}의 동시 {at}에서 가장 적은 {joules}",
        "Energy per token is least with {model} at concurrency {at}: {joules}",
        model=words.name(least.uses.curve.record.model),
        at=words.setting(least.use.concurrency, "concurrency"),
        joules=words.fig(least.per_token, "joules_per_token", unit=True),
    )


def _points(uses: Uses) -> tuple[Point, ...]:
    return tuple(
        Point(
            x=use.concurrency,
            y=use.per_token.value,
            low=use.per_token.low,
            high=use.per_token.high,
            ids=use.per_token.ids,
        )
        if use.per_token
        else Point(x=use.concurrency, y=None)
        for use in uses.uses
    )


def _sentence(one: UseLines, words: Words) -> str:
    shape = DISPLAYED["joules_per_token"]
    points = ", ".join(
        f"{use.concurrency}: {shape.text(use.per_token.value)} J" for use in one.uses.measured if use.per_token
    )
    name = chart_name(one.label, words)
    return plain(
        words.t("{name}, 동시 요청 수별 {points}.", "{name}, by concurrency {points}.", name=name, points=points)
    )
