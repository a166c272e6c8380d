"""Why a gain turns into a loss: what a step yields against what it costs, and two explanations of the cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collector.analysis.hypotheses import FLAT_BELOW, KV_FULL_PERCENT, RISES_FROM, judged
from collector.analysis.noise import noise_of
from collector.analysis.pairing import NVLINK
from collector.analysis.predicted import predicted
from collector.analysis.printed_steps import printed_cases
from collector.analysis.step_time import Case, cases_of, leading, moved
from collector.analysis.study import Study
from collector.analysis.taken_apart import factor_noises
from collector.report.naming import conditions
from collector.report.sections.parts.conditions import conditions as printed_conditions
from collector.report.sections.parts.pair_labels import labels
from collector.report.sections.parts.step_chart import CaseLines, step_chart
from collector.report.words import Words

#: Pairs in the chart, each with two lines.
MOST_CHARTED = 3
#: Losses of other models that get a sentence of their own.
MOST_OTHERS = 2


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return what the section's template is rendered from."""
    judging = noise_of(study)
    found = printed_cases(study) if study.is_published else cases_of(study.basis, study.failures, judging)
    leads = leading(found)
    main = leads[0] if leads else None
    leads = [one for one in leads if one.load == leads[0].load]
    shown = _shown(found, main)
    lines = _named(shown)
    contrast = _contrast(leads, main)
    noises = factor_noises(study)
    return {
        "main": lines[0] if lines else None,
        "noises": noises,
        "predicted": predicted(main.telling, study.profile) if main and main.telling else None,
        "moved": moved(main) if main else None,
        "others": _of_other_models([one for one in lines if one.case in leads])[:MOST_OTHERS],
        "contrast": _named([contrast])[0] if contrast else None,
        "chart": step_chart(_named(_charted(leads, contrast)), noises["decode"], words),
        "thresholds": {"rises": f"{RISES_FROM:g}", "flat": f"{FLAT_BELOW:g}", "full": f"{KV_FULL_PERCENT:g}"},
        "conditions": _conditions(study, main, words),
        "printed_drafter": study.figures_of("drafter_parameters", model=main.pair["model"])[:1] if main else [],
    }


def _conditions(study: Study, main: Case | None, words: Words) -> Sequence[str]:
    if study.is_published or main is None:
        return printed_conditions(study, words)
    return conditions([row for part in main.parts for row in (*part.rows_on, *part.rows_off)], words)


def _named(found: Sequence[Case]) -> list[CaseLines]:
    names = labels([one.pair for one in found], _follow(found))
    return [CaseLines(case=one, label=name, judged=tuple(judged(one))) for one, name in zip(found, names, strict=True)]


def _shown(found: Sequence[Case], main: Case | None) -> list[Case]:
    """Return the case that the section is about, then the other losses that can be taken apart."""
    if main is None:
        return []
    others = [one for one in found if one is not main and one.loses and one.known] if main.loses else []
    return [main, *others]


def _follow(found: Sequence[Case]) -> tuple[str, ...]:
    """Return the columns that a label need not show, since they change with NVLink and only with it."""
    settings = {(one.pair["nvlink"], *(one.pair[name] for name in NVLINK.follows)) for one in found}
    return NVLINK.follows if len(settings) == len({nvlink for nvlink, *_ in settings}) else ()


def _of_other_models(found: Sequence[CaseLines]) -> list[CaseLines]:
    """Return the first loss of each model but the first: the sentences name a model once."""
    first: dict[str, CaseLines] = {}
    for one in found:
        first.setdefault(one.label.model, one)
    return list(first.values())[1:]


def _contrast(leads: Sequence[Case], main: Case | None) -> Case | None:
    """Return the best gain where the main pair loses most: what it does otherwise is a clue."""
    if main is None or not main.loses or not main.telling:
        return None
    at = main.telling.concurrency
    gains = [(part, one) for one in leads if not one.loses for part in one.parts if part.concurrency == at]
    told = [(part.decode.value, one) for part, one in gains if part.complete and part.decode and part.decode.value > 1]
    return max(told, key=lambda gain: gain[0], default=(0.0, None))[1]


def _charted(leads: Sequence[Case], contrast: Case | None) -> list[Case]:
    """Return the pairs that turn, or the first one where none does, and the gain beside them."""
    able = [one for one in leads if any(part.complete for part in one.parts)]
    turning = [one for one in able if one.turns] or able[:1]
    beside = [contrast] if contrast else []
    return [*turning[: MOST_CHARTED - len(beside)], *beside]
