"""How many sequences to run at once: what the last step of concurrency brings, and what it costs a request.

And which measured configuration of a model was fastest at a concurrency: its own columns are the flags to use.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from collector.analysis.compared import Pair
from collector.analysis.figures import Labels
from collector.analysis.latency import Bucket, Within, bucket_of, within
from collector.analysis.noise import Noise
from collector.analysis.pairing import KV_CACHE, OFF
from collector.analysis.quantity import Quantity, mean_of, printed, printed_gain, usable
from collector.analysis.repeats import THROUGHPUT
from collector.analysis.steps import ratio_between
from collector.analysis.study import Study
from collector.core.rows import Row

TTFT = "ttft_mean_s"

#: A printed change of throughput names its concurrencies, as in throughput_change_c16_to_c32.
_CHANGE = re.compile(r"throughput_change_c(\d+)_to_c(\d+)")

#: What the stages of one load share; concurrency is what varies.
LOAD = ("provenance", "prompt_set", "prompt_set_digest", "output_tokens", "window_method", "nvlink")


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The configuration to run at one concurrency; its row holds the flags."""

    concurrency: int
    row: Row
    throughput: Quantity
    considered: int  # configurations that were measured there

    def arguments(self, most: int | None = None) -> tuple[tuple[str, str], ...]:
        """Return the flags that this study chooses between, as the row has them; `most` lowers max_num_seqs."""
        row = self.row
        found = {
            "--kv-cache-dtype": row.kv_cache_dtype,
            "--speculative-config": row.speculative_config,
            "--max-num-seqs": row.max_num_seqs if most is None else most,
        }
        return tuple((flag, str(value)) for flag, value in found.items() if value is not None)


def choices(study: Study, model: str, like: Pair | None, noise: Noise) -> tuple[Choice, ...]:
    """Return what to run at the lowest and at the highest concurrency of a model's main load.

    The fastest; but a plainer one (speculation off, then the engine's own KV dtype) where the fastest is ahead of
    it by no more than noise. Empty for published figures: they hold no flags.
    """
    rows = [row for row in _load(study, model, like) if row.system_throughput_tok_s]
    measured = sorted({row.concurrency for row in rows})
    ends = dict.fromkeys((measured[0], measured[-1])) if measured else {}
    return tuple(choice([row for row in rows if row.concurrency == at], noise) for at in ends)


def choice(rows: Iterable[Row], noise: Noise) -> Choice:
    """Return what to run among rows of one concurrency under one load; there must be one with a throughput."""
    arms: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        arms[row.configuration_id].append(row)
    means = {name: found for name, own in arms.items() if (found := mean_of(own, THROUGHPUT))}
    best = max(means, key=lambda name: (means[name].value, name))
    near = [name for name in means if noise.side(ratio_between(means[best], means[name])) <= 0]
    chosen = min(near, key=lambda name: (_extras(arms[name][0]), -means[name].value, name))
    row = arms[chosen][0]
    return Choice(concurrency=row.concurrency, row=row, throughput=means[chosen], considered=len(arms))


def _extras(row: Row) -> tuple[bool, bool]:
    return row.speculation != OFF, row.kv_cache_dtype != KV_CACHE.base


def _load(study: Study, model: str, like: Pair | None) -> list[Row]:
    """Return the comparable rows of a model under the load of a pair, or all of them where it has no pair."""
    own = [row for row in usable(study.basis, THROUGHPUT) if row.model == model]
    if like is None:
        return own
    return [row for row in own if all(getattr(row, name) == like[name] for name in LOAD)]


def batching(study: Study, model: str, like: Pair | None, noise: Noise) -> Batching | None:
    """Return how the configuration chosen for the highest concurrency fares at each; None with one concurrency."""
    if study.is_published:
        return _printed(study, model, noise)
    chosen = choices(study, model, like, noise)
    if not chosen:
        return None
    row = chosen[-1].row
    by_stage: dict[int, list[Row]] = defaultdict(list)
    for one in _load(study, model, like):
        if one.configuration_id == row.configuration_id:
            by_stage[one.concurrency].append(one)
    means = {at: found for at, rows in sorted(by_stage.items()) if (found := mean_of(rows, THROUGHPUT))}
    if len(means) < 2:
        return None
    low, high = tuple(means)[-2:]
    ratio = ratio_between(means[high], means[low])
    return Batching(
        labels=Labels(**{name: getattr(row, name) for name in ("model", *_WAY)}),
        stages=tuple(
            Stage(concurrency=at, throughput=means[at], ttft=mean_of(by_stage[at], TTFT), p95=bucket_of(by_stage[at]))
            for at in means
        ),
        low=low,
        high=high,
        change=ratio.as_gain,
        pays=noise.side(ratio) > 0,
    )


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
