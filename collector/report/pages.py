"""Campaigns to pages: path to Markdown text, for one language. Pure: reads and writes nothing.

The words stand in templates/, Korean and English side by side; here is what the words are put around.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined
from markupsafe import Markup

from collector.analysis.pairing import sortable
from collector.analysis.speculation import OFF, Pair, Verdict, pairs, verdict
from collector.core.failures import CATEGORIES
from collector.core.rows import PROVENANCES, Failure, Position, Row
from collector.core.units import METRICS, SPECULATION_RATIO, fixed, unit_name
from collector.report import charts, tables
from collector.report.dictionary import dictionary
from collector.report.facts import facts
from collector.report.published import published_page
from collector.report.published_files import Published
from collector.report.text import one_line, preformatted

LANGUAGES = ("ko", "en")

#: A chart holds what lies on one pair of axes: other prompts, lengths or links get a chart of their own.
PANEL_COLUMNS = ("provenance", "prompt_set", "prompt_set_digest", "output_tokens", "window_method", "nvlink")


@dataclass(frozen=True, kw_only=True, slots=True)
class Campaign:
    """A folder under data/, read."""

    name: str
    rows: tuple[Row, ...]
    failures: tuple[Failure, ...]
    positions: tuple[Position, ...]
    plan_text: str | None
    host_text: str | None

    @property
    def records(self) -> tuple[Row | Failure, ...]:
        return (*self.rows, *self.failures)

    @property
    def provenances(self) -> tuple[str, ...]:
        found = {one.provenance for one in self.records}
        return tuple(one for one in PROVENANCES if one in found) + tuple(sorted(found - set(PROVENANCES)))

    @property
    def dates(self) -> tuple[str, str] | None:
        """First and last day on which something was measured or failed."""
        times = [row.measured_at for row in self.rows] + [failure.failed_at for failure in self.failures]
        return (min(times)[:10], max(times)[:10]) if times else None


@dataclass(frozen=True, kw_only=True, slots=True)
class PairLine:
    """A pair as a page shows it: its code and line style tie chart, legend and table together."""

    code: str
    style: charts.Style
    label: tables.Label
    pair: Pair
    verdict: Verdict | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """Pairs that share a chart and a table. `outcomes` groups those with a verdict."""

    number: int
    setting: tuple[tuple[str, str], ...]
    provenance: str
    lines: tuple[PairLine, ...]
    outcomes: dict[str, tuple[PairLine, ...]]
    drawings: tuple[charts.Drawing, ...]

    @property
    def judged(self) -> tuple[PairLine, ...]:
        return tuple(line for line in self.lines if line.verdict)

    @property
    def repeated(self) -> bool:
        """Whether any point has a spread."""
        return any(point.low is not None for line in self.lines for point in line.pair.points)


def pages(
    campaigns: Sequence[Campaign], loader: BaseLoader, language: str, published: Published | None = None
) -> dict[str, str]:
    """Return every page of one language."""
    environment = _environment(loader, language)
    listed = sorted(campaigns, key=lambda campaign: campaign.name)
    found = {
        "index.md": environment.get_template("index.md.j2").render(campaigns=listed),
        "campaigns/index.md": environment.get_template("campaigns.md.j2").render(campaigns=listed),
        "dictionary.md": environment.get_template("dictionary.md.j2").render(**dictionary(language)),
    }
    records = [(one.name, one.rows, one.failures, one.positions) for one in listed]
    compared = published_page(published, records, language)
    found["published.md"] = environment.get_template("published.md.j2").render(**compared)
    template = environment.get_template("campaign.md.j2")
    for campaign in listed:
        found[f"campaigns/{campaign.name}.md"] = template.render(**_campaign(campaign))
    return found


@cache
def _environment(loader: BaseLoader, language: str) -> Environment:
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_from_data,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["plain"] = preformatted
    environment.globals |= {
        "language": language,
        "t": lambda ko, en, **values: _words(ko if language == "ko" else en, values),
        "metrics": METRICS,
        "ratio_text": SPECULATION_RATIO.text,
        "tok_s_text": METRICS[0].text,
        "unit": lambda unit: unit_name(unit, language),
        "place": lambda value: fixed(value, 1),
    }
    return environment


def _from_data(value: object) -> object:
    """Every value that a template prints passes here; what is no markup of ours becomes one visible line."""
    if isinstance(value, Markup):
        return value
    if value is None:
        raise TypeError("a template printed a missing value; it must say what is missing")
    return one_line(str(value))


def _words(text: str, values: dict[str, Any]) -> Markup:
    """Put values into a template's own words."""
    return Markup(text).format(**{name: _from_data(value) for name, value in values.items()})  # noqa: S704


def _campaign(campaign: Campaign) -> dict[str, Any]:
    records = campaign.records
    varying = tables.label_columns(records)
    return {
        "campaign": campaign,
        "facts": facts(records),
        "panels": _panels(pairs(campaign.rows, campaign.failures), varying),
        "rows": tables.row_lines(campaign.rows, varying),
        "repeated": any(row.repeat > 1 for row in campaign.rows),
        "failures": tables.failure_lines(campaign.failures, varying),
        "unknown_categories": {one.category for one in campaign.failures} - set(CATEGORIES),
    }


def _panels(found: Sequence[Pair], varying: Sequence[str]) -> list[Panel]:
    with_points = [pair for pair in found if pair.points]
    grouped: dict[tuple[Any, ...], list[Pair]] = defaultdict(list)
    for pair in with_points:
        grouped[tuple(pair[name] for name in PANEL_COLUMNS)].append(pair)
    scale = charts.scale_top(with_points)
    differing = {name for name in PANEL_COLUMNS if len({pair[name] for pair in with_points}) > 1}
    if "prompt_set" in differing:
        differing.discard("prompt_set_digest")
    shared = [name for name in varying if name not in PANEL_COLUMNS]
    panels: list[Panel] = []
    first = 0
    # What can be compared comes first, what cannot is told after it.
    for key in sorted(grouped, key=lambda key: (not any(p.measured for p in grouped[key]), _on_before_off(key))):
        shown = [(name, str(one)) for name, one in zip(PANEL_COLUMNS, key, strict=True) if one and name in differing]
        lines = _lines(grouped[key], first, shared)
        first += len(lines)
        panels.append(_panel(len(panels) + 1, shown, lines, scale))
    return panels


def _on_before_off(key: tuple[Any, ...]) -> Any:
    *others, nvlink = key
    return sortable((*others, nvlink == OFF, nvlink))


def _lines(found: Sequence[Pair], first: int, varying: Sequence[str]) -> tuple[PairLine, ...]:
    """Codes run on over the page, so that each means one thing; styles start anew in each chart."""
    return tuple(
        PairLine(
            code=charts.code(first + index),
            style=charts.style(index),
            label=tables.label_of(pair, varying),
            pair=pair,
            verdict=verdict(pair),
        )
        for index, pair in enumerate(found)
    )


def _panel(
    number: int, setting: Sequence[tuple[str, str]], lines: tuple[PairLine, ...], scale: tuple[float, float]
) -> Panel:
    outcomes: dict[str, tuple[PairLine, ...]] = defaultdict(tuple)
    for line in lines:
        if line.verdict:
            outcomes[line.verdict.outcome] += (line,)
    entries = [charts.Entry(code=one.code, style=one.style, pair=one.pair) for one in lines if one.verdict]
    return Panel(
        number=number,
        setting=tuple(setting),
        provenance=lines[0].pair["provenance"],
        lines=lines,
        outcomes=dict(outcomes),
        drawings=tuple(charts.drawing(frame, entries, *scale) for frame in charts.FRAMES) if entries else (),
    )
