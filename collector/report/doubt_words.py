"""How sure a verdict is, and what would overturn it: in words, for pages and command line."""

from __future__ import annotations

from collections.abc import Callable

from markupsafe import Markup

from collector.analysis.doubts import Basis, Confidence, Doubt, Kind
from collector.analysis.pairing import Factor
from collector.analysis.quantity import Quantity
from collector.report.advice_words import effect
from collector.report.prompt_words import prompt_word
from collector.report.words import Words


def sureness(found: Confidence, words: Words) -> Markup:
    """Return what a verdict rests on."""
    told = _BASES[found.basis](found, words)
    if found.emulated:
        told += words.t(
            " 에뮬레이션이므로 실제 장비에 대해서는 아직 근거가 없습니다.",
            " Emulated: no evidence yet about real hardware.",
        )
    return told


_BASES: dict[Basis, Callable[[Confidence, Words], Markup]] = {
    "repeated": lambda found, words: words.t(
        "양쪽을 {n}번 이상 쟀고, 모든 배율을 함께 본 구간으로 판정했습니다.",
        "Both sides were measured {n} times or more, and judged by intervals that hold together.",
        n=words.count(found.repeats, "repeats"),
    ),
    "partly": lambda _, words: words.t(
        "일부만 되풀이해 쟀습니다. 나머지는 가장 큰 재현 오차와 비교했습니다.",
        "Only some were repeated; the others were held against the largest repeat error.",
    ),
    "once": lambda _, words: words.t(
        "한 번씩만 쟀습니다. 다른 셀에서 얻은 재현 오차와 비교했으며, 유의성은 말할 수 없습니다.",
        "Measured once each, held against the repeat error of other cells; nothing can be said about significance.",
    ),
    "unknown": lambda _, words: words.t(
        "한 번씩만 쟀고 재현 오차도 모릅니다.", "Measured once each, and the repeat error is not known."
    ),
    "printed": lambda _, words: words.t(
        "발표된 수치이며, 이 쌍의 퍼짐은 발표되지 않았습니다.",
        "Published figures; no spread was published for this pair.",
    ),
}


def overturn(doubt: Doubt, factor: Factor, words: Words) -> Markup:
    """Return what would overturn a verdict."""
    return _KINDS[doubt.kind](doubt, factor, words)


def _at(doubt: Doubt, words: Words) -> Markup:
    return Markup(", ").join(words.setting(at, "concurrency") for at in doubt.at)


def _tokens(quantity: Quantity | None, words: Words) -> Markup:
    return words.fig(quantity, "tokens_per_step") if quantity else Markup("–")


def _weakest(doubt: Doubt, factor: Factor, words: Words) -> Markup:
    return words.t(
        "판단을 혼자 좌우하는 효과 가운데 동시 {at}의 {x}가 오차에 가장 가깝습니다. 다시 재어 오차 안에 들면 판단이 "
        "바뀝니다.",
        "Of the effects that decide it alone, {x} at concurrency {at} is nearest to noise: a repeat within noise would "
        "change the verdict.",
        at=_at(doubt, words),
        x=effect(doubt.bound, factor, words) if doubt.bound else "–",
    )


def _strongest(doubt: Doubt, factor: Factor, words: Words) -> Markup:
    return words.t(
        "동시 {at}의 {x}가 효과에 가장 가깝습니다. 더 되풀이해 재어 오차를 넘으면 판단이 바뀝니다.",
        "Nearest to an effect is {x}, at concurrency {at}: repeats that put it beyond noise would change the verdict.",
        at=_at(doubt, words),
        x=effect(doubt.bound, factor, words) if doubt.bound else "–",
    )


def _between(doubt: Doubt, _: Factor, words: Words) -> Markup:
    low, high = (words.setting(at, "concurrency") for at in doubt.at)
    return words.t(
        "동시 {low}와 {high} 사이는 판정하지 못했습니다. 경계는 그 사이 어디든 될 수 있습니다.",
        "Between {low} and {high} nothing is decided: the turn may lie anywhere there.",
        low=low,
        high=high,
    )


def _tied(doubt: Doubt, _: Factor, words: Words) -> Markup:
    low, high, *tied = (words.setting(at, "concurrency") for at in doubt.at)
    return words.t(
        "동시 {low}와 {high} 사이의 {at}은 오차 안입니다. 더 되풀이해 재면 경계가 달라질 수 있습니다.",
        "Between {low} and {high}, {at} is within noise: more repeats there may move the turn.",
        low=low,
        high=high,
        at=Markup(", ").join(tied),
    )


def _yields(ko: str, en: str) -> Callable[[Doubt, Factor, Words], Markup]:
    def told(doubt: Doubt, _: Factor, words: Words) -> Markup:
        values = {"at": _at(doubt, words), "x": _tokens(doubt.bound, words), "now": _tokens(doubt.now, words)}
        return words.t(ko, en, **values)

    return told


_KINDS: dict[Kind, Callable[[Doubt, Factor, Words], Markup]] = {
    "emulated": lambda _, __, words: words.t(
        "같은 계획을 실제 장비에서 재면 달라질 수 있습니다.",
        "The same plan, measured on real hardware, may say otherwise.",
    ),
    "weakest": _weakest,
    "strongest": _strongest,
    "between": _between,
    "tied": _tied,
    "above": lambda doubt, _, words: words.t(
        "동시 {at}보다 높은 곳은 재지 않았습니다.", "Nothing was measured above {at}.", at=_at(doubt, words)
    ),
    "below": lambda doubt, _, words: words.t(
        "동시 {at}보다 낮은 곳은 재지 않았습니다.", "Nothing was measured below {at}.", at=_at(doubt, words)
    ),
    "yields_less": _yields(
        "동시 {at}에서 스텝당 토큰이 {x}보다 적어지면(잰 값 {now}) 이득이 손해가 됩니다.",
        "At concurrency {at}, fewer than {x} tokens a step (measured: {now}) would turn the gain into a loss.",
    ),
    "yields_more": _yields(
        "동시 {at}에서 스텝당 토큰이 {x}보다 많아지면(잰 값 {now}) 손해가 이득이 됩니다.",
        "At concurrency {at}, more than {x} tokens a step (measured: {now}) would turn the loss into a gain.",
    ),
    "prompts": lambda doubt, _, words: words.t(
        "수용률은 글에 달려 있습니다. 이 배율은 {name} 프롬프트의 것입니다.",
        "Acceptance depends on the text; these ratios are those of {name} prompts.",
        name=prompt_word(words, doubt.name),
    ),
    "unproved": lambda doubt, _, words: words.t(
        "빠진 측정: {name} 프롬프트에서는 받아들여진 초안이 없습니다. 일반 프롬프트에 부하를 걸어 켠 쪽과 끈 쪽을 "
        "모두 재야 판단할 수 있습니다.",
        "Missing: on {name} prompts no draft was accepted. General prompts under load, with and without speculation, "
        "would decide it.",
        name=prompt_word(words, doubt.name),
    ),
    "quality": lambda doubt, _, words: words.t(
        "출력 품질은 평가하지 않았습니다. {name}에서 답이 나빠지면 쓰지 말아야 합니다.",
        "Output quality was not evaluated: worse answers with {name} would settle it.",
        name=words.name(doubt.name),
    ),
}
