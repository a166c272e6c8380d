"""What ratios do by concurrency, in words of both languages."""

from __future__ import annotations

from markupsafe import Markup

from collector.report.words import Words

#: Best first: the order of lists.
ORDER = ("gain", "no_loss", "even", "falls", "mixed", "rises", "no_gain", "loss")

_LONG = {
    "gain": ("비교한 모든 동시 요청 수에서 이득", "a gain at every concurrency compared"),
    "no_loss": (
        "비교한 모든 동시 요청 수에서 이득이거나 오차를 넘는 차이 없음",
        "a gain, or no difference beyond noise, at every concurrency compared",
    ),
    "even": (
        "비교한 모든 동시 요청 수에서 오차를 넘는 차이 없음",
        "no difference beyond noise at any concurrency compared",
    ),
    "no_gain": (
        "비교한 모든 동시 요청 수에서 손해이거나 오차를 넘는 차이 없음",
        "a loss, or no difference beyond noise, at every concurrency compared",
    ),
    "loss": ("비교한 모든 동시 요청 수에서 손해", "a loss at every concurrency compared"),
    "falls": ("동시 요청이 늘면 이득에서 손해로 바뀜", "a gain that turns into a loss as concurrency grows"),
    "rises": ("동시 요청이 늘면 손해에서 이득으로 바뀜", "a loss that turns into a gain as concurrency grows"),
    "mixed": ("동시 요청 수에 따라 이득과 손해가 엇갈림", "a gain at some concurrencies, a loss at others"),
}
_SHORT = {
    "gain": ("모두 이득", "gain throughout"),
    "no_loss": ("이득이거나 차이 없음", "gain or even"),
    "even": ("차이 없음", "no difference"),
    "no_gain": ("손해이거나 차이 없음", "loss or even"),
    "loss": ("모두 손해", "loss throughout"),
    "falls": ("이득에서 손해로", "from gain to loss"),
    "rises": ("손해에서 이득으로", "from loss to gain"),
    "mixed": ("이득과 손해가 엇갈림", "gain here, loss there"),
}


def outcome(name: str, words: Words) -> Markup:
    return words.t(*_LONG[name])


def short_outcome(name: str, words: Words) -> Markup:
    """Return the outcome as the few words that fit a title."""
    return words.t(*_SHORT[name])


def rank(name: str) -> int:
    return ORDER.index(name)
