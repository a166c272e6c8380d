"""KV cache dtype: its gain by concurrency, the backends on both sides, and what the engine refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from collector.analysis.kv_cache import OF_DTYPE, ROOM_BELOW_PERCENT, Effect, effects, plain, refused, without_ratio
from collector.analysis.mixed import MIXED_FROM_PERCENT
from collector.analysis.noise import Noise, noise_of
from collector.analysis.pairing import KV_CACHE
from collector.analysis.speculation import verdict
from collector.analysis.study import Study
from collector.report.chart import Axis, Chart, Even, Line, Point, code, style
from collector.report.sections.parts.conditions import conditions
from collector.report.sections.parts.names import LISTED, pair_labels
from collector.report.sections.parts.outcomes import outcome
from collector.report.sections.parts.pair_labels import plain_label
from collector.report.tables import Label
from collector.report.words import Words
from collector.report.words import plain as bare

#: Backends that vLLM 0.27.0 refuses fp8_e5m2 with below compute capability 9.0, by its source.
REFUSING_FP8 = ("FLASH_ATTN",)
DTYPES_REFUSED = ("fp8_e5m2",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A comparison as the page shows it; what did not vary is not in its label."""

    code: str
    label: Label
    effect: Effect
    outcome: str

    @property
    def dtype(self) -> str:
        return self.effect.with_it.dtype


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return the comparisons of dtypes alone, the others, and the starts that failed."""
    found = effects(study)
    shown = plain(found)
    noise = noise_of(study)
    main = _entries(shown, noise)
    others = _entries([one for one in found if one not in shown], noise, first=len(main))
    failed = refused(study)
    gains = [one for one in main if one.outcome in ("gain", "no_loss")]
    return {
        "main": main,
        "noise": noise,
        "others": others,
        "gaining": gains,
        "uniform": _uniform({one.outcome for one in main}),
        "grows": bool(main) and all(one.effect.trend == "grows" for one in main),
        "dtypes": list(dict.fromkeys(one.dtype for one in main)),
        "backends": [one for one in main if one.effect.backends_differ],
        "unknown": [one for one in main if one.effect.backends_differ is None],
        "modes": [one for one in main if one.effect.without.graph_modes != one.effect.with_it.graph_modes],
        "roomy": [one for one in gains if one.effect.without.room],
        "crowded": [one for one in gains if one.effect.without.room is False],
        "doubtful": study.is_published and _doubtful(main),
        "refused": [one for one in failed if one.category == OF_DTYPE],
        "failed": [one for one in failed if one.category != OF_DTYPE],
        "unmatched": without_ratio(study),
        "base": KV_CACHE.base,
        "outcome": lambda name: outcome(name, words),
        "charts": [_chart(words, members) for members in _by_provenance(main)],
        "conditions": conditions(study, words, main[0].effect.pair if main else None),
        "LISTED": LISTED,
        "MIXED_FROM_PERCENT": MIXED_FROM_PERCENT,
        "ROOM_BELOW_PERCENT": ROOM_BELOW_PERCENT,
    }


def _entries(found: Sequence[Effect], noise: Noise, first: int = 0) -> list[Entry]:
    """A line has the same code in chart and table; the dtype is told apart from the label."""
    names = pair_labels([one.pair for one in found], left_out=("kv_cache_dtype",))
    told = ((one, label, verdict(one.pair, noise)) for one, label in zip(found, names, strict=True))
    return [
        Entry(code=code(first + place), label=label, effect=one, outcome=judged.outcome if judged else "even")
        for place, (one, label, judged) in enumerate(told)
    ]


def _uniform(outcomes: set[str]) -> str | None:
    """Return what all of them do, as closely as one outcome says it."""
    wider = ({"gain", "no_loss"}, "no_loss"), ({"loss", "no_gain"}, "no_gain")
    alike = (said for members, said in wider if outcomes <= members)
    return next(iter(outcomes)) if len(outcomes) == 1 else next(alike, None) if outcomes else None


def _doubtful(entries: Sequence[Entry]) -> list[Entry]:
    """Return the comparisons whose printed backend does not take the dtype in the engine's own source."""
    return [
        one
        for one in entries
        if one.dtype in DTYPES_REFUSED and any(name in REFUSING_FP8 for name in one.effect.with_it.backends)
    ]


def _by_provenance(entries: Sequence[Entry]) -> list[list[Entry]]:
    names = dict.fromkeys(one.effect.pair["provenance"] for one in entries)
    return [[one for one in entries if one.effect.pair["provenance"] == name] for name in names]


def _chart(words: Words, entries: Sequence[Entry]) -> Chart:
    several = len({one.dtype for one in entries}) > 1
    lines = []
    for place, one in enumerate(entries):
        name = plain_label(one.label, words) + (f" · {one.dtype}" if several else "")
        lines.append(Line(code=one.code, name=name, points=_points(one.effect), style=style(place)))
    stages = sorted({float(point.x) for line in lines for point in line.points})
    provenance = entries[0].effect.pair["provenance"]
    dtypes = Markup(", ").join(words.name(name) for name in dict.fromkeys(one.dtype for one in entries))
    return Chart(
        id=f"kv-gain-{provenance}",
        title=_title(words, entries, dtypes),
        subtitle=words.t(
            "{dtypes} KV를 쓸 때 시스템 처리량의 변화({base} 대비, %)",
            "Change of system throughput with a {dtypes} KV cache, against {base}, %",
            dtypes=dtypes,
            base=KV_CACHE.base,
        ),
        x=Axis(title=bare(words.t("동시 요청 수", "concurrency")), scale="log2", digits=0, ticks=tuple(stages)),
        y=Axis(title=bare(words.t("이득", "gain")), unit="%", digits=1),
        lines=tuple(lines),
        provenance=provenance,
        alt=" ".join(_sentence(words, line) for line in lines),
        columns=("concurrency", "gain_percent"),
        even=Even(
            value=0.0,
            above=bare(words.t("{dtypes}가 빠름", "{dtypes} is faster", dtypes=dtypes)),
            below=bare(words.t("{base}가 빠름", "{base} is faster", base=KV_CACHE.base)),
        ),
    )


def _points(effect: Effect) -> tuple[Point, ...]:
    found = []
    for point in effect.pair.points:
        gain = point.value.as_gain if point.value else None
        found.append(
            Point(
                x=point.concurrency,
                y=gain.value if gain else None,
                low=gain.low if gain else None,
                high=gain.high if gain else None,
                ids=(*gain.ids, *gain.base) if gain else (),
            )
        )
    return tuple(found)


def _title(words: Words, entries: Sequence[Entry], dtypes: Markup) -> Markup:
    outcomes = {one.outcome for one in entries}
    if outcomes <= {"gain", "no_loss"} and all(one.effect.trend == "grows" for one in entries):
        return words.t(
            "{dtypes} KV의 이득은 동시 요청이 많을수록 커집니다",
            "The gain of {dtypes} KV grows with concurrency",
            dtypes=dtypes,
        )
    if outcomes <= {"gain", "no_loss"}:
        return words.t("{dtypes} KV는 처리량을 높입니다", "{dtypes} KV raises the throughput", dtypes=dtypes)
    if outcomes <= {"loss", "no_gain"}:
        return words.t("{dtypes} KV는 처리량을 낮춥니다", "{dtypes} KV lowers the throughput", dtypes=dtypes)
    return words.t(
        "{dtypes} KV의 이득은 구성에 따라 다릅니다",
        "What {dtypes} KV gains differs by configuration",
        dtypes=dtypes,
    )


def _sentence(words: Words, line: Line) -> str:
    texts = (
        bare(words.t("동시 {c}에서 {y}%", "{y}% at {c}", c=f"{one.x:.0f}", y=f"{one.y:+.1f}"))
        for one in line.points
        if one.y is not None
    )
    return f"{line.code} {line.name}: {', '.join(texts)}."
