"""Time to the first token against throughput: how many requests at once a target for the wait allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from collector.analysis.curves import OF_A_LOAD, Curve, curves, main_load, of_each_model
from collector.analysis.figures import Labels
from collector.analysis.latency import Change, Wait, Waits, printed_changes, range_of, waits_of
from collector.analysis.noise import Noise, noise_among, noise_of
from collector.analysis.pairing import key
from collector.analysis.repeats import repeat_errors
from collector.analysis.study import Study
from collector.core.units import DISPLAYED
from collector.report.chart import Axis, Chart, Line, Point, Style, code, style
from collector.report.naming import chart_name, conditions, row_labels
from collector.report.tables import Label
from collector.report.words import Words, plain

#: Lines of the chart; more cannot be told apart. The table has all.
MOST_LINES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitLines:
    """A configuration as the section shows it; `code` ties a line of the chart to its table."""

    code: str
    style: Style
    label: Label
    waits: Waits

    @property
    def curve(self) -> Curve:
        return self.waits.curve


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeLine:
    """A published change of throughput, by what it was measured on."""

    label: Label
    change: Change


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return what the section's template is rendered from."""
    found = curves(study.basis)
    main = main_load(found)
    drawn = _lines(of_each_model(main, MOST_LINES))
    noise = _noise(study, drawn)
    return {
        "printed_range": [*study.figures_of("ttft_min"), *study.figures_of("ttft_max")],
        "printed_changes": [ChangeLine(label=_label(one.figure.labels), change=one) for one in printed_changes(study)],
        "range": range_of(main),
        "drawn": drawn,
        "noise": noise,
        "measured": len(main),
        "fastest": next((one for one in drawn if one.waits.step), None),
        "shrinking": _shrinking(drawn, noise),
        "lines": _lines(found),
        "loads": len({key(one.record, OF_A_LOAD) for one in found}),
        "burst": _burst(main),
        "chart": _chart(drawn, words),
        "conditions": conditions([row for one in main for row in one.rows], words) if main else [],
    }


def _lines(found: Sequence[Curve]) -> list[WaitLines]:
    names = row_labels([one.record for one in found])
    return [
        WaitLines(code=code(index), style=style(index), label=name, waits=waits_of(one))
        for index, (one, name) in enumerate(zip(found, names, strict=True))
    ]


def _shrinking(drawn: Sequence[WaitLines], noise: Noise) -> WaitLines | None:
    """Return the configuration whose throughput falls most over its last step, if any falls by more than noise."""
    changes = ((one.waits.change, one) for one in drawn)
    falling = [(change.value, one) for change, one in changes if change and noise.side(change) < 0]
    return min(falling, key=lambda one: one[0], default=(0.0, None))[1]


def _noise(study: Study, drawn: Sequence[WaitLines]) -> Noise:
    """Return what judges how the last step of concurrency changes throughput."""
    if study.is_published:
        return noise_of(study)
    rows = {row.row_id: row for row in study.basis}
    changes = [one.waits.change for one in drawn if one.waits.change]
    return noise_among(changes, rows, repeat_errors(study), family="step")


def _burst(found: Sequence[Curve]) -> tuple[int, int] | None:
    """Return requests and concurrency of the highest stage, where all configurations share them."""
    highest = max((stage.concurrency for one in found for stage in one.stages), default=0)
    stages = {row.requests for one in found for row in one.rows if row.concurrency == highest}
    return (stages.pop(), highest) if len(stages) == 1 else None


def _label(labels: Labels) -> Label:
    shown = (("kv_cache_dtype", labels.kv_cache_dtype), ("nvlink", labels.nvlink), ("series", labels.series))
    return Label(
        model=labels.model or "",
        speculation=labels.speculation or "off",
        k=labels.num_speculative_tokens,
        varying=tuple((name, value) for name, value in shown if value and value != "main"),
    )


def _chart(drawn: Sequence[WaitLines], words: Words) -> Chart | None:
    """Return throughput against the wait, each configuration joined by rising concurrency."""
    lines = [one for one in drawn if any(_point(wait).y is not None for wait in one.waits.waits)]
    if not lines:
        return None
    return Chart(
        id="latency-frontier",
        title=_title(lines[0], words),
        subtitle=words.t(
            "왼쪽 위일수록 좋습니다. 점 옆의 수는 동시 요청 수입니다.",
            "Up and to the left is better. The number beside a point is the concurrency.",
        ),
        x=Axis(title=words.t("TTFT 평균", "Mean TTFT"), unit="s", scale="log2", digits=2),
        y=Axis(title=DISPLAYED["system_throughput_tok_s"].name(words.language), unit="tok/s", from_zero=True, digits=1),
        lines=tuple(
            Line(
                code=one.code,
                name=chart_name(one.label, words),
                points=tuple(_point(wait) for wait in one.waits.waits),
                style=one.style,
            )
            for one in lines
        ),
        provenance=lines[0].curve.record.provenance,
        alt=" ".join(_sentence(one, words) for one in lines),
        columns=("ttft_mean_s", "system_throughput_tok_s"),
        in_order=True,
    )


def _title(one: WaitLines, words: Words) -> Markup:
    waits = one.waits
    if not (waits.step and waits.change and waits.growth):
        return words.t("첫 토큰까지의 시간과 처리량", "Throughput against the wait for the first token")
    low, high = (words.setting(stage, "concurrency") for stage in waits.step)
    return words.t(
        "{model}: 동시 요청을 {low}개에서 {high}개로 올리면 처리량은 {change}, TTFT는 {growth}배",
        "{model}, concurrency {low} to {high}: throughput {change}, TTFT {growth}×",
        model=words.name(one.label.model),
        low=low,
        high=high,
        change=words.fig(waits.change.as_gain, "change", unit=True, sign=True),
        growth=words.fig(waits.growth, "factor"),
    )


def _point(wait: Wait) -> Point:
    throughput = wait.stage.throughput
    if wait.mean is None or throughput is None:
        return Point(x=1.0, y=None)
    return Point(
        x=wait.mean.value,
        y=throughput.value,
        low=throughput.low,
        high=throughput.high,
        ids=throughput.ids,
        label=str(wait.concurrency),
    )


def _sentence(one: WaitLines, words: Words) -> str:
    shape, speed = DISPLAYED["ttft_mean_short_s"], DISPLAYED["system_throughput_tok_s"]
    points = ", ".join(
        f"{wait.concurrency}: {shape.text(wait.mean.value)} s, {speed.text(wait.stage.throughput.value)} tok/s"
        for wait in one.waits.waits
        if wait.mean and wait.stage.throughput
    )
    name = chart_name(one.label, words)
    return plain(
        words.t("{name}, 동시 요청 수별 {points}.", "{name}, by concurrency {points}.", name=name, points=points)
    )
