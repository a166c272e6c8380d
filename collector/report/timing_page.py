"""The page of what steps, latency and traffic are made of, pair by pair and cell by cell: too long for the article."""

from __future__ import annotations

from jinja2 import Environment

from collector.analysis.curves import OF_A_LOAD
from collector.analysis.mixed import MIXED_FROM_PERCENT
from collector.analysis.pairing import key
from collector.analysis.parts import TIMES, ends_of, link_noises, link_parts, waits
from collector.analysis.study import Study
from collector.analysis.taken_apart import factor_noises, moved_most, taken_apart
from collector.report.naming import row_labels
from collector.report.prompt_words import prompt_word
from collector.report.sections.parts.pair_labels import labels
from collector.report.words import Words


def timing_page(study: Study, words: Words, environment: Environment) -> str:
    """Return the page as Markdown."""
    found, pairs, apart = waits(study), link_parts(study), taken_apart(study)
    clear = [one for one in pairs if not one.mixed]
    names = row_labels([curve.record for curve, _ in found])
    return environment.get_template("timing.md.j2").render(
        study=study,
        apart=list(zip(labels([case.pair for case, _ in apart]), apart, strict=True)),
        moved=moved_most(apart),
        verification=ends_of(cell.predicted.verification for _, cells in apart for cell in cells if cell.predicted),
        lines=list(zip(names, found, strict=True)),
        loads=len({key(curve.record, OF_A_LOAD) for curve, _ in found}),
        links=list(zip(labels([one.pair for one in pairs]), pairs, strict=True)),
        prefill=ends_of(one.prefill for one in clear),
        decode=ends_of(one.decode for one in clear),
        noises=factor_noises(study),
        link_noises=link_noises(study, pairs),
        mixed=any(one.mixed for one in pairs),
        traffic=any(one.per_token for one in pairs),
        predicted=any(one.predicted for one in pairs),
        again=any(one.preempted for one in pairs),
        prompt=lambda name: prompt_word(words, name),
        TIMES=TIMES,
        MIXED_FROM_PERCENT=MIXED_FROM_PERCENT,
    )
