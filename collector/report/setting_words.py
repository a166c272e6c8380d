"""When a setting is the one to paste, and what qualifies it: one wording for article, page, files and command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from markupsafe import Markup

from collector.analysis.settings import Limit, Load, Setting
from collector.report.words import Words


def when(load: Load, one: Setting, words: Words) -> Markup:
    """Return the load that a setting is for."""
    measured = load.compared
    if one.suggested:
        return words.t("동시 요청 수를 가리지 않음", "For any concurrency")
    if one.target is None and len(measured) > 1 and one.concurrencies == measured:
        low, high = (words.setting(end, "concurrency") for end in (measured[0], measured[-1]))
        if one.varying:
            return words.t("부하가 오르내릴 때(동시 {a}~{b})", "For a load that varies ({a} to {b})", a=low, b=high)
        return words.t("동시 {a}~{b} 어느 부하에나", "For any load from {a} to {b}", a=low, b=high)
    return words.t("동시 {at}", "At concurrency {at}", at=_listed(one.concurrencies, words))


def notes(one: Setting, words: Words) -> list[Markup]:
    """Return what qualifies a setting, a sentence each."""
    found = []
    if one.varying and one.varying.worst:
        ends = (one.varying.choices[0].concurrency, one.varying.choices[-1].concurrency, one.varying.worst_at)
        low, high, at = (words.setting(end, "concurrency") for end in ends)
        found.append(
            words.t(
                "동시 {low}~{high}를 오가는 부하라면 모든 곳에서 잰 구성 가운데 이것이 가장 덜 잃습니다. 가장 나쁠 때"
                "(동시 {at})도 그곳에서 가장 빠른 구성의 {x}배입니다.",
                "For a load that varies from {low} to {high} it loses least of those measured throughout: at its worst "
                "(at {at}) it is {x}× the fastest there.",
                low=low,
                high=high,
                at=at,
                x=words.fig(one.varying.worst, "throughput_ratio"),
            )
        )
    if one.limit:
        found.append(_LIMITS[one.limit](words, words.setting(one.serving.option("max-num-seqs"), "concurrency")))
    if one.suggested:
        found.append(_prediction(one, words))
    return found


_LIMITS: dict[Limit, Callable[[Words, Markup], Markup]] = {
    "other": lambda words, most: words.t(
        "그보다 많은 요청에서는 다른 구성을 골랐으므로 동시 시퀀스를 {n}개로 제한했습니다"
        "(<code>--max-num-seqs</code>). 이 상한으로는 재지 않았습니다.",
        "Beyond that another one was chosen, so <code>--max-num-seqs</code> {n} limits the sequences; not measured at "
        "this limit.",
        n=most,
    ),
    "no_gain": lambda words, most: words.t(
        "그보다 많이 받아도 처리량이 늘지 않아 동시 시퀀스를 {n}개로 제한했습니다(<code>--max-num-seqs</code>). 이 "
        "상한으로는 재지 않았습니다.",
        "More sequences gain no throughput, so <code>--max-num-seqs</code> {n} limits them; not measured at this "
        "limit.",
        n=most,
    ),
    "target": lambda words, most: words.t(
        "목표를 지키도록 동시 시퀀스를 {n}개로 제한했습니다(<code>--max-num-seqs</code>). 이 상한으로는 "
        "재지 않았습니다.",
        "<code>--max-num-seqs</code> {n} limits the sequences to what meets the target; not measured at this limit.",
        n=most,
    ),
}


def _prediction(one: Setting, words: Words) -> Markup:
    told = words.t(
        "잰 스케줄이 아닙니다. 배율이 뒤집히는 곳에서 k를 바꾸며, 쓰기 전에 재야 합니다(<code>collector next</code>).",
        "This schedule was not measured. It changes k where the ratios turn; measure it before use "
        "(<code>collector next</code>).",
    )
    return told + turns(one.suggested.open if one.suggested else (), words)


def turns(found: Iterable[tuple[int, int]], words: Words) -> Markup:
    """Return where a schedule turns, as far as that is known; nothing where every turn is between neighbours."""
    told = Markup(", ").join(
        words.t("{a}~{b}", "{a} and {b}", a=words.setting(a, "concurrency"), b=words.setting(b, "concurrency"))
        for a, b in found
    )
    if not told:
        return Markup()
    return words.t(
        " 뒤집히는 지점은 동시 {at} 사이 어딘가로만 알려져 있고, 스케줄의 값은 그 사이를 어림한 것입니다.",
        " Where they turn is only known to lie between {at}; the batch size in it is an estimate.",
        at=told,
    )


def _listed(numbers: Iterable[int], words: Words) -> Markup:
    return Markup(", ").join(words.setting(one, "concurrency") for one in numbers)
