"""Verdicts, their effects and rules, and why nothing can be set: in words, for pages and command line."""

from __future__ import annotations

from collections.abc import Callable

from markupsafe import Markup

from collector.analysis.acceptance import ACCEPTS_NOTHING
from collector.analysis.noise import LEAST_EFFECT, NOISE_MULTIPLE
from collector.analysis.pairing import Factor
from collector.analysis.quantity import Quantity
from collector.analysis.recommend import Judged, Rule, Verdict
from collector.analysis.settings import Missing
from collector.report.words import Words

#: The metric that a factor's effect is printed as; speculation's is a ratio, the others' are gains in per cent.
_METRICS = {"kv_cache_dtype": "kv_gain", "nvlink": "nvlink_gain"}


def state(judged: Judged, words: Words) -> Markup:
    """Return a verdict on a factor: on, off, or from where to where."""
    yes, no = words.t("켬", "on"), words.t("끔", "off")
    if judged.pair.factor.name == "kv_cache_dtype":
        yes, no = words.name(judged.pair["kv_cache_dtype"]), words.name(judged.pair.factor.base)
    if judged.edge:
        low, high = (words.setting(at, "concurrency") for at in judged.edge)
        first, then = (yes, no) if judged.verdict == "up_to" else (no, yes)
        return words.t(
            "동시 {low}까지 {first}, {high}부터 {then}",
            "up to {low}: {first}, from {high}: {then}",
            low=low,
            high=high,
            first=first,
            then=then,
        )
    return {
        "use": yes,
        "avoid": no,
        "even": words.t("어느 쪽이든 같음", "either way"),
        "withheld": words.t("판단 보류", "withheld"),
    }.get(judged.verdict, words.t("동시 요청 수마다 다름", "depends on concurrency"))


def effect(ratio: Quantity, factor: Factor, words: Words) -> Markup:
    """Print an effect as its factor's effects are printed."""
    if factor.name in _METRICS:
        return words.fig(ratio.as_gain, _METRICS[factor.name], unit=True, sign=True)
    return words.t("{x}배", "{x}×", x=words.fig(ratio, "speculation_ratio"))


def absent(missing: Missing, words: Words) -> Markup:
    """Return why a load has no setting."""
    return {
        "alone": words.t(
            "구성을 하나만 재어 비교할 것이 없습니다. 추측을 켠 구성과 끈 구성을 모두 재야 합니다.",
            "Withheld: one configuration was measured, and nothing to compare it with. Measure it with and without "
            "speculation.",
        ),
        "too_slow": words.t(
            "잰 동시 요청 수에서는 목표를 지키는 곳이 없습니다.", "Withheld: no measured concurrency meets the target."
        ),
        "undecided": words.t(
            "p95가 든 구간이 목표에 걸쳐 있어 판단할 수 없습니다. 엔진 히스토그램의 경계를 목표로 고르십시오.",
            "Withheld: the bucket that holds p95 lies on both sides of the target. Choose a bound of the engine's "
            "histogram.",
        ),
        "no_p95": words.t("행에 TTFT의 p95가 없습니다.", "Withheld: the rows have no 95th percentile of TTFT."),
    }[missing]


def ruled(rule: Rule, words: Words) -> tuple[Markup, Markup]:
    """Return when a rule holds, with what then follows, and why it is a rule."""
    return _RULES[rule.verdict](words)


def _nothing(words: Words) -> Markup:
    return words.threshold(ACCEPTS_NOTHING, "analysis.acceptance.ACCEPTS_NOTHING")


_RULES: dict[Verdict, Callable[[Words], tuple[Markup, Markup]]] = {
    "unknown": lambda words: (
        words.t("비교한 값이 없으면 판단하지 않습니다.", "Nothing was compared: no verdict."),
        words.t(
            "한쪽만 잰 값, 검사를 통과하지 못한 행, 조건이 다른 쌍은 근거가 되지 못합니다.",
            "One side alone, rows that failed a check and pairs that are not alike prove nothing.",
        ),
    ),
    "withheld": lambda words: (
        words.t(
            "이득인 곳이 없고 수용률이 {x} 이하이면 보류합니다.",
            "No gain anywhere and an acceptance of {x} or less: withheld.",
            x=_nothing(words),
        ),
        words.t(
            "그 프롬프트에서는 드래프터가 한 일이 없어, 다른 글에서 어떨지 말해 주지 않습니다.",
            "The drafter did nothing on that prompt, which tells nothing about other text.",
        ),
    ),
    "even": lambda words: (
        words.t("모든 차이가 오차 안이면 어느 쪽이든 같습니다.", "Every difference within noise: either way."),
        words.t(
            "되풀이하면 뒤집힐 수 있는 차이를 보고 설정을 고르지 않습니다.",
            "A difference that a repeat may turn round is no reason for a setting.",
        ),
    ),
    "use": lambda words: (
        words.t("이득이 있고 손해인 곳이 없으면 켭니다.", "A gain and no loss anywhere: on."),
        words.t("잰 동시 요청 수 어디에서도 잃는 것이 없습니다.", "At no measured concurrency is anything lost by it."),
    ),
    "avoid": lambda words: (
        words.t("손해가 있고 이득인 곳이 없으면 끕니다.", "A loss and no gain anywhere: off."),
        words.t(
            "잰 동시 요청 수 어디에서도 얻는 것이 없습니다.", "At no measured concurrency is anything gained by it."
        ),
    ),
    "up_to": lambda words: (
        words.t(
            "모든 이득이 모든 손해보다 낮은 동시 요청 수에 있으면, 마지막 이득까지 켜고 첫 손해부터 끕니다.",
            "All gains at lower concurrency than all losses: on up to the last gain, off from the first loss.",
        ),
        words.t(
            "부하가 늘며 한 번 뒤집힌 것입니다. 그 사이는 재지 않았으므로 판단하지 않습니다.",
            "It turned once as load rose. What lies between was not decided, so nothing is said of it.",
        ),
    ),
    "from": lambda words: (
        words.t(
            "모든 손해가 모든 이득보다 낮은 동시 요청 수에 있으면, 첫 이득부터 켭니다.",
            "All losses at lower concurrency than all gains: on from the first gain.",
        ),
        words.t("같은 이유이며 방향만 반대입니다.", "The same reason, the other way round."),
    ),
    "mixed": lambda words: (
        words.t("그 밖에는 동시 요청 수마다 다릅니다.", "Otherwise it depends on concurrency."),
        words.t(
            "이득과 손해가 번갈아 나오면 하나의 경계로 말할 수 없습니다.",
            "Gains and losses that alternate have no single turning point.",
        ),
    ),
}


def limit(name: str, words: Words) -> Markup:
    """Return a constant that rules rest on, with what it is."""
    return {
        "analysis.noise.LEAST_EFFECT": words.t(
            "{x}% 이내의 차이는 효과로 보지 않음",
            "a difference of no more than {x}% is no effect",
            x=words.threshold(LEAST_EFFECT, name),
        ),
        "analysis.noise.NOISE_MULTIPLE": words.t(
            "한 번씩 잰 값의 차이는 가장 큰 재현 오차의 {x}배를 넘어야 함",
            "single measurements must differ by {x} times the largest repeat error",
            x=words.threshold(NOISE_MULTIPLE, name),
        ),
        "analysis.acceptance.ACCEPTS_NOTHING": words.t(
            "수용률 {x} 이하는 없는 것으로 봄", "an acceptance of {x} or less counts as none", x=_nothing(words)
        ),
    }[name]
