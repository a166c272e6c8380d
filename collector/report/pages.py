"""Campaigns to pages: path to Markdown text, for one language. Pure: reads and writes nothing.

The words stand in templates/, Korean and English side by side; here is what the words are put around.
"""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import BaseLoader

from collector.analysis.study import PUBLISHED, Study
from collector.report.article import article
from collector.report.cells import cells_page
from collector.report.dictionary import dictionary
from collector.report.downloads import data_page
from collector.report.environment import environment as plain_environment
from collector.report.environment import strict_environment
from collector.report.home import home
from collector.report.published import published_page
from collector.report.published_files import Published
from collector.report.reference_pages import reference_pages
from collector.report.settings_page import settings_page
from collector.report.timing_page import timing_page
from collector.report.words import Words

#: A campaign is a study of rows.
Campaign = Study


def pages(
    campaigns: Sequence[Campaign], loader: BaseLoader, language: str, published: Published | None = None
) -> dict[str, str]:
    """Return every page of one language."""
    environment = plain_environment(loader, language)
    listed = sorted(campaigns, key=lambda campaign: campaign.name)
    found = {"dictionary.md": environment.get_template("dictionary.md.j2").render(**dictionary(language))}
    records = [(one.name, one.rows, one.failures, one.positions) for one in listed]
    compared = published_page(published, records, language)
    found["published.md"] = environment.get_template("published.md.j2").render(**compared)
    strict, words = strict_environment(loader, language), Words(language)
    studies = (*listed, *([published_study(published)] if published else []))
    found |= home(studies, words, strict)
    for study in studies:
        own = article(study, words, strict)
        if study.is_published:
            own["cells.md"] = strict.get_template("figures.md.j2").render(study=study)
        elif study.records:
            own["cells.md"] = cells_page(study, words, strict)
        if study.rows:
            own["timing.md"] = timing_page(study, words, strict)
        own |= settings_page(study, words, strict)
        own["data.md"] = data_page(study, words, strict, own)
        found |= {f"campaigns/{study.name}/{name}": text for name, text in own.items()}
    return found | reference_pages(studies, published, words, strict)


def published_study(published: Published) -> Study:
    """Return the figures published elsewhere as a study."""
    return Study(
        name=PUBLISHED,
        figures=published.figures,
        published_failures=published.failures,
        files=tuple(one.name for one in published.tables),
        tables=published.tables,
    )
