"""Every number on an article's page is made again here, from the CSV alone, by what it says of itself.

Only pandas reads the tables here; nothing of collector.analysis is used but its thresholds, so that a wrong formula
shows.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

from collector.analysis import noise
from collector.core.units import DISPLAYED
from collector.report.build import TEMPLATES, campaign_names, loader_of, read_campaign, read_published
from collector.report.pages import pages
from collector.report.words import LANGUAGES, VALUE_DIGITS
from tests.report import roofline

DATA = Path(__file__).resolve().parents[2] / "data"
CAMPAIGNS = campaign_names(DATA)
ARTICLES = [*CAMPAIGNS, "published"]

#: The pages around the articles.
AROUND = [
    *(f"campaigns/{name}/{page}.md" for name in CAMPAIGNS for page in ("cells", "timing")),
    *(f"campaigns/{name}/{page}.md" for name in ARTICLES for page in ("data", "settings")),
    *("method.md", "glossary.md", "not-measured.md", "source.md"),
]

#: Text in these is no prose of ours: code, names of data, drawings, what a chart is drawn from.
NOT_PROSE = {"code", "pre", "svg", "time", "style", "template", "script", "data"}
#: Classes of what data give: a name, and a table of columns as the CSV has them.
RAW = {"name", "raw"}
VOID = {"br", "hr", "img", "input", "link", "meta", "source", "wbr", "col"}
#: Digits that are part of a name of the field.
NAMES = re.compile(
    r"p(50|95|99)|fp8(_e\w+)?|W4A16|W8A8(-INT8)?|BF16|bf16|FP8|INT8|UTF-8|SHA-256|ISO 8601|H\.?264|NV4|x16|x4|Gen3|e5m2"
)


class Page(HTMLParser):
    """The numbers of a page with what they say of themselves, and its prose without them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.numbers: list[tuple[dict[str, str], str]] = []
        self.prose: list[str] = []
        self._open: list[tuple[str, dict[str, str]]] = []
        self.feed(re.sub(r"<!--.*?-->|\{: #[\w-]+ \}", "", text, flags=re.DOTALL))
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self._open.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        opened, _ = self._open.pop()
        assert opened == tag, f"<{opened}> closed by </{tag}>"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_data(self, data: str) -> None:
        for tag, attrs in reversed(self._open):
            if tag == "data":
                self.numbers.append((attrs, data))
                return
        if not any(tag in NOT_PROSE or RAW & set(attrs.get("class", "").split()) for tag, attrs in self._open):
            self.prose.append(data)


@cache
def every_page(language: str) -> dict[str, str]:
    campaigns = [read_campaign(DATA / one) for one in CAMPAIGNS]
    return pages(campaigns, loader_of(TEMPLATES), language, read_published(DATA / "published"))


def markdown_of(path: str, language: str) -> str:
    return every_page(language)[path].split("---\n", 2)[2]


@pytest.fixture(scope="module", params=[(name, language) for name in ARTICLES for language in LANGUAGES], ids="-".join)
def shown(request: pytest.FixtureRequest) -> tuple[str, Page]:
    name, language = request.param
    return name, Page(markdown_of(f"campaigns/{name}/index.md", language))


@pytest.fixture(scope="module", params=[(name, language) for name in ARTICLES for language in LANGUAGES], ids="-".join)
def judged_text(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    """Return an article and the page of its details, which share what judges an effect."""
    name, language = request.param
    own = [f"campaigns/{name}/{page}.md" for page in ("index", "timing")]
    return name, [markdown_of(one, language) for one in own if one in every_page(language)]


@pytest.fixture(scope="module")
def judged(judged_text: tuple[str, list[str]]) -> tuple[str, list[Page]]:
    return judged_text[0], [Page(text) for text in judged_text[1]]


@pytest.fixture(scope="module", params=[(path, language) for path in AROUND for language in LANGUAGES], ids=" ".join)
def around(request: pytest.FixtureRequest) -> Page:
    return Page(markdown_of(*request.param))


# --- the independent computation --------------------------------------------------------------------------


@cache
def rows_of(name: str) -> pd.DataFrame:
    """Return the rows of a campaign; of what was published, the figures, each in a column named by its metric."""
    if name == "published":
        figures = figures_of()
        values = {metric: figures["value"].where(figures["metric"] == metric) for metric in figures["metric"].unique()}
        return figures.assign(checks=float("nan"), **values)
    return pd.read_csv(DATA / name / "rows.csv", keep_default_na=False, na_values=[""]).set_index("row_id")


@cache
def figures_of() -> pd.DataFrame:
    return pd.read_csv(DATA / "published" / "figures.csv").set_index("figure_id")


def good(rows: pd.DataFrame, ids: str, columns: list[str]) -> pd.DataFrame:
    found = rows[[*dict.fromkeys([*columns, "checks", "provenance", *({"repeat"} & set(rows))])]].loc[ids.split()]
    assert found["checks"].isna().all(), f"rows with a failed check feed a figure: {ids}"
    known = found[columns].notna()
    # A published figure is one number, so an expression of two metrics names two figures.
    assert (known.any() if "metric" in rows else known.all()).all(), f"rows without {columns} feed a figure: {ids}"
    assert found["provenance"].nunique() == 1, "provenances are mixed in one figure"
    return found


def mean(rows: pd.DataFrame, ids: str, of: str) -> float:
    """Return an expression of columns, each standing for its mean."""
    columns = re.findall(r"[a-z]\w*", of)
    means = good(rows, ids, columns)[columns].mean().to_dict()
    return float(pd.eval(of, local_dict=means))  # type: ignore[arg-type]


def pooled(rows: pd.DataFrame, ids: str, of: str) -> float:
    numerator, denominator = of.split("/")
    found = good(rows, ids, [numerator, denominator])
    return float(found[numerator].sum() / found[denominator].sum())


def needed(rows: pd.DataFrame, at: dict[str, str]) -> float:
    """Return the tokens a step at which a request takes as long as in the base, what drafts do not shorten kept."""
    whole, load = "concurrency*output_tokens/system_throughput_tok_s", rows.concurrency[at["data-base"].split()[0]]
    on, alone = (" ".join(name for name in at["data-rows"].split() if rows.concurrency[name] == c) for c in (load, 1))
    took, tokens = mean(rows, on, whole), mean(rows, on, "tokens_per_step")
    outside = took - mean(rows, on, "(output_tokens-1)*step_time_mean_s") / tokens
    kept = load * mean(rows, alone, "prefill_mean_s") if "prefill" in at["data-of"] else outside
    return tokens * (took - kept) / (mean(rows, at["data-base"], whole) - kept)


def expected(rows: pd.DataFrame, at: dict[str, str]) -> float:
    """Return on ÷ off for the tokens a step of the rows that were asked, by the times of those that were not."""
    ids, is_asked = at["data-rows"].split(), asked_of(rows)
    others = " ".join(name for name in ids if not is_asked[name])
    crossing = needed(rows, at | {"data-rows": others})
    tokens = mean(rows, " ".join(name for name in ids if is_asked[name]), "tokens_per_step")
    # On both sides what drafts do not shorten, and a part that tokens divide: at the crossing it is as large as off.
    whole, load = "concurrency*output_tokens/system_throughput_tok_s", rows.concurrency[at["data-base"].split()[0]]
    took = mean(rows, at["data-base"], whole)
    on, alone = (" ".join(name for name in others.split() if rows.concurrency[name] == c) for c in (load, 1))
    kept = (
        load * mean(rows, alone, "prefill_mean_s")
        if "prefill" in at["data-of"]
        else (mean(rows, on, whole) - mean(rows, on, "(output_tokens-1)*step_time_mean_s/tokens_per_step"))
    )
    return took / (kept + (took - kept) * crossing / tokens)


def expected_error(rows: pd.DataFrame, at: dict[str, str]) -> float:
    own = " ".join(name for name in at["data-rows"].split() if asked_of(rows)[name])
    measured = mean(rows, own, "system_throughput_tok_s") / mean(rows, at["data-base"], "system_throughput_tok_s")
    return 100 * (measured / expected(rows, at) - 1)


def asked_of(rows: pd.DataFrame) -> pd.Series[bool]:
    return rows["speculative_config"].fillna("").str.contains("rejection_sample_method")


def predicted(rows: pd.DataFrame, at: dict[str, str]) -> float:
    own, *base = (dict(rows.loc[at[name]].items()) for name in ("data-rows", "data-base") if name in at)
    return roofline.made_again(at["data-of"], own, base[0] if base else None)


BY_ROWS: dict[str, Callable[[pd.DataFrame, dict[str, str]], float]] = {
    "mean": lambda rows, at: mean(rows, at["data-rows"], at["data-of"]),
    "least": lambda rows, at: float(good(rows, at["data-rows"], [at["data-of"]])[at["data-of"]].min()),
    "most": lambda rows, at: float(good(rows, at["data-rows"], [at["data-of"]])[at["data-of"]].max()),
    "ratio": lambda rows, at: mean(rows, at["data-rows"], at["data-of"]) / mean(rows, at["data-base"], at["data-of"]),
    "gain": lambda rows, at: (
        100 * mean(rows, at["data-rows"], at["data-of"]) / mean(rows, at["data-base"], at["data-of"]) - 100
    ),
    "difference": lambda rows, at: (
        mean(rows, at["data-rows"], at["data-of"]) - mean(rows, at["data-base"], at["data-of"])
    ),
    "predicted": predicted,
    "predicted_share": predicted,
    "pooled": lambda rows, at: pooled(rows, at["data-rows"], at["data-of"]),
    "needed": needed,
    "expected": expected,
    "expected_error": expected_error,
    "needed_acceptance": lambda rows, at: (
        (needed(rows, at) - 1) / mean(rows, at["data-rows"], "num_speculative_tokens")
    ),
}
BY_FIGURES: dict[str, Callable[[float], float]] = {
    "published": lambda value: value,
    "published_gain": lambda value: 100 * (value - 1),
    "published_ratio": lambda value: 1 + value / 100,
}


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", "").removeprefix("+"))


def made_again(at: dict[str, str], name: str) -> float:
    return computed(name, *(at.get(f"data-{key}", "") for key in SAID_BY))


#: What a figure says of how it was made.
SAID_BY = ("by", "of", "rows", "base")


@cache
def computed(name: str, by: str, of: str, ids: str, base: str) -> float:
    if by in BY_FIGURES:
        figures = figures_of()
        assert figures["metric"][ids] == of
        return BY_FIGURES[by](float(figures["value"][ids]))
    at = dict(zip(SAID_BY, (by, of, ids, base), strict=True))
    return BY_ROWS[by](rows_of(name), {f"data-{key}": value for key, value in at.items() if value})


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_figure_of_latency_and_traffic_is_what_its_rows_give(name: str) -> None:
    hold_to_rows(name, Page(markdown_of(f"campaigns/{name}/timing.md", "ko")))


def test_every_figure_is_what_its_rows_give(shown: tuple[str, Page]) -> None:
    hold_to_rows(*shown)


def hold_to_rows(name: str, page: Page) -> None:
    figures = [(at, text) for at, text in page.numbers if at["class"] == "f"]
    assert figures, "an article without figures proves nothing"
    for at, text in figures:
        again = made_again(at, name)
        if "value" in at:
            assert float(at["value"]) == pytest.approx(again, rel=10.0 ** (1 - VALUE_DIGITS)), at
        metric = DISPLAYED.get(at.get("data-as", ""))
        scale, digits = (metric.scale, metric.digits) if metric else (1.0, len(text.partition(".")[2]))
        assert abs(number(text) - again * scale) <= 0.5000001 * 10.0**-digits, (at, text, again)


# --- against noise: the largest repeat error, and the intervals that hold together -------------------------

#: A cell, and what two series share of one, by columns alone.
LOAD = [
    "prompt_set",
    "prompt_set_digest",
    "output_tokens",
    "window_method",
    "concurrency",
    "requests",
    "warmup_requests",
]


def basis_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what findings rest on: drafts accepted as they are, and whole stages where there are both windows."""
    own = rows[~asked_of(rows)]
    whole = own["window_method"] == "whole_stage"
    return own[whole] if whole.any() else own


def repeat_error_of(name: str, at: dict[str, str], family: str = "", column: str = "system_throughput_tok_s") -> float:
    """Return the largest difference between measurements of the same thing, in per cent; NaN where there is none.

    Of rows that speculate like those of either side of `at`, and of their provenance.
    """
    if name == "published":
        printed = figures_of()
        return float(printed["value"][printed["metric"] == "repeat_error_max"].iloc[0])
    rows, every = rows_of(name), family.startswith(("windows", "asked"))
    sides = rows.loc[f"{at['data-rows']} {at['data-base']}".split(), ["provenance", "speculation"]]
    kins = set(zip(sides["provenance"], sides["speculation"] == "off", strict=True))
    return max(largest_difference(name, every, origin, off, column) for origin, off in kins)


@cache
def largest_difference(name: str, every: bool, origin: str, off: bool, column: str) -> float:
    rows = rows_of(name)
    rows = rows[rows["checks"].isna() & (rows["provenance"] == origin) & ((rows["speculation"] == "off") == off)]
    rows = rows if every else basis_of(rows)
    same = [*LOAD, "model", "kv_cache_dtype", "nvlink", "speculation", "num_speculative_tokens", "extra_flags"]
    values = pd.Series(rows.eval(column), dtype=float).dropna()
    for cell in (["configuration_id", *LOAD], same):
        ends = values.groupby([rows.loc[values.index, name] for name in cell], dropna=False).agg(["max", "min", "size"])
        ends = ends[ends["size"] > 1]
        if len(ends):
            return float(100 * (ends["max"] / ends["min"]).max() - 100)
    return float("nan")


def as_ratio(at: dict[str, str], text: str) -> float | None:
    """Return a figure that is an effect as a ratio; None for any other. One that was published has no more digits."""
    gain = at.get("data-as") in ("kv_gain", "nvlink_gain", "change") or at["data-of"].startswith("throughput_change")
    if not gain and at.get("data-as") not in ("speculation_ratio", "steady_ratio", "factor"):
        return None
    value = number(at.get("value", text))
    return 1 + value / 100 if gain else value


def effects_before_multiples(page: Page) -> list[tuple[dict[str, str], float, dict[str, str], str]]:
    """Return what each multiple is of, as its figure and as a ratio, with the multiple."""
    found = []
    of: tuple[dict[str, str], float] | None = None
    for at, text in page.numbers:
        if at["class"] == "f" and (effect := as_ratio(at, text)) is not None:
            of = at, effect
        elif at["class"] == "m":
            assert of, "a multiple of nothing"
            found.append((*of, at, text))
    return found


def test_every_multiple_is_of_what_decides(
    judged: tuple[str, list[Page]], widths: dict[tuple[str, str], float]
) -> None:
    """Of half the interval where one is printed; of the largest repeat error, some times over, where there is none."""
    name, pages = judged
    for of, effect, at, text in (one for page in pages for one in effects_before_multiples(page)):
        family = (at["data-family"], at["data-of"]) if "data-family" in at else ()
        width = widths.get((at.get("data-family", ""), of["data-rows"]))
        if width is None:
            bound = max(noise.LEAST_EFFECT, noise.NOISE_MULTIPLE * repeat_error_of(name, of, *family))
            again = 100 * (max(effect, 1 / effect) - 1) / bound
        else:
            again = abs(log(effect)) / width
        digits = len(text.partition(".")[2])
        assert number(text) == pytest.approx(again, abs=0.51 * 10.0**-digits + 1e-3 * again), (text, again)
    if name != "published" and not rows_of(name)["repeat"].gt(1).any():
        assert not any(at["class"] == "i" for page in pages for at, _ in page.numbers), "an interval without a spread"


EFFECTS = ("ratio", "gain", "published", "published_gain", "published_ratio")
#: What an effect is of, by columns and by what was published; traffic and capacity are no effects on speed.
SPEEDS = re.compile("throughput|decode_rate|step|prefill|speculation_ratio|_gain")
SAID = re.compile('class="m"|반복 없음|no spread measured|오차 안|within noise|오차 밖|larger than noise')


def test_every_effect_in_a_table_says_what_it_is_against_noise(judged_text: tuple[str, list[str]]) -> None:
    """All but ranges over effects that stand in tables of their own."""
    told = 0
    for table in re.findall(r"<table class=\"sheet.*?</table>", "".join(judged_text[1]), re.DOTALL):
        if re.search(r"<th[^>]*>(범위|Range)", table):
            continue
        for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL):
            figures = [(at, text) for at, text in Page(row).numbers if at["class"] == "f" and at["data-by"] in EFFECTS]
            effects = [at for at, text in figures if SPEEDS.search(at["data-of"]) and as_ratio(at, text)]
            assert len(SAID.findall(row)) >= len(effects), effects
            told += len(effects)
    assert told, "an article without effects proves nothing"


def test_an_edge_between_neighbours_is_told_as_one() -> None:
    page = re.sub("<[^>]*>", "", markdown_of("campaigns/schedule/index.md", "en"))
    assert "It turns between 3 and 4, which are neighbours." in page
    assert "somewhere between 3 and 4" not in page


def column_of(at: dict[str, str]) -> str:
    return at.get("data-of", "system_throughput_tok_s")


def log_ratios(rows: pd.DataFrame, at: dict[str, str]) -> pd.Series[float]:
    """Return the logarithms of on ÷ off, repeat by repeat."""
    names = re.findall(r"[a-z_]+", column_of(at))
    on, off = (
        pd.Series(good(rows, at[side], names).set_index("repeat").eval(column_of(at)), dtype=float)
        for side in ("data-rows", "data-base")
    )
    return (on / off).map(log)


def half_widths(name: str, pages: list[Page]) -> dict[tuple[str, str], float]:
    """Return half of each printed interval, on logarithms, by family and rows; each is held to what is printed.

    Of interleaved repeats, as all of the committed campaigns are; after Smyth (2004), written a second time.
    """
    families: dict[str, list[tuple[dict[str, str], str]]] = {}
    for at, text in (one for page in pages for one in page.numbers):
        if at["class"] == "i":
            families.setdefault(at.get("data-family", ""), []).append((at, text))
    return {
        (family, ids): width
        for family, printed in families.items()
        for ids, width in hold_to_holm(rows_of(name), printed).items()
    }


@pytest.fixture(scope="module")
def widths(judged: tuple[str, list[Page]]) -> dict[tuple[str, str], float]:
    return half_widths(*judged)


def test_every_interval_is_that_of_moderated_variances_and_holm(
    judged: tuple[str, list[Page]], widths: dict[tuple[str, str], float]
) -> None:
    printed = [at for page in judged[1] for at, _ in page.numbers if at["class"] == "i"]
    assert {(at.get("data-family", ""), at["data-rows"]) for at in printed} == widths.keys()


def moderated(own: Any, freedom: int, most: int) -> tuple[Any, float]:
    """Return the variance of each effect and their degrees of freedom, drawn towards what all of them have."""
    logs = np.log(own) - special.digamma(freedom / 2) + np.log(freedom / 2)
    excess = logs.var(ddof=1) - special.polygamma(1, freedom / 2)
    if excess <= 0:  # they differ no more than draws from one variance
        return np.full(len(own), own.mean()), most
    half = optimize.brentq(lambda x: special.polygamma(1, x) - excess, 1e-3, 1e6)
    prior = np.exp(logs.mean() + special.digamma(half) - np.log(half))
    return (2 * half * prior + freedom * own) / (2 * half + freedom), min(2 * half + freedom, most)


def hold_to_holm(rows: pd.DataFrame, printed: list[tuple[dict[str, str], str]]) -> dict[str, float]:
    """Make the intervals of effects again that share a level; return half of each, on logarithms, by its rows."""
    once = {at["data-rows"]: (at, text) for at, text in printed}
    assert all(once[at["data-rows"]][1] == text for at, text in printed), "an effect has two intervals"
    printed = list(once.values())
    effects = {at["data-rows"]: log_ratios(rows, at) for at, _ in printed}
    freedom = len(next(iter(effects.values()))) - 1
    own = np.array([one.var(ddof=1) for one in effects.values()])
    engine = ["model", "kv_cache_dtype", "speculation", "speculative_config"]
    starts = {tuple(rows.loc[one.split()[0], engine]) for one in effects}
    squares, known = moderated(own, freedom, freedom * len(starts))
    errors = np.sqrt(squares / (freedom + 1))
    ratios = [BY_ROWS["ratio"](rows, at | {"data-of": column_of(at)}) for at, _ in printed]
    alone_holds = 2 * stats.t.sf(abs(np.log(ratios)) / np.sqrt(own / (freedom + 1)), freedom) <= noise.OWN_SHARE
    p_values = sorted(np.where(alone_holds, 2 * stats.t.sf(abs(np.log(ratios)) / errors, known), 1))
    rejected = next((n for n, p in enumerate(p_values) if p > noise.ERROR_SHARE / (len(p_values) - n)), len(p_values))
    level = noise.ERROR_SHARE / max(1, len(p_values) - rejected)
    widths = {}
    for (at, text), squared, error, ratio in zip(printed, own, errors, ratios, strict=True):
        together = stats.t.ppf(1 - level / 2, known) * error
        alone = stats.t.ppf(1 - noise.OWN_SHARE / 2, freedom) * np.sqrt(squared / (freedom + 1))
        ends = [number(one) for one in text.split("–")]
        widths[at["data-rows"]] = max(together, alone)
        again = [ratio * np.exp(sign * max(together, alone)) for sign in (-1, 1)]
        if DISPLAYED[at["data-as"]].unit == "%":
            again = [100 * (one - 1) for one in again]
        digits = len(text.partition("–")[0].partition(".")[2])
        assert ends == pytest.approx(again, abs=0.51 * 10.0**-digits), (at, text, again)
    return widths


def test_every_setting_is_a_value_of_its_column(shown: tuple[str, Page]) -> None:
    name, page = shown
    table = figures_of() if name == "published" else rows_of(name)
    for at, text in page.numbers:
        if at["class"] == "s":
            found = {str(one) for one in pd.to_numeric(table[at["data-of"]]).dropna().astype(int)}
            assert text in found, at


def assert_thresholds(page: Page) -> None:
    for at, text in page.numbers:
        if at["class"] == "c":
            module, _, constant = at["data-of"].rpartition(".")
            value = getattr(importlib.import_module(f"collector.{module}"), constant)
            allowed = value if isinstance(value, tuple) else (value,)
            scale = 100 if at.get("data-scale") == "%" else 1
            assert any(number(text) == pytest.approx(one * scale) for one in allowed), at


def assert_no_digits(page: Page) -> None:
    for text in page.prose:
        assert not re.search(r"\d", NAMES.sub("", text)), text.strip()


def test_every_threshold_is_the_constant_that_the_code_uses(shown: tuple[str, Page]) -> None:
    assert_thresholds(shown[1])


def test_no_digit_stands_in_prose_outside_the_filters(shown: tuple[str, Page]) -> None:
    assert_no_digits(shown[1])


def test_the_pages_around_an_article_hold_to_the_same_rules(around: Page) -> None:
    assert_thresholds(around)
    assert_no_digits(around)
