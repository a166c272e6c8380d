"""How many sequences to run at once: what the last step of concurrency brings, and what it costs a request."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from collector.analysis.choosing import Judging, choose, compared_rows, main_load
from collector.analysis.compared import THROUGHPUT
from collector.analysis.figures import Labels
from collector.analysis.latency import Bucket, Within, bucket_of, within
from collector.analysis.noise import Noise
from collector.analysis.quantity import Quantity, mean_of, printed, printed_gain, usable
from collector.analysis.steps import ratio_between
from collector.analysis.study import Study
from collector.core.rows import Row

TTFT = "ttft_mean_s"

#: A printed change of throughput names its concurrencies, as in throughput_change_c16_to_c32.
_CHANGE = re.compile(r"throughput_change_c(\d+)_to_c(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """One concurrency of a configuration. None is what a published study does not print, or an engine not expose."""

    concurrency: int
    throughput: Quantity | None
    ttft: Quantity | None  # s, mean
    p95: Bucket | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Batching:
    """A configuration by concurrency. `change` is that of throughput from `low` to `high`, in per cent."""

    labels: Labels
    stages: tuple[Stage, ...]
    low: int
    high: int
    change: Quantity
    pays: bool  # whether the change is a gain above noise

    @property
    def most(self) -> int | None:
        """Return the concurrency above which throughput gains nothing; None where it still does at the highest."""
        return None if self.pays else self.low

    def at(self, concurrency: int) -> Stage | None:
        return next((stage for stage in self.stages if stage.concurrency == concurrency), None)

    def within(self, seconds: float) -> Within:
        """Return up to which measured concurrency the 95th percentile of TTFT stays within this many seconds."""
        return within(((stage.concurrency, stage.p95) for stage in self.stages), seconds)


def batching(study: Study, model: str, noise: Noise, judging: Judging) -> Batching | None:
    """Return how the configuration chosen for the highest concurrency fares at each; None with one concurrency."""
    if study.is_published:
        return _printed(study, model, noise)
    rows = main_load(study, model)
    chosen = choose(compared_rows(rows) or rows, judging)
    if not chosen:
        return None
    row = chosen[-1].row
    own = [one for one in rows if one.configuration_id == row.configuration_id]
    step = last_step(own, noise)
    if step is None:
        return None
    by_stage = by_concurrency(own)
    return Batching(
        labels=Labels(**{name: getattr(row, name) for name in ("model", *_WAY)}),
        stages=tuple(
            Stage(
                concurrency=at,
                throughput=mean_of(one, THROUGHPUT),
                ttft=mean_of(one, TTFT),
                p95=bucket_of(one),
            )
            for at, one in by_stage.items()
        ),
        low=step.low,
        high=step.high,
        change=step.change,
        pays=step.pays,
    )


@dataclass(frozen=True, slots=True)
class LastStep:
    """The change of throughput, in per cent, between the two highest concurrencies of a configuration."""

    low: int
    high: int
    change: Quantity
    pays: bool  # whether it is a gain above noise


def last_step(own: Iterable[Row], noise: Noise) -> LastStep | None:
    """Return what the highest concurrency of a configuration under one load brings; None with one concurrency."""
    means = {at: found for at, rows in by_concurrency(own).items() if (found := mean_of(rows, THROUGHPUT))}
    if len(means) < 2:
        return None
    low, high = tuple(means)[-2:]
    ratio = ratio_between(means[high], means[low])
    return LastStep(low, high, ratio.as_gain, pays=noise.side(ratio) > 0)


def by_concurrency(own: Iterable[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in usable(own, THROUGHPUT):
        found[row.concurrency].append(row)
    return {at: found[at] for at in sorted(found)}


_WAY = ("kv_cache_dtype", "speculation", "num_speculative_tokens", "nvlink", "prompt_set", "series")


def _printed(study: Study, model: str, noise: Noise) -> Batching | None:
    """Return a printed change of throughput; TTFT was printed for all configurations together only."""
    for figure in study.figures:
        named = _CHANGE.fullmatch(figure.metric)
        if named and figure.labels.model == model and figure.section == "recommendations":
            low, high = (int(one) for one in named.groups())
            return Batching(
                labels=figure.labels,
                stages=(),
                low=low,
                high=high,
                change=printed(figure),
                pays=noise.side(printed_gain(figure)) > 0,
            )
    return None
