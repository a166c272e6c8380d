"""Drafter efficiency: what is accepted per forward, by prompt and by draft position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup

from collector.analysis.drafters import (
    RARE_BELOW_PERCENT,
    SYNTHETIC,
    AtPosition,
    Choice,
    Drafter,
    PositionLine,
    by_position,
    chosen,
    drafters,
    in_order,
    is_general,
    size_of,
)
from collector.analysis.figures import Figure
from collector.analysis.needed import Needed, loses, needed
from collector.analysis.noise import noise_of
from collector.analysis.pairing import SPECULATION
from collector.analysis.planned import leading
from collector.analysis.published import GENERAL
from collector.analysis.quantity import Quantity
from collector.analysis.schedule import is_pure
from collector.analysis.study import Study
from collector.analysis.under_load import ALIKE_WITHIN_PERCENT, Opposite, opposites
from collector.analysis.waste import Waste, loaded_of, waste_of, width_of
from collector.core.units import DISPLAYED
from collector.report.chart import Axis, Chart, Line, Point, code, style
from collector.report.prompt_words import prompt_word
from collector.report.sections.parts.conditions import conditions
from collector.report.sections.parts.names import LISTED, drafter_labels
from collector.report.sections.parts.pair_labels import labels, plain_label
from collector.report.tables import Label
from collector.report.words import Words, plain

PER_FORWARD = DISPLAYED["accepted_per_forward"]
#: With more drafters than this a bar stands for all general prompts of a drafter, not for each of them.
MOST_BY_PROMPT = 6
#: Pairs in the table of what a step must yield.
MOST_NEEDED = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A drafter as the page shows it."""

    code: str
    label: Label
    drafter: Drafter
    size: Figure | None  # printed
    loaded: Quantity | None  # GiB on each card, by the engine's log
    width: Quantity | None  # positions verified for a request in a step, at most
    waste: Waste | None


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return the drafters with what tells them apart, their extremes and their charts."""
    found = drafters(study)
    entries = [
        Entry(
            code=code(place),
            label=label,
            drafter=one,
            size=size_of(study, one),
            loaded=loaded_of(study, one),
            width=width_of(study, one),
            waste=waste_of(study, one),
        )
        for place, (one, label) in enumerate(zip(found, drafter_labels(found), strict=True))
    ]
    lines = by_position(study, found)
    pooled = sorted((one for one in entries if one.drafter.general), key=_pooled, reverse=True)
    return {
        "entries": entries,
        "kinds": in_order({name for one in found for name in one.general}),
        "pooled": pooled,
        "least": _known(chosen(found, min), entries),
        "most": _known(chosen(found, max), entries),
        "opposites": _told(opposites(study, found), entries),
        "rare": [one for one in entries if any(line.drafter is one.drafter and line.ends_rare for line in lines)],
        "once": all(one.drafter.per_forward[name].n == 1 for one in pooled for name in one.drafter.general),
        "conditions": conditions(study, words),
        "break_even": (wanted := _break_even(study)),
        "bound": any(at.bound for _, one in wanted for at in one.stages),
        "by_prompt": [_by_prompt(words, members) for members in _by_provenance(entries) if _drawn(members)],
        "by_position": [
            _by_position(words, members, own)
            for members in _by_provenance(entries)
            if (own := [one for one in lines if any(one.drafter is entry.drafter for entry in members)])
        ],
        "prompt": partial(prompt_word, words),
        "ALIKE_WITHIN_PERCENT": ALIKE_WITHIN_PERCENT,
        "RARE_BELOW_PERCENT": RARE_BELOW_PERCENT,
        "LISTED": LISTED,
    }


def _break_even(study: Study) -> list[tuple[Label, Needed]]:
    """Return what a step must yield, of one pair of each way of speculating that loses somewhere."""
    noise = noise_of(study)
    pairs = leading(pair for pair in study.pairs(SPECULATION) if is_pure(pair) and loses(pair, noise))
    known = [found for pair in pairs if (found := needed(pair, study.rows))][:MOST_NEEDED]
    return list(zip(labels([one.pair for one in known], left_out=("prompt_set",)), known, strict=True))


def _pooled(entry: Entry) -> float:
    return entry.drafter.per_forward[GENERAL].value if GENERAL in entry.drafter.per_forward else -1.0


def _entry(drafter: Drafter, entries: Sequence[Entry]) -> Entry:
    return next(one for one in entries if one.drafter is drafter)


def _known(choices: Sequence[Choice], entries: Sequence[Entry]) -> list[tuple[tuple[str, ...], list[Entry]]]:
    return [(names, [_entry(one, entries) for one in members]) for names, members in choices]


def _told(found: Sequence[Opposite], entries: Sequence[Entry]) -> list[tuple[Entry, Entry, Opposite]]:
    return [(_entry(one.gaining, entries), _entry(one.losing, entries), one) for one in found]


def _by_provenance(entries: Sequence[Entry]) -> list[list[Entry]]:
    """A chart holds one provenance."""
    names = dict.fromkeys(one.drafter["provenance"] for one in entries)
    return [[one for one in entries if one.drafter["provenance"] == name] for name in names]


def _shown(entry: Entry, many: bool) -> list[str]:
    """Return the prompt sets of a drafter that get a bar."""
    known = entry.drafter.per_forward
    if many and GENERAL in known:
        return [GENERAL]
    return [name for name in known if name == SYNTHETIC or is_general(name)]


def _drawn(entries: Sequence[Entry]) -> bool:
    return any(_shown(one, many=False) for one in entries)


def _by_prompt(words: Words, entries: Sequence[Entry]) -> Chart:
    many = len(entries) > MOST_BY_PROMPT
    lines = []
    for place, entry in enumerate(entries):
        name = plain_label(entry.label, words)
        note = name if [one.label.model for one in entries].count(entry.label.model) > 1 else entry.label.model
        points = [
            _bar(words, entry, prompts, rank, "" if many else note)
            for rank, prompts in enumerate(_shown(entry, many), start=1)
        ]
        lines.append(Line(code=entry.code, name=name, points=tuple(points), style=style(place)))
    provenance = entries[0].drafter["provenance"]
    return Chart(
        id=f"accepted-by-prompt-{provenance}",
        kind="bar",
        title=_title_by_prompt(words, entries, many),
        subtitle=plain(
            words.t("포워드당 수용 토큰: 받아들인 토큰 ÷ 추측 횟수", "Accepted per forward: accepted tokens ÷ drafts")
        ),
        x=Axis(title=plain(words.t("프롬프트", "prompts")), digits=0),
        y=Axis(title=words.metric("accepted_per_forward"), from_zero=True, digits=PER_FORWARD.digits),
        lines=tuple(lines),
        provenance=provenance,
        alt=" ".join(_sentence(line) for line in lines),
        columns=("rank", "accepted_per_forward"),
    )


def _bar(words: Words, entry: Entry, prompts: str, rank: int, note: str) -> Point:
    quantity = entry.drafter.per_forward[prompts]
    low, high = entry.drafter.repeats.get(prompts, (None, None))
    label = plain(prompt_word(words, prompts)) if note else plain_label(entry.label, words)
    return Point(x=rank, y=quantity.value, low=low, high=high, ids=quantity.ids, label=label, note=note)


def _sentence(line: Line) -> str:
    values = ", ".join(f"{one.label} {PER_FORWARD.text(one.y or 0.0)}" for one in line.points)
    return f"{line.code} {line.name}: {values}."


def _title_by_prompt(words: Words, entries: Sequence[Entry], many: bool) -> Markup:
    least = chosen([one.drafter for one in entries], min)
    if many:
        return words.t("드래프터별 포워드당 수용 토큰", "What each drafter gets accepted per forward")
    if len(least) == 1 and len(least[0][1]) > 1:
        kinds = Markup("·").join(prompt_word(words, name) for name in least[0][0])
        return words.t(
            "모든 드래프터가 {kinds} 프롬프트에서 가장 적게 받아들여집니다",
            "Every drafter gets least accepted on {kinds} prompts",
            kinds=kinds,
        )
    if least:
        return words.t("받아들여지는 토큰은 프롬프트에 따라 다릅니다", "What is accepted depends on the prompt")
    return words.t("포워드 한 번에 받아들여진 토큰", "Tokens accepted in one forward")


def _by_position(words: Words, entries: Sequence[Entry], found: Sequence[PositionLine]) -> Chart:
    lines = []
    for place, entry in enumerate(entries):
        for one in found:
            if one.drafter is entry.drafter:
                points = tuple(_mark(at, one.ids) for at in one.rates)
                name = f"{plain_label(entry.label, words)} · {plain(prompt_word(words, one.prompts))}"
                lines.append(Line(code=entry.code, name=name, points=points, style=style(place)))
    positions = sorted({at.position for one in found for at in one.rates})
    provenance = entries[0].drafter["provenance"]
    rare = any(one.ends_rare for one in found)
    return Chart(
        id=f"acceptance-by-position-{provenance}",
        title=words.t("초안의 뒤쪽 위치까지 받아들여지는 일은 드뭅니다", "Late draft positions are rarely reached")
        if rare
        else words.t("초안의 위치별 수용률", "Acceptance by draft position"),
        subtitle=plain(
            words.t(
                "그 위치까지 모두 받아들여진 초안의 비율(%)",
                "Share of drafts accepted up to that position, %",
            )
        ),
        x=Axis(title=plain(words.t("초안의 위치", "draft position")), digits=0, ticks=tuple(map(float, positions))),
        y=Axis(title=plain(words.t("받아들여진 초안", "drafts accepted")), unit="%", from_zero=True, digits=1),
        lines=tuple(lines),
        provenance=provenance,
        alt=" ".join(_fall(words, line) for line in lines),
        columns=("position", "accepted_percent"),
    )


def _mark(at: AtPosition, ids: tuple[str, ...]) -> Point:
    low, high = (None if one is None else 100 * one for one in (at.low, at.high))
    return Point(x=at.position, y=100 * at.rate, low=low, high=high, ids=ids)


def _fall(words: Words, line: Line) -> str:
    first, last = line.points[0], line.points[-1]
    return plain(
        words.t(
            "{code} {name}: 위치 {a}에서 {b}%, 위치 {c}에서 {d}%.",
            "{code} {name}: {b}% at position {a}, {d}% at position {c}.",
            code=line.code,
            name=line.name,
            a=f"{first.x:.0f}",
            b=f"{first.y or 0:.1f}",
            c=f"{last.x:.0f}",
            d=f"{last.y or 0:.1f}",
        )
    )
