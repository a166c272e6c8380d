"""The page of what to paste: settings as commands and files, and for each verdict how sure it is and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment
from markupsafe import Markup

from collector.analysis import recommend
from collector.analysis.doubts import confidence, doubts
from collector.analysis.noise import Noise
from collector.analysis.recommend import Judged
from collector.analysis.settings import loads, withheld
from collector.analysis.study import Study
from collector.report.advice_words import absent, effect, limit, ruled, state
from collector.report.doubt_words import overturn, sureness
from collector.report.evidence import FILES
from collector.report.prompt_words import prompt_word
from collector.report.sections.parts.pair_labels import labels
from collector.report.setting_files import COMMAND, COMPOSE, CONFIG, command_of, hardware, path_of, setting_files
from collector.report.setting_words import notes, when
from collector.report.tables import Label
from collector.report.words import Words

FOLDER = f"{FILES}/settings"
ENDINGS = (COMMAND, COMPOSE, CONFIG)


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """A verdict in words."""

    judged: Judged
    label: Label
    state: Markup
    effects: tuple[Markup, ...]
    sureness: Markup
    doubts: tuple[Markup, ...]


def settings_page(study: Study, words: Words, environment: Environment) -> dict[str, str]:
    """Return the page as Markdown and its files, by path within the study's folder."""
    noise, advice = recommend.advice(study)
    found = loads(study, noise)
    models = sorted({one.model for one in advice} | {one.model for one in found})
    page = environment.get_template("settings.md.j2").render(
        study=study,
        models=[
            (
                model,
                [one for one in found if one.model == model],
                [told for one in advice if one.model == model for told in _told(study, one.judged, noise, words)],
            )
            for model in models
        ],
        withheld=lambda load: sorted({one.pair.speculation for one in withheld(load, advice)}),
        absent=lambda load: absent(load.missing, words),
        rules=[(rule, *ruled(rule, words)) for rule in recommend.RULES],
        limits={rule.verdict: [limit(name, words) for name in rule.limits] for rule in recommend.RULES},
        when=lambda load, one: when(load, one, words),
        notes=lambda one: notes(one, words),
        prompt=lambda name: prompt_word(words, name),
        shown=command_of,
        hardware=hardware,
        path=lambda setting: f"{FOLDER}/{path_of(setting)}",
        endings=ENDINGS,
    )
    return {"settings.md": page} | {f"{FOLDER}/{name}": text for name, text in setting_files(found).items()}


def _told(study: Study, judged: Sequence[Judged], noise: Noise, words: Words) -> list[Told]:
    shown = labels([one.pair for one in judged])
    found = []
    for one, label in zip(judged, shown, strict=True):
        factor = one.pair.factor
        found.append(
            Told(
                judged=one,
                label=label,
                state=state(one, words),
                effects=tuple(dict.fromkeys(effect(end, factor, words) for end in (one.least, one.most))),
                sureness=sureness(confidence(one, noise), words),
                doubts=tuple(overturn(each, factor, words) for each in doubts(study, one, noise)),
            )
        )
    return found
