"""Setup and method: what all measurements of a study have in common."""

from __future__ import annotations

from typing import Any

from collector.analysis.study import Study
from collector.report.facts import facts, host_facts
from collector.report.words import Words

PRINTED = "setup"


def section(study: Study, words: Words) -> dict[str, Any]:
    """Return the facts of rows and host, and the printed ones of a published study."""
    return {
        "facts": [*facts(study.records), *host_facts(study.host_text)],
        "printed": [one for one in study.figures if one.section == PRINTED],
    }
