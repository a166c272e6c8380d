"""Studies for the sections that carry the message: every branch of their sentences, and the committed data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from collector.analysis.study import PUBLISHED, Study
from collector.core.rows import Row
from collector.core.units import DISPLAYED
from collector.report.build import read_campaign, read_published
from tests.analysis.arms import MTP, arm, pair_of, study_of
from tests.report.remade import Numbers, needed_again, rendered
from tests.report.sample import make_failure, make_row
from tests.report.structure import Structure

DATA = Path(__file__).resolve().parents[2] / "data"
NOTHING = {"tokens_per_step": 1.0}
FP8 = {"kv_cache_dtype": "fp8_e5m2"}


def published(*left_out: str) -> Study:
    found = read_published(DATA / "published")
    assert found is not None
    kept = tuple(one for one in found.figures if one.metric not in left_out)
    return Study(name=PUBLISHED, figures=kept, published_failures=found.failures)


def repeated(ratios: dict[int, float], change: float = 1.004) -> list[Row]:
    """Return a pair measured twice; `change` is between its repeats."""
    again = [
        replace(row, row_id=f"{row.row_id}r", repeat=2, system_throughput_tok_s=row.system_throughput_tok_s * change)
        for row in pair_of(ratios)
        if row.system_throughput_tok_s
    ]
    return [*pair_of(ratios), *again]


def wavering(ratios: dict[int, tuple[float, ...]]) -> list[Row]:
    """Return a pair with these ratios, repeat by repeat."""
    repeats = [{at: each[place] for at, each in ratios.items()} for place in range(len(next(iter(ratios.values()))))]
    return [row for repeat, own in enumerate(repeats, 1) for row in pair_of(own, repeat=repeat)]


def checked(rows: list[Row], concurrency: int) -> list[Row]:
    return [replace(row, checks="throttled") if row.concurrency == concurrency else row for row in rows]


def settings(rows: list[Row]) -> list[Row]:
    """Return the rows with two dtypes and both sides of the link beside them."""
    return [
        *rows,
        *arm({1: 51.5, 8: 472.0}, **FP8, attention_backend="FLASHINFER"),
        *arm({1: 46.0, 8: 320.0}, nvlink="off"),
    ]


TURNS, GAINS, LOSES = {1: 1.7, 8: 0.7, 32: 0.4}, {1: 2.1, 8: 1.4}, {1: 0.9, 8: 0.7}
REFUSED = make_failure(model="alpha-30b", nvlink=None, category="kv_dtype", **FP8)
OOM = make_failure(model="alpha-30b", speculation="mtp", num_speculative_tokens=4)

CASES: dict[str, Callable[[], Study]] = {
    "empty": study_of,
    "all failed": lambda: study_of(failures=(REFUSED,)),
    "off only": lambda: study_of(*arm({1: 50.0, 8: 300.0})),
    "on only": lambda: study_of(*arm({1: 50.0, 8: 300.0}, **MTP)),
    "one row": lambda: study_of(make_row()),
    "all checks failed": lambda: study_of(*checked(pair_of({8: 2.0}), 8)),
    "on failed": lambda: study_of(*arm({1: 50.0, 8: 300.0}), failures=(OOM,)),
    "turns": lambda: study_of(*pair_of(TURNS)),
    "turns a little": lambda: study_of(*pair_of({1: 1.2, 8: 0.9})),
    "turns at neighbours": lambda: study_of(*pair_of({3: 1.7, 4: 0.7})),
    "turns within noise": lambda: study_of(
        *wavering({1: (1.70, 1.75, 1.65), 3: (1.10, 1.04, 0.94), 4: (1.04, 0.98, 0.92), 8: (0.71, 0.70, 0.69)})
    ),
    "turns over an even point": lambda: study_of(*pair_of({1: 1.7, 8: 1.0, 32: 0.4})),
    "gains": lambda: study_of(*pair_of(GAINS)),
    "loses": lambda: study_of(*pair_of(LOSES)),
    "even": lambda: study_of(*pair_of({1: 1.0, 8: 1.0})),
    "rises": lambda: study_of(*pair_of({1: 0.7, 8: 1.7})),
    "goes up and down": lambda: study_of(*pair_of({1: 0.7, 8: 1.7, 32: 0.8})),
    "one concurrency": lambda: study_of(*pair_of({8: 1.3})),
    "two gain": lambda: study_of(*pair_of(GAINS, model="a"), *pair_of({1: 1.1}, model="b")),
    "two lose": lambda: study_of(*pair_of(LOSES, model="a"), *pair_of({1: 0.8}, model="b")),
    "two are even": lambda: study_of(*pair_of({1: 1.0}, model="a"), *pair_of({1: 1.001}, model="b")),
    "one gains, one loses": lambda: study_of(*pair_of(GAINS, model="a"), *pair_of(LOSES, model="b")),
    "nothing accepted": lambda: study_of(*pair_of(LOSES, **NOTHING)),
    "nothing accepted here": lambda: study_of(
        *pair_of(LOSES, **NOTHING), *arm({1: 80.0}, prompt_set="general/code", **(MTP | {"tokens_per_step": 3.0}))
    ),
    "repeats": lambda: study_of(*repeated(TURNS)),
    "repeats disagree": lambda: study_of(*repeated({1: 1.01, 8: 0.99}, 1.5)),
    "some repeats": lambda: study_of(*repeated({1: 1.7}), *pair_of({8: 0.7})),
    "two series": lambda: study_of(*pair_of(TURNS), *arm({1: 50.5, 8: 402.0}, series="k3")),
    "a stage failed its checks": lambda: study_of(*checked(pair_of(TURNS), 8)),
    "without falls": lambda: study_of(*arm({16: 300.0, 32: 280.0}), *arm({16: 330.0, 32: 320.0}, **MTP)),
    "with rises in a loss": lambda: study_of(*arm({16: 300.0, 32: 400.0}), *arm({16: 200.0, 32: 210.0}, **MTP)),
    "dtype and link": lambda: study_of(*settings(pair_of(GAINS)), failures=(REFUSED, OOM)),
    "dtype loses": lambda: study_of(*arm({1: 100.0, 8: 100.0}), *arm({1: 90.0, 8: 80.0}, **FP8)),
    "dtypes differ": lambda: study_of(
        *arm({8: 100.0}), *arm({8: 90.0}, **FP8), *arm({8: 100.0}, model="b"), *arm({8: 120.0}, model="b", **FP8)
    ),
    "two k": lambda: study_of(
        *pair_of({1: 0.9}, series="k1", num_speculative_tokens=1),
        *pair_of({1: 0.7}, series="k3", num_speculative_tokens=3),
    ),
    "prompts": lambda: study_of(*pair_of(TURNS), *pair_of(GAINS, prompt_set="general/code")),
    "throughput stops growing": lambda: study_of(*arm({1: 50.0, 16: 300.0, 32: 290.0}), *arm({1: 45.0}, nvlink="off")),
    "no TTFT": lambda: study_of(*(replace(row, ttft_mean_s=None) for row in pair_of(GAINS))),
    "other stages": lambda: study_of(*pair_of({1: 1.5, 8: 1.2}, model="a"), *pair_of({2: 1.5, 4: 1.2}, model="b")),
    "no GPU": lambda: study_of(*(replace(row, gpu_model=None, gpu_count=None) for row in pair_of(GAINS))),
    "40 models": lambda: study_of(*(row for n in range(40) for row in pair_of(TURNS, model=f"model-{n}"))),
    "emulated": lambda: study_of(*settings(pair_of(TURNS, provenance="emulated"))),
    "hostile": lambda: study_of(*pair_of(TURNS, model="<b>&'\"x|y", extra_flags="--a '<i>'")),
    "dual-3090": lambda: read_campaign(DATA / "dual-3090"),
    "follow-up": lambda: read_campaign(DATA / "follow-up"),
    "published": published,
    "published without ratios": lambda: published("speculation_ratio"),
    "published without repeats": lambda: published("repeat_error_min", "throughput_change_c16_to_c32"),
}


def held(section: str, case: str, language: str) -> None:
    """Hold every figure of a section against its rows, and find no digit without a mark. Days are no figures."""
    study = CASES[case]()
    found = Numbers(re.sub(r"\{: #[\w-]+ \}|<time.*?</time>", "", rendered(section, study, language)))
    assert found.bare == []
    values = {row.row_id: asdict(row) for row in study.rows}
    values |= {one.figure_id: asdict(one.labels) | {one.metric: one.value} for one in study.figures}
    for at, shown in found.marked:
        if at["class"] == "f":
            made = _made(at, values)
            metric = DISPLAYED.get(at.get("data-as", ""))
            scale, digits = (metric.scale, metric.digits) if metric else (1.0, len(shown.partition(".")[2]))
            number = float(shown.replace("−", "-").removeprefix("+"))
            assert abs(number - made * scale) <= 0.5000001 * 10.0**-digits, (at, shown, made)
        elif at["class"] == "s" and at["data-of"] != "num_speculative_tokens":  # a k may be that of a failure
            assert int(shown) in {one[at["data-of"]] for one in values.values()}, at


def _made(at: Mapping[str, str], values: Mapping[str, Mapping[str, Any]]) -> float:
    """Return what the rows behind a figure give for it, with nothing of collector.analysis."""
    by, of = at["data-by"], at["data-of"]
    rows = [values[one] for one in at["data-rows"].split()]
    assert not any(row.get("checks") for row in rows), at
    if by == "pooled":
        numerator, denominator = of.split("/")
        return float(sum(row[numerator] for row in rows) / sum(row[denominator] for row in rows))
    if by.startswith("needed"):
        return needed_again(dict(at), {name: dict(row) for name, row in values.items()})
    over = fmean(row[of] for row in rows)
    if "data-base" not in at:
        return 100 * (over - 1) if by == "published_gain" else over
    ratio = over / fmean(values[one][of] for one in at["data-base"].split())
    return {"ratio": ratio, "gain": 100 * (ratio - 1)}[by]


@cache
def page(section: str, case: str, language: str = "en") -> Structure:
    return Structure(rendered(section, CASES[case](), language))


def text(section: str, case: str, language: str = "en") -> str:
    return page(section, case, language).text
