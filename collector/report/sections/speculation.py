"""What speculative decoding gains by concurrency: charts, tables, and what a flat curve does not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collector.analysis.brackets import Bracket, brackets
from collector.analysis.compared import RatioPoint
from collector.analysis.figures import recomputed
from collector.analysis.formula import printed_formula
from collector.analysis.noise import Noise, noise_of
from collector.analysis.pairing import SPECULATION, Reason
from collector.analysis.panels import Panel, panels
from collector.analysis.quantity import Quantity
from collector.analysis.speculation import EVEN_WITHIN, verdict
from collector.analysis.steps import Step, last_step
from collector.analysis.study import Study
from collector.core.rows import Row
from collector.report import chart
from collector.report.chart import Chart
from collector.report.sections.parts.outcomes import outcome
from collector.report.sections.parts.pair_labels import labels, ordered
from collector.report.sections.parts.ratio_charts import CodedPair, ratio_chart, throughput_chart
from collector.report.sections.parts.shown import number as shown_number
from collector.report.tables import Label
from collector.report.words import Words

#: With more models than this the throughputs stand in the table only.
MOST_THROUGHPUT_CHARTS = 6
#: At most so many curves are named; the table has the rest.
MOST_STEPS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class PanelView:
    """A panel as the page shows it; the first of a page is the main one."""

    setting: tuple[tuple[str, str], ...]
    lines: tuple[CodedPair, ...]
    ratios: Chart
    throughputs: tuple[Chart, ...]

    @property
    def brackets(self) -> dict[Bracket, list[CodedPair]]:
        found: dict[Bracket, list[CodedPair]] = {}
        for line in self.lines:
            for one in line.brackets:
                found.setdefault(one, []).append(line)
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Uncompared:
    """A way that has no ratio on these prompts, and the rows that it has."""

    label: Label
    prompts: tuple[str, ...]
    reasons: tuple[Reason, ...]
    ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """How one side of a line changes over its last two concurrencies; `other` is the other side there."""

    line: CodedPair
    step: Step
    other: Step | None


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return what the section's template is rendered from."""
    rows, noise = {row.row_id: row for row in study.rows}, noise_of(study)
    found = panels(study.pairs(SPECULATION))
    ratios = [point.high or point.ratio for panel in found for pair in panel.pairs for point in pair.measured]
    top = max((one for one in ratios if one is not None), default=1.0)
    views: list[PanelView] = []
    uncompared: list[CodedPair] = []
    first = 0
    for number, panel in enumerate(found, 1):
        lines = coded(panel, first, noise)
        first += len(lines)
        drawn = ratio_chart(f"ratio-{number}", lines, rows, words, top)
        if drawn:
            charts = _throughputs(number, lines, rows, words)
            views.append(PanelView(setting=panel.setting, lines=lines, ratios=drawn, throughputs=charts))
        else:
            uncompared.extend(lines)
    main = views[0].lines if views else ()
    return {
        "panels": views,
        "uncompared": _alike(uncompared),
        "noise": noise,
        "otherwise": _otherwise(study),
        "why": one_reason,
        "outcome": lambda name: outcome(name, words),
        "falling": _falling(study, main),
        "rising": _together(rising := _rising(study, main, noise)),
        "outrun": bool(rising) and all(one.other and one.other.change.value > one.step.change.value for one in rising),
        "number": shown_number(study, words),
        "series": len({line.pair["series"] for line in main}) > 1,
    }


def _otherwise(study: Study) -> dict[str, Quantity]:
    """Return what the printed throughputs give for each printed ratio that does not follow from them, by its id."""
    found = [one for one in recomputed(study.figures) if not one.agrees and one.figure.metric == "speculation_ratio"]
    given = ((one, printed_formula(one.sides[:1], "system_throughput", one.sides[1:])) for one in found)
    return {one.figure.figure_id: ratio for one, ratio in given if ratio}


def coded(panel: Panel, first: int, noise: Noise) -> tuple[CodedPair, ...]:
    """Give each pair of a panel its code, running on over the page, and its look, starting anew in each chart."""
    pairs = [*ordered(panel.measured), *ordered(pair for pair in panel.pairs if not pair.measured)]
    above = [name for name, _ in panel.setting]
    return tuple(
        CodedPair(
            code=chart.code(first + index),
            style=chart.style(index),
            label=label,
            pair=pair,
            verdict=verdict(pair, noise),
            brackets=brackets(pair, noise),
        )
        for index, (pair, label) in enumerate(zip(pairs, labels(pairs, above), strict=True))
    )


def _throughputs(number: int, lines: Sequence[CodedPair], rows: Mapping[str, Row], words: Words) -> tuple[Chart, ...]:
    """Return a chart for each model of the main panel, one that turns first; none where they would be many."""
    turning = [line.label.model for line in lines if line.verdict and line.verdict.outcome == "falls"]
    models = list(dict.fromkeys([*turning, *(line.label.model for line in lines if line.verdict)]))
    if number > 1 or len(models) > MOST_THROUGHPUT_CHARTS:
        return ()
    made = (
        throughput_chart(
            f"throughput-{place}", [one for one in lines if one.label.model == model and one.verdict], rows, words
        )
        for place, model in enumerate(models, 1)
    )
    return tuple(one for one in made if one)


def _alike(lines: Sequence[CodedPair]) -> list[Uncompared]:
    """Put pairs of one label together that lack a ratio for the same reasons, on whatever prompts."""
    found: dict[Any, list[CodedPair]] = {}
    for line in lines:
        found.setdefault((line.label, frozenset(point.reason for point in line.pair.points)), []).append(line)
    return [
        Uncompared(
            label=label,
            prompts=tuple(dict.fromkeys(line.pair["prompt_set"] for line in own)),
            reasons=tuple(dict.fromkeys(p.reason for line in own for p in line.pair.points if p.reason)),
            ids=tuple(dict.fromkeys(name for line in own for p in line.pair.points for name in _ids(p))),
        )
        for (label, _), own in found.items()
    ]


def _ids(point: RatioPoint) -> tuple[str, ...]:
    return (*point.row_ids_on, *point.row_ids_off, *point.row_ids_left_out)


def one_reason(line: CodedPair) -> Reason | None:
    """Return why a pair has no ratio at all, where every point has the same reason."""
    reasons = {point.reason for point in line.pair.points}
    return next(iter(reasons)) if len(reasons) == 1 else None


def _together(curves: Sequence[Curve]) -> dict[tuple[int, int], list[Curve]]:
    """Put the curves between the same two concurrencies together."""
    found: dict[tuple[int, int], list[Curve]] = {}
    for one in curves:
        found.setdefault((one.step.low, one.step.high), []).append(one)
    return found


def _falling(study: Study, lines: Sequence[CodedPair]) -> list[Curve]:
    """Return the lines whose side without speculation falls by itself, each set of rows once."""
    found: dict[tuple[str, ...], Curve] = {}
    for line in lines:
        step = last_step(study, line.pair, "off")
        if step and step.change.value < -100 * EVEN_WITHIN:
            found.setdefault(step.after.ids, Curve(line=line, step=step, other=None))
    return list(found.values())[:MOST_STEPS]


def _rising(study: Study, lines: Sequence[CodedPair], noise: Noise) -> list[Curve]:
    """Return the lines that lose at the end though their side with speculation still rises."""
    found = []
    for line in lines:
        step, other = last_step(study, line.pair, "on"), last_step(study, line.pair, "off")
        end = line.pair.measured[-1] if line.pair.measured else None
        losing = end and end.value and noise.side(end.value) < 0
        if step and losing and step.change.value > 100 * EVEN_WITHIN:
            same = other if other and (other.low, other.high) == (step.low, step.high) else None
            found.append(Curve(line=line, step=step, other=same))
    return found[:MOST_STEPS]
