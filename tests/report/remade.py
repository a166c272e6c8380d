"""A section rendered alone, and its numbers made again from rows or figures by what each says of itself.

Nothing of collector.analysis computes here: an expression in `data-of` is evaluated over means of the columns.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from html.parser import HTMLParser
from statistics import fmean
from typing import Any

import pandas as pd
import pytest

from collector.analysis.study import Study
from collector.core.units import DISPLAYED
from collector.report.build import TEMPLATES, loader_of
from collector.report.environment import strict_environment
from collector.report.sections import SECTIONS
from collector.report.words import Words
from tests.report import roofline

#: One loader, so that the environment and its compiled templates are made once.
LOADER = loader_of(TEMPLATES)


def rendered(name: str, study: Study, language: str) -> str:
    template = strict_environment(LOADER, language).get_template(f"article/{name}.md.j2")
    return template.render(study=study, **SECTIONS[name](study, Words(language)))


class Numbers(HTMLParser):
    """The marked numbers of a page, with their attributes, and the digits that no mark explains."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.marked: list[tuple[dict[str, str], str]] = []
        self.bare: list[str] = []
        self._open: list[tuple[str, dict[str, str]]] = []
        self.feed(page)
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("br", "path"):
            self._open.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self._open.pop()
        assert opened == tag, f"<{opened}> closed by </{tag}>"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_data(self, data: str) -> None:
        inside = {tag for tag, _ in self._open} | {attrs.get("class", "") for _, attrs in self._open}
        if "data" in inside:
            self.marked.append((self._open[-1][1], data))
        elif not inside & {"name", "code", "svg", "template", "chart-legend", "chart-legend chart-legend-spare"}:
            self.bare += re.findall(r"\d+", re.sub(r"p95|fp8|\{: #[a-z-]+ \}", "", data))


Table = dict[str, dict[str, Any]]


def table_of(study: Study) -> Table:
    """Return what each row or published figure holds, by its id."""
    if study.is_published:
        return {one.figure_id: asdict(one.labels) | {one.metric: one.value} for one in study.figures}
    return {row.row_id: asdict(row) for row in study.rows}


def made_again(at: dict[str, str], table: Table) -> float:
    """Return the value that a figure's rows give, for rows that are there, comparable and have its columns."""
    if at["data-by"].startswith("needed"):
        return needed_again(at, table)
    if at["data-by"].startswith("expected"):
        return expected_again(at, table)
    if at["data-by"].startswith("predicted"):
        return roofline.made_again(at["data-of"], table[at["data-rows"]], table.get(at.get("data-base", "")))
    value = _over(at["data-of"], at["data-rows"], table, at["data-by"])
    if "data-base" not in at:
        return value
    base = _over(at["data-of"], at["data-base"], table, at["data-by"])
    made = {"ratio": value / base, "gain": 100 * (value / base - 1), "difference": value - base}
    return made[at["data-by"]]


def needed_again(at: dict[str, str], table: Table) -> float:
    """Tokens a step at which both sides take as long for a request, if what drafts do not shorten stays."""
    whole, off = "concurrency*output_tokens/system_throughput_tok_s", at["data-base"]
    load = float(table[off.split()[0]]["concurrency"])
    on = " ".join(one for one in at["data-rows"].split() if table[one]["concurrency"] == load)
    took, delivered = _over(whole, on, table, "mean"), _over("tokens_per_step", on, table, "mean")
    if "prefill_mean_s" in at["data-of"]:
        alone = " ".join(one for one in at["data-rows"].split() if table[one]["concurrency"] == 1)
        rest = load * _over("prefill_mean_s", alone, table, "mean")
    else:
        rest = took - _over("(output_tokens-1)*step_time_mean_s", on, table, "mean") / delivered
    tokens = delivered * (took - rest) / (_over(whole, off, table, "mean") - rest)
    k = _over("num_speculative_tokens", on, table, "mean")
    return tokens if at["data-by"] == "needed" else (tokens - 1) / k


def expected_again(at: dict[str, str], table: Table) -> float:
    """On ÷ off for the tokens a step of the rows that were asked; T = rest + what tokens divide, as many as needed."""
    whole, off, ids = "concurrency*output_tokens/system_throughput_tok_s", at["data-base"], at["data-rows"].split()
    asked = " ".join(one for one in ids if "rejection_sample_method" in (table[one]["speculative_config"] or ""))
    others = " ".join(one for one in ids if one not in asked)
    crossing = needed_again(at | {"data-rows": others, "data-by": "needed"}, table)
    load, took = float(table[off.split()[0]]["concurrency"]), _over(whole, off, table, "mean")
    on, alone = (" ".join(one for one in others.split() if table[one]["concurrency"] == c) for c in (load, 1))
    if "prefill_mean_s" in at["data-of"]:
        rest = load * _over("prefill_mean_s", alone, table, "mean")
    else:
        decodes = _over("(output_tokens-1)*step_time_mean_s", on, table, "mean")
        rest = _over(whole, on, table, "mean") - decodes / _over("tokens_per_step", on, table, "mean")
    ratio = took / (rest + (took - rest) * crossing / _over("tokens_per_step", asked, table, "mean"))
    if at["data-by"] == "expected":
        return ratio
    throughput = "system_throughput_tok_s"
    return 100 * (_over(throughput, asked, table, "mean") / _over(throughput, off, table, "mean") / ratio - 1)


def _over(expression: str, ids: str, table: Table, by: str) -> float:
    rows = [table[one] for one in ids.split()]
    assert not any(row.get("checks") for row in rows), f"rows with a failed check feed a figure: {ids}"
    means = {name: _mean(name, rows, by) for name in re.findall(r"[a-z]\w*", expression)}
    if expression in means:
        return means[expression]
    return float(pd.eval(expression, local_dict=means))  # type: ignore[arg-type]  # it takes a dict of floats


def _mean(name: str, rows: list[dict[str, Any]], by: str) -> float:
    values = [float(row[name]) for row in rows if row.get(name) is not None]
    assert values, f"no row has {name}"
    assert len(values) == len(rows) or "checks" not in rows[0], f"a row without {name} feeds a figure"
    return {"least": min, "most": max}.get(by, fmean)(values)


def check_numbers(name: str, study: Study, language: str) -> None:
    """Hold every figure of a section against its rows, and find no digit without a mark."""
    text = rendered(name, study, language)
    page, table = Numbers(text), table_of(study)
    assert page.bare == []
    assert page.marked or "<table" not in text
    for at, text in page.marked:
        if at["class"] == "f" and at["data-by"] != "published":
            again = made_again(at, table)
            assert float(at["value"]) == pytest.approx(again, rel=1e-5), at
            shape = DISPLAYED[at["data-as"]]
            assert abs(_number(text) - again * shape.scale) <= 0.5000001 * 10.0**-shape.digits, (at, text, again)
        elif at["class"] == "f":
            printed = float(table[at["data-rows"]][at["data-of"]])
            assert _number(text) == pytest.approx(printed, abs=0.5 * 10.0 ** -len(text.partition(".")[2]))
        elif at["class"] == "s":
            assert any(at["data-of"] in row for row in table.values()), at


def _number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", "").removeprefix("+"))
