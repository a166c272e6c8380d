"""NVLink: its gain in every setting, beside the traffic over the link, and what else differed between both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from collector.analysis.interconnect import (
    EXPLAINS_FROM_PERCENT,
    Link,
    Multiple,
    links,
    multiples,
    order,
    stage_of,
    unpaired,
    without_ratio,
)
from collector.analysis.mixed import MIXED_FROM_PERCENT
from collector.analysis.noise import noise_of
from collector.analysis.pairing import NVLINK, OFF
from collector.analysis.quantity import Quantity
from collector.analysis.study import Study
from collector.core.units import DISPLAYED, fixed
from collector.report.chart import Axis, Chart, Even, Line, Point, code, style
from collector.report.sections.parts.conditions import conditions
from collector.report.sections.parts.names import LISTED, pair_labels
from collector.report.sections.parts.pair_labels import plain_label
from collector.report.sections.parts.shown import number
from collector.report.tables import Label
from collector.report.words import Words, plain

GAIN = DISPLAYED["nvlink_gain"]
#: Traffic of published figures is in GiB already.
TRAFFIC_OF = {True: DISPLAYED["nvlink_traffic"], False: DISPLAYED["nvlink_bytes"]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A link as the page shows it."""

    code: str
    label: Label
    link: Link


@dataclass(frozen=True, kw_only=True, slots=True)
class Multiplied:
    label: Label
    multiple: Multiple


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return the links at one concurrency, what their order follows, and what has no partner."""
    pairs, noise = study.pairs(NVLINK), noise_of(study)
    at = stage_of(pairs)
    found = links(study, at) if at is not None else []
    names = pair_labels([one.pair for one in found], left_out=("nvlink",))
    entries = [
        Entry(code=code(place), label=label, link=one)
        for place, (one, label) in enumerate(zip(found, names, strict=True))
    ]
    grown = multiples(study, found, at) if at is not None else []
    told = without_ratio(study, at) if at is not None else []
    return {
        "at": at,
        "noise": noise,
        "entries": entries,
        "stages": sorted({point.concurrency for one in found for point in one.pair.measured}),
        "losing": [one for one in entries if one.link.point.value and noise.side(one.link.point.value) < 0],
        "gaining": [one for one in entries if one.link.point.value and noise.side(one.link.point.value) > 0],
        "order": order(found),
        "mixed": [one for one in entries if one.link.mixed],
        "stirred": [one for one in entries if one.link.stirred],
        "leaking": [one for one in entries if one.link.off and one.link.off.value > 0],
        "untold": [one for one in entries if one.link.off is None],
        "reduces": next((one.reduces for one in found if None not in one.reduces and len(set(one.reduces)) > 1), None),
        "multiples": _multiplied(grown),
        "unpaired": unpaired(study),
        "one_sided": [(pair, point) for pair, point in told if point.reason and point.reason.kind != "missing"],
        "alone": [pair for pair, point in told if point.reason and point.reason.kind == "missing"],
        "varied": len({one.nvlink for one in study.records} & {"on", OFF}) > 1,
        "charts": [_chart(study, words, members, at) for members in _by_provenance(entries) if at is not None],
        "conditions": conditions(study, words, found[0].pair if found else None),
        "number": number(study, words),
        "traffic": TRAFFIC_OF[study.is_published].column,
        "off": OFF,
        "EXPLAINS_FROM_PERCENT": EXPLAINS_FROM_PERCENT,
        "MIXED_FROM_PERCENT": MIXED_FROM_PERCENT,
        "LISTED": LISTED,
    }


def _multiplied(found: Sequence[Multiple]) -> list[Multiplied]:
    names = pair_labels([one.pair for one in found], left_out=("nvlink",))
    return [Multiplied(label=label, multiple=one) for one, label in zip(found, names, strict=True)]


def _by_provenance(entries: Sequence[Entry]) -> list[list[Entry]]:
    names = dict.fromkeys(one.link.pair["provenance"] for one in entries)
    return [[one for one in entries if one.link.pair["provenance"] == name] for name in names]


def _chart(study: Study, words: Words, entries: Sequence[Entry], at: int) -> Chart:
    lines = [
        Line(
            code=one.code,
            name=plain_label(replace(one.label, varying=()), words).replace(" · ", " "),
            points=(_bar(study, words, one, rank),),
            style=style(_colour(entries, one)),
        )
        for rank, one in enumerate(entries, start=1)
    ]
    provenance = entries[0].link.pair["provenance"]
    texts = [
        f"{one.code} {plain_label(one.label, words)}: {GAIN.text(one.link.gain.value)}%, "
        f"{_traffic(study, words, one.link.on)}"
        for one in entries
    ]
    return Chart(
        id=f"nvlink-gain-{provenance}",
        kind="bar",
        title=_title(words, entries, at),
        subtitle=plain(
            words.t(
                "NVLink를 켰을 때 시스템 처리량의 변화(%), 작은 글씨는 켠 쪽의 전송량",
                "Change of system throughput with NVLink, %; in small print the traffic with it",
            )
        ),
        x=Axis(title=plain(words.t("순위", "rank")), digits=0),
        y=Axis(title=plain(words.t("NVLink의 이득", "gain of NVLink")), unit="%", digits=GAIN.digits, from_zero=True),
        lines=tuple(lines),
        provenance=provenance,
        alt=". ".join(texts) + ".",
        columns=("rank", "gain_percent"),
        even=_even(words) if any((one.link.point.ratio or 1) < 1 for one in entries) else None,
    )


def _even(words: Words) -> Even:
    return Even(
        value=0.0, above=plain(words.t("켠 쪽이 빠름", "faster with it")), below=plain(words.t("느림", "slower"))
    )


def _colour(entries: Sequence[Entry], entry: Entry) -> int:
    """One look a model."""
    models = list(dict.fromkeys(one.label.model for one in entries))
    return models.index(entry.label.model)


def _bar(study: Study, words: Words, entry: Entry, rank: int) -> Point:
    gain, link = entry.link.gain, entry.link
    told = [one.removeprefix("KV ") for one in plain_label(entry.label, words).split(" · ")[2:]]
    mixed = [plain(words.t("수용률 다름", "acceptance differs"))] if link.mixed else []
    return Point(
        x=rank,
        y=gain.value,
        low=gain.low,
        high=gain.high,
        ids=(*gain.ids, *gain.base),
        note=" · ".join([*told, _traffic(study, words, link.on), *mixed]),
    )


def _traffic(study: Study, words: Words, quantity: Quantity | None) -> str:
    if quantity is None:
        return plain(words.t("전송량 모름", "traffic not known"))
    metric = TRAFFIC_OF[study.is_published]
    return f"{fixed(quantity.value * metric.scale, 0)} {metric.unit}"


def _title(words: Words, entries: Sequence[Entry], at: int) -> Markup:
    values = [one.link.gain for one in entries]
    low, high = min(values, key=lambda one: one.value), max(values, key=lambda one: one.value)
    stage = words.setting(at, "concurrency")
    if len(values) == 1:
        return words.t(
            "동시 {at}에서 NVLink의 이득은 {low}입니다",
            "At concurrency {at} NVLink gains {low}",
            at=stage,
            low=words.fig(low, "nvlink_gain", unit=True, sign=True),
        )
    return words.t(
        "동시 {at}에서 NVLink의 이득은 {low}에서 {high}까지입니다",
        "At concurrency {at} NVLink gains from {low} to {high}",
        at=stage,
        low=words.fig(low, "nvlink_gain", unit=True, sign=True),
        high=words.fig(high, "nvlink_gain", unit=True, sign=True),
    )
