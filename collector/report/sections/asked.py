"""Acceptance that was asked for against its prediction; nothing where no engine was asked for any."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from collector.analysis.asked import AtLoad, Held, asked
from collector.analysis.study import Study
from collector.core.units import DISPLAYED, SPECULATION_RATIO
from collector.report.chart import Axis, Chart, Even, Line, Point, code, style
from collector.report.sections.parts.conditions import conditions
from collector.report.sections.parts.pair_labels import labels, plain_label
from collector.report.tables import Label
from collector.report.words import Words, plain

TOKENS = DISPLAYED["tokens_per_step"]


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return what the section's template is rendered from."""
    found = asked(study)
    named = labels([one.pair for one in found])
    errors = [one.error for held in found for load in held.loads for one in load.measured if one.error]
    return {
        "held": [
            (label, one, _chart(place, label, one, words))
            for place, (label, one) in enumerate(zip(named, found, strict=True), 1)
        ],
        "least": min(errors, key=lambda one: one.value, default=None),
        "most": max(errors, key=lambda one: one.value, default=None),
        "conditions": conditions(study, words),
    }


def _chart(place: int, label: Label, held: Held, words: Words) -> Chart:
    lines = tuple(
        Line(code=code(index), name=_name(load, words), points=_points(load), style=style(index))
        for index, load in enumerate(held.loads)
    )
    return Chart(
        id=f"asked-{place}",
        title=_title(label, held, words),
        subtitle=plain(
            words.t(
                "추측 켬 ÷ 끔. 선의 맨 왼쪽은 드래프터 그대로이고 나머지는 엔진에 수용을 지정한 값입니다.",
                "Speculation on ÷ off. The first mark of a line is the drafter as it is, the others are asked for.",
            )
            if all(load.measured[0].asked is None for load in held.loads)
            else words.t("추측 켬 ÷ 끔", "Speculation on ÷ off")
        ),
        x=Axis(title=TOKENS.name(words.language), scale="log2", digits=TOKENS.digits),
        y=Axis(
            title=plain(words.t("처리량 배율(켬 ÷ 끔)", "throughput, on ÷ off")),
            unit=SPECULATION_RATIO.unit,
            from_zero=True,
            digits=SPECULATION_RATIO.digits,
        ),
        lines=lines,
        even=Even(value=1.0, above=plain(words.t("이득", "gain")), below=plain(words.t("손해", "loss"))),
        provenance=str(held.pair["provenance"]),
        alt=" ".join(f"{plain_label(label, words)}, {_sentence(line)}" for line in lines),
        columns=("tokens_per_step", "speculation_ratio"),
    )


def _title(label: Label, held: Held, words: Words) -> Markup:
    model, near = words.name(label.model), [load.nearest for load in held.loads]
    if all(one and one.side == 0 for one in near):
        return words.t(
            "{model}: 계산한 만큼 받아들이면 본전입니다",
            "{model}: with as much accepted as computed, speculation breaks even",
            model=model,
        )
    return words.t("{model}: 스텝당 토큰에 따른 배율", "{model}: the ratio by tokens per step", model=model)


def _name(load: AtLoad, words: Words) -> str:
    return plain(words.t("동시 {c}", "concurrency {c}", c=load.concurrency))


def _points(load: AtLoad) -> tuple[Point, ...]:
    return tuple(
        Point(x=one.tokens.value, y=one.ratio.value, low=one.ratio.low, high=one.ratio.high, ids=one.ids)
        for one in load.measured
    )


def _sentence(line: Line) -> str:
    values = ", ".join(f"{TOKENS.text(one.x)}: {SPECULATION_RATIO.text(one.y or 0.0)}×" for one in line.points)
    return f"{line.name} - {values}."
