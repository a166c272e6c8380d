"""What to set, by rules that are data: the first rule that holds gives the verdict, and its rows prove it.

A rule looks at the ratios of one pair, each of them a gain, a loss or within noise (noise.Noise), and at how
many draft tokens were accepted. It knows nothing of models or of hardware.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from collector.analysis.acceptance import acceptance, acceptance_elsewhere, accepts_nothing
from collector.analysis.batching import Batching, batching
from collector.analysis.choosing import judging_of
from collector.analysis.compared import Pair
from collector.analysis.mixed import drafting, mixed_at
from collector.analysis.noise import Noise, noise_of
from collector.analysis.pairing import KV_CACHE, NVLINK, SPECULATION, Factor
from collector.analysis.panels import pairs_of, panels
from collector.analysis.quantity import Quantity
from collector.analysis.speculation import points_of
from collector.analysis.study import Study

#: up_to: use it up to a concurrency, not from a higher one on. from: the other way round.
Verdict = Literal["unknown", "withheld", "even", "use", "avoid", "up_to", "from", "mixed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """The concurrencies of a pair by what happened there, and the acceptance of its drafts here and elsewhere."""

    gains: tuple[int, ...] = ()
    losses: tuple[int, ...] = ()
    within_noise: tuple[int, ...] = ()
    too_small: tuple[int, ...] = ()  # of these, what is not known to be noise, but is too small to count
    mixed: tuple[int, ...] = ()  # left out: both sides' drafts were accepted too differently to compare
    acceptance: Quantity | None = None
    elsewhere: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A verdict and when it holds. `limits`: the constants that decide, by module and name."""

    verdict: Verdict
    holds: Callable[[Evidence], bool]
    limits: tuple[str, ...] = ()


#: What makes an effect a gain or a loss.
EFFECT = ("analysis.noise.LEAST_EFFECT", "analysis.noise.NOISE_MULTIPLE")


#: In this order: the first that holds is the verdict. The page prints them in the same order.
RULES: tuple[Rule, ...] = (
    Rule("unknown", lambda found: not (found.gains or found.losses or found.within_noise)),
    # A drafter that is never right on this prompt says nothing about other prompts.
    Rule(
        "withheld",
        lambda found: not found.gains and accepts_nothing(found.acceptance),
        (*EFFECT, "analysis.acceptance.ACCEPTS_NOTHING"),
    ),
    Rule("even", lambda found: not (found.gains or found.losses), EFFECT),
    Rule("use", lambda found: not found.losses, EFFECT),
    Rule("avoid", lambda found: not found.gains, EFFECT),
    Rule("up_to", lambda found: max(found.gains) < min(found.losses), EFFECT),
    Rule("from", lambda found: max(found.losses) < min(found.gains), EFFECT),
    Rule("mixed", lambda found: True, EFFECT),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A verdict on one pair. `edge`: the last concurrency before it turns and the first after it."""

    pair: Pair
    verdict: Verdict
    evidence: Evidence

    @property
    def edge(self) -> tuple[int, int] | None:
        if self.verdict == "up_to":
            return max(self.evidence.gains), min(self.evidence.losses)
        if self.verdict == "from":
            return max(self.evidence.losses), min(self.evidence.gains)
        return None

    @property
    def one_step(self) -> bool:
        """Return whether nothing lies between the ends of the edge."""
        return self.edge is not None and self.edge[1] - self.edge[0] == 1

    @property
    def least(self) -> Quantity:
        return min(self._ratios, key=lambda one: one.value)

    @property
    def most(self) -> Quantity:
        return max(self._ratios, key=lambda one: one.value)

    @property
    def _ratios(self) -> tuple[Quantity, ...]:
        return tuple(point.value for point in self.pair.measured if point.value and self.counts(point.concurrency))

    def counts(self, concurrency: int) -> bool:
        return concurrency not in self.evidence.mixed

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the rows, or figures, that prove it."""
        return tuple(dict.fromkeys(name for ratio in self._ratios for name in (*ratio.ids, *ratio.base)))

    @property
    def once(self) -> bool:
        """Whether one side of some point was measured only once."""
        return any(ratio.low is None for ratio in self._ratios)


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """A configuration that never started and so cannot be recommended."""

    kv_cache_dtype: str | None
    speculation: str | None
    num_speculative_tokens: int | None
    category: str
    failure_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """What the study says about one model."""

    model: str
    speculation: tuple[Judged, ...]
    kv_cache: tuple[Judged, ...]
    nvlink: tuple[Judged, ...]
    batching: Batching | None
    refusals: tuple[Refusal, ...]

    @property
    def judged(self) -> tuple[Judged, ...]:
        return (*self.speculation, *self.kv_cache, *self.nvlink)


def advice(study: Study) -> tuple[Noise, tuple[Advice, ...]]:
    """Return what counts as noise and the advice for each model, in the order of their names."""
    noise = noise_of(study)
    judging = judging_of(study, noise)
    found = {factor.name: panels(study.pairs(factor)) for factor in (SPECULATION, KV_CACHE, NVLINK)}

    def verdicts(model: str, factor: Factor) -> tuple[Judged, ...]:
        judgements = (judged(study, pair, noise) for pair in pairs_of(model, found[factor.name]))
        return tuple(one for one in judgements if one.verdict != "unknown")

    models = sorted({pair["model"] for group in found.values() for panel in group for pair in panel.pairs})
    return noise, tuple(
        Advice(
            model=model,
            speculation=verdicts(model, SPECULATION),
            kv_cache=verdicts(model, KV_CACHE),
            nvlink=verdicts(model, NVLINK),
            batching=batching(study, model, noise, judging),
            refusals=refusals(study, model),
        )
        for model in models
    )


def judged(study: Study, pair: Pair, noise: Noise) -> Judged:
    """Return the verdict of the first rule that holds for a pair."""
    speculating = pair.factor is SPECULATION
    mixed = () if speculating else mixed_at(pair, drafting(study, pair, noise))
    known = [one for one in points_of(pair, noise) if one.concurrency not in mixed]
    evidence = Evidence(
        gains=tuple(one.concurrency for one in known if one.side > 0),
        losses=tuple(one.concurrency for one in known if one.side < 0),
        within_noise=tuple(one.concurrency for one in known if one.side == 0),
        too_small=tuple(one.concurrency for one in known if one.side == 0 and not one.within),
        mixed=mixed,
        acceptance=acceptance(study, pair) if speculating else None,
        elsewhere=acceptance_elsewhere(study, pair) if speculating else None,
    )
    return Judged(pair=pair, verdict=verdict_of(evidence), evidence=evidence)


def verdict_of(evidence: Evidence) -> Verdict:
    return next(rule.verdict for rule in RULES if rule.holds(evidence))


def refusals(study: Study, model: str) -> tuple[Refusal, ...]:
    """Return the configurations of a model that gave a failure and no row, one a way and dtype."""
    found: dict[tuple[str | None, str | None, int | None, str], list[str]] = {}
    started = {row.configuration_id for row in study.rows}
    for one in study.failures:
        if one.model == model and one.configuration_id not in started:
            way = (one.kv_cache_dtype, one.speculation, one.num_speculative_tokens, one.category)
            found.setdefault(way, []).append(one.failure_id)
    for printed in study.published_failures:
        of = printed.labels
        if of.model == model:
            known = (of.kv_cache_dtype, of.speculation, of.num_speculative_tokens, printed.category)
            found.setdefault(known, []).append(printed.failure_id)
    return tuple(
        Refusal(
            kv_cache_dtype=dtype,
            speculation=method,
            num_speculative_tokens=k,
            category=category,
            failure_ids=tuple(ids),
        )
        for (dtype, method, k, category), ids in found.items()
    )
