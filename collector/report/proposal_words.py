"""Why a measurement is proposed, what it is and what it costs, in words; the command line shows them in English."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from markupsafe import Markup

from collector.analysis.proposal import Kind, Proposal
from collector.core.speculative import k_at
from collector.report.prompt_words import prompt_word
from collector.report.setting_words import turns
from collector.report.tables import Label, label_of
from collector.report.words import Words

#: What tells one setting of a model from another, in a sentence.
SETTING = ("series", "kv_cache_dtype", "nvlink")


def label(one: Proposal) -> Label:
    return label_of(one.pair, [name for name in SETTING if one.pair.get(name) not in (None, "main")])


def reason(one: Proposal, words: Words) -> Markup:
    """Return what to measure and what it would decide."""
    return _REASONS[one.kind](one, words)


def minutes(one: Proposal, words: Words) -> Markup:
    """Return the cost, with where it is from."""
    source = {
        "rows": words.t("이 캠페인의 시작 시간과 처리량으로 계산", "from this campaign's own starts and windows"),
        "estimate": words.t("계획의 어림값", "the plan's estimate"),
        "both": words.t("이 캠페인의 값과 계획의 어림값으로 계산", "from this campaign and the plan's estimate"),
    }[one.cost.source]
    return words.t(
        "약 {m}분(엔진 시작 {n}회, {source})",
        "about {m} min (engine starts: {n}, {source})",
        m=words.count(max(1, round(one.cost.minutes)), "minutes"),
        n=words.count(one.cost.starts, "starts"),
        source=source,
    )


def _at(concurrencies: Iterable[int], words: Words) -> Markup:
    """Return concurrencies that no row has yet: how many requests, not a setting of the data."""
    return Markup(", ").join(words.count(at, "requests") for at in concurrencies)


def _prompts(names: Iterable[str], words: Words) -> Markup:
    return Markup(", ").join(prompt_word(words, name) for name in names)


def _withheld(one: Proposal, words: Words) -> Markup:
    return words.t(
        "판단 보류: {own} 프롬프트의 수용률이 {x}로, 드래프터가 한 일이 없습니다. {sets} 프롬프트로 동시 {at}에서 "
        "켠 것과 끈 것을 재면 실제 글에서 이득인지 알 수 있습니다.",
        "Verdict withheld: on {own} prompts acceptance is {x}, so the drafter did nothing. Measuring {sets} prompts "
        "with and without it at concurrency {at} tells whether it pays on real text.",
        own=_prompts([one.pair["prompt_set"]], words),
        x=words.fig(one.value, "acceptance_rate") if one.value else "–",
        sets=_prompts(one.prompt_sets, words),
        at=_at(one.concurrencies, words),
    )


def _partner(one: Proposal, words: Words) -> Markup:
    return words.t(
        "짝이 없음: {sets} 프롬프트, 동시 {at}은 한쪽만 재어 배율이 없습니다. 다른 쪽({way})을 재면 배율이 나옵니다.",
        "No partner: {sets} prompts at concurrency {at} were measured on one side only. Measuring the other ({way}) "
        "gives the ratio.",
        sets=_prompts(one.prompt_sets, words),
        at=_at(one.concurrencies, words),
        way=words.name(one.cells[0].configuration.label),
    )


def _bracket(one: Proposal, words: Words) -> Markup:
    low, high = one.bracket or (0, 0)
    return words.t(
        "손익분기점: {own} 프롬프트에서 동시 {low}–{high} 구간 어딘가에서 이득과 손해가 바뀝니다. "
        "동시 {at}에서 켠 것과 끈 것을 재면 구간이 좁혀집니다.",
        "Break-even: on {own} prompts gain and loss change places somewhere between concurrency {low} and {high}. "
        "Measuring {at} with and without narrows it.",
        own=_prompts([one.pair["prompt_set"]], words),
        low=words.setting(low, "concurrency"),
        high=words.setting(high, "concurrency"),
        at=_at(one.concurrencies, words),
    )


def _repeat(one: Proposal, words: Words) -> Markup:
    what = {
        "speculation": words.t("추측 디코딩", "speculation"),
        "kv_cache_dtype": words.t("KV 자료형", "the KV dtype"),
        "nvlink": words.t("NVLink", "NVLink"),
    }[one.pair.factor.name]
    return words.t(
        "반복: {own} 프롬프트, 동시 {at}에서 {what}의 효과 {x}는 오차로 보는 ±{noise}%에 가깝습니다. 세 번씩 재면 "
        "오차인지 효과인지 갈립니다.",
        "Repeat: on {own} prompts at concurrency {at} the effect of {what}, {x}, is near the ±{noise}% that counts as "
        "noise. Three measurements of each side tell which it is.",
        own=_prompts([one.pair["prompt_set"]], words),
        at=_at(one.concurrencies, words),
        what=what,
        x=words.fig(one.value, "change", unit=True, sign=True) if one.value else "–",
        noise=words.count(round(one.noise or 0), "noise"),
    )


def _schedule(one: Proposal, words: Words) -> Markup:
    return words.t(
        "스케줄: {ranges}. {own} 프롬프트의 배율에서 나온 예측이며, "
        "<code>k=0</code>의 비용(드래프터의 첫 포워드는 그때도 돕니다)은 동시 {at}에서 재어야 압니다.",
        "Schedule: {ranges}. A prediction from the ratios on {own} prompts; what <code>k=0</code> costs (a "
        "drafter's first forward runs even then) has to be measured, at concurrency {at}.",
        ranges=ranges_text(one.ranges, words),
        own=_prompts([one.pair["prompt_set"]], words),
        at=_at(one.concurrencies, words),
    ) + turns(one.turns, words)


def _acceptance(one: Proposal, words: Words) -> Markup:
    return words.t(
        "손익분기 수용: {own} 프롬프트, 동시 {at}에서 손해를 면하려면 적어도 스텝당 {x}토큰이 나와야 합니다. 엔진에 "
        "그만큼만 받아들이게 하고(synthetic) 재면 계산이 맞는지 확인됩니다.",
        "Break-even acceptance: on {own} prompts at concurrency {at} speculation needs at least {x} tokens a step to "
        "pay. Having the engine accept just so many (synthetic) shows whether that holds.",
        own=_prompts([one.pair["prompt_set"]], words),
        at=_at(one.concurrencies, words),
        x=words.fig(one.value, "tokens_per_step") if one.value else "–",
    )


def ranges_text(ranges: Iterable[tuple[int, int, int]], words: Words) -> Markup:
    """Return a schedule as a person reads it: k by batch size."""
    found = tuple(ranges)
    parts = []
    for first, last, _ in found:
        ends = (first,) if first == last else (first, last)
        span = Markup("–").join(words.count(end, "requests") for end in ends)
        k = words.count(k_at(found, first), "tokens")
        parts.append(words.t("배치 {span}: k={k}", "batch {span}: k={k}", span=span, k=k))
    return Markup(", ").join(parts)


_REASONS: dict[Kind, Callable[[Proposal, Words], Markup]] = {
    "withheld": _withheld,
    "partner": _partner,
    "bracket": _bracket,
    "repeat": _repeat,
    "schedule": _schedule,
    "acceptance": _acceptance,
}
