"""Every page tells of a pair the bracket that its advice tells, and a multiple of noise says what its verdict says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.brackets import brackets
from collector.analysis.lede import lede
from collector.analysis.noise import Noise, noise_of
from collector.analysis.pairing import KV_CACHE, NVLINK, SPECULATION
from collector.analysis.panels import like_main, panels
from collector.analysis.recommend import judged
from collector.analysis.scope import left_open
from collector.analysis.speculation import Pair, verdict
from collector.analysis.study import PUBLISHED, Study
from collector.report.build import campaign_names, read_campaign, read_published
from collector.report.sections.speculation import coded
from tests.analysis.arms import MTP, study_of
from tests.report.sample import make_row

DATA = Path(__file__).resolve().parents[2] / "data"

#: Throughput with speculation ÷ without, by repeat; one list for each concurrency.
CURVES = st.integers(1, 4).flatmap(
    lambda repeats: st.lists(
        st.lists(st.floats(0.85, 1.15) | st.floats(0.3, 3.0), min_size=repeats, max_size=repeats),
        min_size=2,
        max_size=5,
    )
)


def read(name: str) -> Study:
    if name != PUBLISHED:
        return read_campaign(DATA / name)
    found = read_published(DATA / name)
    assert found is not None
    return Study(name=PUBLISHED, figures=found.figures)


def made(curve: list[list[float]]) -> Study:
    rows = [
        make_row(concurrency=at, repeat=repeat, system_throughput_tok_s=tok_s, **way)
        for at, ratios in zip((1, 2, 3, 8, 32), curve, strict=False)
        for repeat, ratio in enumerate(ratios, 1)
        for way, tok_s in (({}, 50.0 + repeat), (MTP, ratio * (50.0 + repeat)))
    ]
    return study_of(*rows)


def hold_together(study: Study) -> list[Pair]:
    """Check what is told of each pair in every place; return the pairs that turn once."""
    noise = noise_of(study)
    found = panels(study.pairs(SPECULATION))
    shown = {id(line.pair): line for panel in found for line in coded(panel, 0, noise)}
    led = {id(one.pair): one for one in lede(study).behaviours}
    turning = []
    for pair in (pair for panel in found for pair in panel.measured):
        own, said, advised = brackets(pair, noise), verdict(pair, noise), judged(study, pair, noise)
        assert said is not None
        edge = advised.edge
        assert [(one.low, one.high) for one in own] == [edge] if edge else len(own) != 1
        assert said.bracket == edge
        assert (said.outcome == "falls", said.outcome == "rises") == (
            advised.verdict == "up_to",
            advised.verdict == "from",
        )
        assert (len(own) > 1) == (advised.verdict == "mixed")
        assert shown[id(pair)].brackets == own
        assert shown[id(pair)].verdict == said
        if id(pair) in led:
            assert (led[id(pair)].brackets, led[id(pair)].verdict) == (own, said)
        turning += [pair] if edge else []
    unmeasured = [(id(one.pair), one.bracket) for one in left_open(study).brackets]
    every = {(id(pair), one) for pair in like_main(found) for one in brackets(pair, noise)}
    assert set(unmeasured) <= every
    assert all(one.one_step or one.high <= 2 * one.low for _, one in every - set(unmeasured))
    return turning


@pytest.mark.parametrize("name", [*campaign_names(DATA), PUBLISHED])
def test_every_place_tells_the_same_bracket_of_each_committed_pair(name: str) -> None:
    assert hold_together(read(name)), "a study in which nothing turns proves nothing"


@given(CURVES)
def test_every_place_tells_the_same_bracket_whatever_the_repeats(curve: list[list[float]]) -> None:
    hold_together(made(curve))


@given(CURVES)
def test_what_lies_inside_a_bracket_is_on_neither_side_and_the_means_cross_there(curve: list[list[float]]) -> None:
    study = made(curve)
    noise = noise_of(study)
    for pair in study.pairs(SPECULATION):
        ratio = {point.concurrency: point.value for point in pair.measured if point.value}
        for one in brackets(pair, noise):
            assert noise.side(ratio[one.low]) == -noise.side(ratio[one.high]) == (1 if one.falls else -1)
            assert one.undecided == tuple(at for at in ratio if one.low < at < one.high)
            assert all(noise.side(ratio[at]) == 0 for at in one.undecided)
            if one.means:
                low, high = one.means
                assert one.low <= low < high <= one.high
                assert (ratio[low].value - 1) * (ratio[high].value - 1) <= 0


def hold_multiples(study: Study, noise: Noise) -> None:
    ratios = [
        point.value
        for factor in (SPECULATION, KV_CACHE, NVLINK)
        for pair in study.pairs(factor)
        for point in pair.measured
        if point.value
    ]
    assert ratios
    for one in ratios:
        found = noise.judge(one)
        if found.multiple is None:
            assert found.standing == "unknown" or (found.interval and found.interval[0] == found.interval[1])
        else:
            assert (found.multiple > 1) == (found.standing == "larger")
        if found.standing != "unknown":
            assert found.side == 0 or found.standing == "larger"


@pytest.mark.parametrize("name", [*campaign_names(DATA), PUBLISHED])
def test_a_multiple_above_one_is_what_larger_than_noise_means(name: str) -> None:
    study = read(name)
    hold_multiples(study, noise_of(study))


@given(CURVES)
def test_a_multiple_above_one_is_what_larger_means_whatever_the_repeats(curve: list[list[float]]) -> None:
    study = made(curve)
    hold_multiples(study, noise_of(study))
