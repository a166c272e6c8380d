"""The sections of an article, in its order. Each turns a study into what its template is rendered from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from collector.analysis.study import Study
from collector.report.sections import (
    asked,
    causes,
    drafters,
    energy,
    failures,
    interconnect,
    kv_cache,
    latency,
    prompts,
    recommendations,
    scope,
    setup,
    speculation,
    summary,
    windows,
)
from collector.report.words import Words

Section = Callable[[Study, Words], Mapping[str, Any]]

#: Name of a section's template, in the order of the page.
SECTIONS: dict[str, Section] = {
    "summary": summary.section,
    "setup": setup.section,
    "speculation": speculation.section,
    "causes": causes.section,
    "drafters": drafters.section,
    "asked": asked.section,
    "prompts": prompts.section,
    "kv_cache": kv_cache.section,
    "interconnect": interconnect.section,
    "latency": latency.section,
    "windows": windows.section,
    "energy": energy.section,
    "failures": failures.section,
    "recommendations": recommendations.section,
    "scope": scope.section,
}
