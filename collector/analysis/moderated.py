"""Variances from few repeats, each drawn towards what all of them say: Smyth's moderated variances.

Three repeats tell a variance badly: now and then it comes out far too small, and an effect looks significant. And one
variance for all would be wrong, since drafting scatters and plain decoding hardly does. In between: the variances of
a campaign are taken as drawn from a scaled inverse chi-square; how alike they are says how much weight the common
one gets, as so many degrees of freedom. (G. K. Smyth, Linear models and empirical Bayes methods for assessing
differential expression in microarray experiments, 2004, sections 3 and 6.2.)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, inf, log
from statistics import variance

from scipy.special import digamma, polygamma

#: Newton's steps towards an inverse trigamma double the digits each; from the start below, this many reach all.
_STEPS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """How far one effect scatters: the variance of the logarithm of its ratio, from one block to the next.

    The ratio of the means then has variance ÷ blocks. `starts` names the engine starts behind it: what was measured
    in the same starts is not independent.
    """

    variance: float
    blocks: float
    freedom: float
    starts: Hashable


@dataclass(frozen=True, kw_only=True, slots=True)
class Common:
    """What the spreads of a campaign say together. `freedom` is the weight of `variance`; `most` bounds the sum."""

    variance: float
    freedom: float
    most: float

    def of(self, own: Spread) -> tuple[float, float]:
        """Return the variance that an effect is judged by and its degrees of freedom."""
        known = own.freedom + self.freedom
        if self.freedom == inf:
            return self.variance, self.most
        return (self.freedom * self.variance + own.freedom * own.variance) / known, min(known, self.most)


def common(spreads: Sequence[Spread]) -> Common:
    """Return what these spreads say together. No spread that is exactly 0 has a say: it is no draw from a noise."""
    most = fsum(_freedoms(spreads).values())
    known = [one for one in spreads if one.variance > 0]
    if len(known) < 2:
        return Common(variance=0.0, freedom=0.0, most=most)
    logs = [log(one.variance) - float(digamma(one.freedom / 2)) + log(one.freedom / 2) for one in known]
    by_chance = fsum(float(polygamma(1, one.freedom / 2)) for one in known) / len(known)
    excess = variance(logs) - by_chance
    if excess <= 0:  # they differ no more than repeats of one variance do
        total = fsum(one.freedom for one in known)
        return Common(variance=fsum(one.freedom * one.variance for one in known) / total, freedom=inf, most=most)
    half = inverse_trigamma(excess)
    middle = fsum(logs) / len(logs) + float(digamma(half)) - log(half)
    return Common(variance=exp(middle), freedom=2 * half, most=most)


def _freedoms(spreads: Sequence[Spread]) -> Mapping[Hashable, float]:
    """Return the degrees of freedom of each set of starts, counted once however many stages ran in them."""
    found: dict[Hashable, float] = {}
    for one in spreads:
        found[one.starts] = max(one.freedom, found.get(one.starts, 0.0))
    return found


def inverse_trigamma(value: float) -> float:
    """Return x with trigamma(x) = value > 0; Newton on 1 ÷ trigamma, which is nearly straight (Smyth, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(_STEPS):
        there = float(polygamma(1, x))
        step = there * (1 - there / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-12 * x:
            break
    return x
