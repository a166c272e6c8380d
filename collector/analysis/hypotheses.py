"""Why a step takes longer under speculation: two explanations, each judged by rules over what the rows say.

contention: verifying k + 1 positions a request costs arithmetic that an idle GPU has to spare and a full batch has
not. kv_capacity: the drafter's weights leave less room for the KV cache, so requests wait or are preempted.

The rules are data: the first whose columns are there and whose test holds decides. A rule that lacks a column is
passed over, and what it lacks is named if none decides. Demand against capacity decides only together with what was
seen: capacity in tokens is stated for requests of the longest length, and short ones of a model with a sliding window
take more room a token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from collector.analysis.formula import formula_of
from collector.analysis.quantity import Quantity, least_of, mean_of, most_of
from collector.analysis.step_time import Case, Part

Name = Literal["contention", "kv_capacity"]
Outcome = Literal["supported", "excluded", "undecided"]

#: Repeats of one configuration were published to differ by up to 2.3 %: a ratio that grew by less than twice that
#: between two concurrencies, each with two sides, has not moved.
FLAT_BELOW = 1.05
#: A step-time ratio that grew by this factor, far beyond any repeat error, has risen with concurrency.
RISES_FROM = 1.25
#: The sampled peak of KV usage is a lower bound of the true one; from here on the cache may have been full. Below, it
#: is full for whoever waits where what is free holds no further prompt.
KV_FULL_PERCENT = 90

#: NVML's utilisation is the share of time with any kernel running: below this the GPU waits for something else.
IDLE_BELOW_PERCENT = 50
#: A GPU that computes more per step draws no less power. This far below, the time goes elsewhere (to a link, to memory
#: that the host backs).
POWER_LOW_BELOW = 0.8

#: Positions that the engine verified in one of its steps, on the mean: as counted, not at most. Drafts, and the one at
#: which each request stands in each of its steps, drafted or not.
VERIFIED = "(draft_tokens+(generation_tokens-requests_done)/tokens_per_step)/decode_steps"
#: Tokens that the requests of a full batch hold at their end.
DEMAND = "concurrency*(prompt_tokens_mean+output_tokens)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What the rows of one concurrency say; None is not known. Of repeats the worst counts."""

    lowest: bool  # the concurrency that the others are held against
    step_rise: float | None  # step-time ratio here ÷ at the lowest concurrency of the pair
    positions_per_step: Quantity | None
    preemptions_on: Quantity | None
    preemptions_off: Quantity | None
    verified: Quantity | None  # positions in one engine step, as counted
    verified_rise: float | None  # of these, here ÷ at the lowest concurrency
    utilisation_on: Quantity | None
    power_on: Quantity | None
    power_off: Quantity | None
    waiting_on: Quantity | None
    waiting_off: Quantity | None
    kv_usage_on: Quantity | None
    kv_usage_off: Quantity | None
    capacity_on: Quantity | None
    capacity_off: Quantity | None
    demand: Quantity | None
    prompt: Quantity | None  # tokens, the mean


@dataclass(frozen=True, slots=True)
class Rule:
    """A test over facts that are all there, and what it decides. `extra`: it is no gap if they are not there."""

    name: str
    outcome: Outcome
    needs: tuple[str, ...]
    holds: Callable[[Facts], bool]
    extra: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What the rules say of one hypothesis at one concurrency. `rule` is None where none could decide."""

    hypothesis: Name
    outcome: Outcome
    rule: str | None
    missing: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()  # facts that would have been looked at before it decided, had they been there


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One concurrency of a pair, its facts and both judgements."""

    part: Part
    facts: Facts
    contention: Judgement
    kv_capacity: Judgement


def _value(quantity: Quantity | None) -> float:
    """Return a value that a rule's `needs` has asked for."""
    if quantity is None:
        raise ValueError("a rule read a fact that it does not need")
    return quantity.value


def _rise(rise: float | None) -> float:
    if rise is None:
        raise ValueError("a rule read a fact that it does not need")
    return rise


def _full(facts: Facts) -> bool:
    usage = _value(facts.kv_usage_on)
    no_further = (
        facts.capacity_on is not None
        and facts.prompt is not None
        and (1 - usage) * facts.capacity_on.value < facts.prompt.value
    )
    return 100 * usage >= KV_FULL_PERCENT or no_further


RULES: dict[Name, tuple[Rule, ...]] = {
    "contention": (
        Rule("lowest", "undecided", (), lambda f: f.lowest),
        # What is verified in a step must grow for its arithmetic to grow.
        Rule("as_many", "excluded", ("verified_rise",), lambda f: _rise(f.verified_rise) < FLAT_BELOW, extra=True),
        Rule("flat", "excluded", ("step_rise",), lambda f: _rise(f.step_rise) < FLAT_BELOW),
        Rule(
            "idle",
            "excluded",
            ("utilisation_on",),
            lambda f: 100 * _value(f.utilisation_on) < IDLE_BELOW_PERCENT,
            extra=True,
        ),
        Rule(
            "low_power",
            "undecided",
            ("power_on", "power_off"),
            lambda f: _value(f.power_on) < POWER_LOW_BELOW * _value(f.power_off),
            extra=True,
        ),
        # The time between two steps of a request holds the gap in which it was preempted.
        Rule("preempted", "undecided", ("preemptions_on",), lambda f: _value(f.preemptions_on) > 0),
        Rule("rises", "supported", ("step_rise", "preemptions_on"), lambda f: _rise(f.step_rise) >= RISES_FROM),
        Rule("between", "undecided", ("step_rise", "preemptions_on"), lambda _: True),
    ),
    "kv_capacity": (
        Rule(
            "no_pressure",
            "excluded",
            ("preemptions_on", "kv_usage_on"),
            lambda f: _value(f.preemptions_on) == 0 and not _full(f),
        ),
        Rule(
            "only_with_it",
            "supported",
            ("preemptions_on", "preemptions_off"),
            lambda f: _value(f.preemptions_on) > 0 and _value(f.preemptions_off) == 0,
        ),
        Rule(
            "both_preempt",
            "undecided",
            ("preemptions_on", "preemptions_off"),
            lambda f: _value(f.preemptions_on) > 0 and _value(f.preemptions_off) > 0,
        ),
        Rule(
            "short_with_it",
            "supported",
            ("preemptions_on", "kv_usage_on", "waiting_on", "demand", "capacity_on", "capacity_off"),
            lambda f: (
                _value(f.preemptions_on) == 0
                and _full(f)
                and _value(f.waiting_on) > 0
                and _value(f.capacity_on) < _value(f.demand) <= _value(f.capacity_off)
            ),
            extra=True,
        ),
        Rule(
            "fits",
            "excluded",
            ("preemptions_on", "waiting_on", "demand", "capacity_on"),
            lambda f: (
                f.kv_usage_on is None
                and _value(f.preemptions_on) == 0
                and _value(f.waiting_on) == 0
                and _value(f.demand) <= _value(f.capacity_on)
            ),
            extra=True,
        ),
        Rule(
            "full",
            "undecided",
            ("preemptions_on", "kv_usage_on"),
            lambda f: _value(f.preemptions_on) == 0 and _full(f),
        ),
    ),
}


def judged(case: Case) -> list[Judged]:
    """Return both judgements for every concurrency of a pair of which anything is known."""
    first = next((part for part in case.parts if part.step), None)
    found = []
    for part in case.parts:
        if part.point.ratio is not None or part.decode:
            facts = _facts(part, first)
            contention, kv = (judgement(name, facts) for name in RULES)
            found.append(Judged(part=part, facts=facts, contention=contention, kv_capacity=kv))
    return found


def judgement(hypothesis: Name, facts: Facts) -> Judgement:
    """Apply the rules of a hypothesis: the first that can be tested and holds decides."""
    missing, absent = dict[str, None](), dict[str, None]()
    for rule in RULES[hypothesis]:
        lacking = [name for name in rule.needs if getattr(facts, name) is None]
        (absent if rule.extra else missing).update(dict.fromkeys(lacking))
        if not lacking and rule.holds(facts):
            return Judgement(hypothesis=hypothesis, outcome=rule.outcome, rule=rule.name, absent=tuple(absent))
    return Judgement(hypothesis=hypothesis, outcome="undecided", rule=None, missing=tuple(missing))


def _facts(part: Part, first: Part | None) -> Facts:
    """`first` is the part at the lowest concurrency that has a step-time ratio."""
    on, off = part.rows_on, part.rows_off
    verified, before = formula_of(on, VERIFIED), formula_of(first.rows_on, VERIFIED) if first else None
    return Facts(
        lowest=part is first,
        step_rise=part.step.value / first.step.value if part.step and first and first.step else None,
        positions_per_step=part.positions_per_step,
        verified=verified,
        verified_rise=verified.value / before.value if verified and before and before.value else None,
        utilisation_on=most_of(on, "gpu_utilisation_mean"),
        power_on=least_of(on, "power_mean_w"),
        power_off=least_of(off, "power_mean_w"),
        preemptions_on=most_of(on, "preemptions"),
        preemptions_off=most_of(off, "preemptions"),
        waiting_on=most_of(on, "waiting_peak"),
        waiting_off=most_of(off, "waiting_peak"),
        kv_usage_on=most_of(on, "kv_usage_peak"),
        kv_usage_off=most_of(off, "kv_usage_peak"),
        capacity_on=least_of(on, "kv_cache_tokens"),
        capacity_off=least_of(off, "kv_cache_tokens"),
        demand=formula_of(on, DEMAND),
        prompt=mean_of(on, "prompt_tokens_mean"),
    )
