"""What to set: verdicts by rule, their conditions, and the flags of the rows that they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collector.analysis import acceptance, noise, recommend, schedule
from collector.analysis.latency import TTFT_TARGETS_S
from collector.analysis.quantity import Quantity
from collector.analysis.recommend import Advice, Judged
from collector.analysis.settings import Load, Setting, loads, main_of
from collector.analysis.study import Study
from collector.core.rows import Row
from collector.core.serving import option_lines
from collector.core.speculative import WITHOUT_FORWARD
from collector.report.prompt_words import prompt_word
from collector.report.sections.parts.conditions import conditions, spread_note
from collector.report.sections.parts.pair_labels import labels, ordered
from collector.report.setting_words import notes, turns, when
from collector.report.tables import Label, label_of
from collector.report.words import Words

PROMPTS = "prompt_set"
#: With more models than this each one's advice is folded away; the table of all verdicts stays.
OPEN_MODELS = 6
#: Predicted schedules that are printed.
MOST_SCHEDULES = 3
#: What tells one setting of a model from another beside a schedule.
SETTING = ("kv_cache_dtype", "prompt_set")
#: Options that a study chooses between; the settings page has the whole command.
CHOSEN = ("kv-cache-dtype", "max-num-seqs", "attention-backend", "speculative-config", "disable-custom-all-reduce")


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """A verdict with the label of what was compared, and the backends of both sides where they differ."""

    label: Label
    judged: Judged
    backends: tuple[str, str] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Verdicts of one factor that say the same for the same reason."""

    told: tuple[Told, ...]

    @property
    def first(self) -> Told:
        return self.told[0]

    @property
    def ways(self) -> dict[Label, list[str]]:
        """Return the ways that differ in more than their prompts, each with its prompts where those vary."""
        found: dict[Label, list[str]] = {}
        for one in self.told:
            varying = dict(one.label.varying)
            prompts = varying.pop(PROMPTS, None)
            way = replace(one.label, varying=tuple(varying.items()))
            found.setdefault(way, []).extend([prompts] if prompts else [])
        return found

    @property
    def least(self) -> Quantity:
        return min((one.judged.least for one in self.told), key=lambda one: one.value)

    @property
    def most(self) -> Quantity:
        return max((one.judged.most for one in self.told), key=lambda one: one.value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Flags:
    """A setting with the flags of its command that a study chooses between."""

    setting: Setting
    label: Label
    text: str

    @property
    def has_variable(self) -> bool:
        return "${" in self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """The advice for one model as the page shows it."""

    advice: Advice
    speculation: tuple[Group, ...]
    kv_cache: tuple[Group, ...]
    nvlink: tuple[Group, ...]
    batching: Label | None
    load: Load | None  # that the flags are for: the one compared at the most concurrencies
    others: int  # loads of this model that have settings of their own
    flags: tuple[Flags, ...]
    predicted: tuple[Flags, ...]  # with a schedule that nobody has measured
    conditions: tuple[str, ...]

    @property
    def told(self) -> tuple[tuple[str, Told], ...]:
        return tuple(
            (name, one)
            for name, found in (("speculation", self.speculation), ("kv_cache", self.kv_cache), ("nvlink", self.nvlink))
            for group in found
            for one in group.told
        )


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return what the section's template is rendered from."""
    known, found = recommend.advice(study)
    shown = cards(study, found, loads(study, known), words)
    scheduled = schedule.measured(study)
    return {
        "noise": known,
        "cards": shown,
        "open": len(shown) <= OPEN_MODELS,
        "concurrencies": sorted({stage.concurrency for one in found if one.batching for stage in one.batching.stages}),
        "timed": [one for one in shown if one.advice.batching and one.advice.batching.stages],
        "ttft": [figure for name in ("ttft_min", "ttft_max") for figure in study.figures_of(name)],
        "limits": limits(),
        "scheduled": [(label_of(one.pair, SETTING), one) for one in scheduled],
        "pure_noise": schedule.pure_noise(scheduled, known),
        "chosen": any(card.flags for card in shown),
        "suggested": [(card, flags) for card in shown for flags in card.predicted][:MOST_SCHEDULES],
        "without_forward": WITHOUT_FORWARD,
        "when": lambda load, one: when(load, one, words),
        "notes": lambda one: notes(one, words),
        "turns": lambda one: turns(one.open, words),
        "prompt": lambda name: prompt_word(words, name),
    }


def cards(study: Study, found: Iterable[Advice], every: Sequence[Load], words: Words) -> tuple[Card, ...]:
    """Return the advice of each model with its labels, conditions and flags."""
    rows = {row.row_id: row for row in study.rows}
    return tuple(_card(study, one, [load for load in every if load.model == one.model], rows, words) for one in found)


def limits() -> dict[str, Any]:
    """Return the thresholds of the rules, by the names under which a page prints them."""
    return {
        "analysis.noise.LEAST_EFFECT": noise.LEAST_EFFECT,
        "analysis.noise.LEAST_REPEATS": noise.LEAST_REPEATS,
        "analysis.noise.NOISE_MULTIPLE": noise.NOISE_MULTIPLE,
        "analysis.noise.UNKNOWN_ERROR": noise.UNKNOWN_ERROR,
        "analysis.acceptance.ACCEPTS_NOTHING": acceptance.ACCEPTS_NOTHING,
        "analysis.latency.TTFT_TARGETS_S": TTFT_TARGETS_S,
    }


def _card(study: Study, found: Advice, every: Sequence[Load], rows: Mapping[str, Row], words: Words) -> Card:
    load = main_of(every)
    flags = _flags(load) if load else ()
    pairs = [one.pair for one in found.judged]
    note = (spread_note(study, pairs, words),) if pairs else ()
    return Card(
        advice=found,
        speculation=_told(found.speculation, rows),
        kv_cache=_told(found.kv_cache, rows),
        nvlink=_told(found.nvlink, rows),
        batching=_label_of_batching(found),
        load=load,
        others=sum(bool(one.settings) for one in every) - bool(load),
        flags=tuple(one for one in flags if not one.setting.suggested),
        predicted=tuple(one for one in flags if one.setting.suggested),
        conditions=(*conditions(study, words, pairs, found.model), *note),
    )


def _told(found: Sequence[Judged], rows: Mapping[str, Row]) -> tuple[Group, ...]:
    by_pair = {id(one.pair): one for one in found}
    pairs = ordered(one.pair for one in by_pair.values())
    grouped: dict[Any, list[Told]] = {}
    for pair, label in zip(pairs, labels(pairs), strict=True):
        one = by_pair[id(pair)]
        told = Told(label=label, judged=one, backends=_backends(one, rows))
        accepted = one.evidence.acceptance.value if one.verdict == "withheld" and one.evidence.acceptance else None
        same = (one.verdict, one.edge, one.evidence.within_noise, one.evidence.mixed, told.backends, accepted)
        grouped.setdefault(same, []).append(told)
    return tuple(Group(told=tuple(own)) for own in grouped.values())


def _backends(judged: Judged, rows: Mapping[str, Row]) -> tuple[str, str] | None:
    """Return the attention backends without and with the factor, where they are not the same."""
    points = [point for point in judged.pair.measured if judged.counts(point.concurrency)]
    off = _backends_of((name for point in points for name in point.row_ids_off), rows)
    on = _backends_of((name for point in points for name in point.row_ids_on), rows)
    return (off, on) if off and on and off != on else None


def _backends_of(ids: Iterable[str], rows: Mapping[str, Row]) -> str:
    return ", ".join(sorted({row.attention_backend or "" for name in ids if (row := rows.get(name))} - {""}))


def _label_of_batching(found: Advice) -> Label | None:
    if found.batching is None:
        return None
    of = found.batching.labels
    varying = (("kv_cache_dtype", of.kv_cache_dtype),) if of.kv_cache_dtype else ()
    return Label(model=found.model, speculation=of.speculation or "", k=of.num_speculative_tokens, varying=varying)


def _flags(load: Load) -> tuple[Flags, ...]:
    """Return the settings of a load with the lines of their commands."""
    return tuple(
        Flags(
            setting=one,
            label=label_of(one.row, ("kv_cache_dtype",)),
            text=" \\\n".join(option_lines(one.serving, CHOSEN)),
        )
        for one in load.settings
    )
