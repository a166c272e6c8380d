"""Acceptance asked for against its prediction: exact where times follow the model, and no drafter's anywhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.asked import asked
from collector.analysis.drafters import drafters
from collector.analysis.lede import lede
from collector.analysis.noise import noise_of
from collector.analysis.pairing import SPECULATION
from collector.analysis.recommend import advice
from collector.analysis.repeats import repeat_errors
from collector.analysis.settings import loads
from collector.analysis.step_time import cases_of
from collector.core.rows import Row
from collector.report.build import read_campaign
from tests.analysis.arms import MTP, arm, pair_of, study_of
from tests.analysis.arms import asked as asked_for

DATA = Path(__file__).resolve().parents[2] / "data"
LANES, LENGTH = 8, 256


def synthetic(throughputs: dict[int, float], tokens: float, **changes: Any) -> list[Row]:
    return arm(throughputs, **(MTP | {"speculative_config": asked_for(tokens), "tokens_per_step": tokens} | changes))


def test_what_is_asked_for_is_predicted_exactly_where_prompts_take_turns_with_decoding() -> None:
    """On: T = lanes × prefill + steps ÷ tokens. Off: T = lanes × prefill + what decodes."""

    @given(st.floats(0.05, 0.5), st.floats(1.0, 40.0), st.floats(0.5, 8.0), st.floats(1.1, 5.0), st.floats(1.1, 5.0))
    def holds(prefill: float, steps: float, decodes: float, delivered: float, wanted: float) -> None:
        def rate(at: int, part: float) -> float:
            return at * LENGTH / (at * prefill + part)

        off = arm({at: rate(at, decodes) for at in (1, LANES)})
        on = arm(
            {at: rate(at, steps / delivered) for at in (1, LANES)},
            prefill_mean_s=prefill,
            **(MTP | {"tokens_per_step": delivered}),
        )
        told = synthetic({LANES: rate(LANES, steps / wanted)}, wanted)
        (found,) = asked(study_of(*off, *on, *told))
        (load,) = found.loads
        (one,) = [one for one in load.measured if one.asked]
        assert one.predicted
        assert one.error
        assert one.predicted.value == pytest.approx(one.ratio.value)
        assert one.error.value == pytest.approx(0, abs=1e-6)
        assert set(one.predicted.ids) == {row.row_id for row in (*on, *told)}
        if load.needed:
            assert (one.ratio.value > 1) == (wanted > load.needed.needed.value) or one.ratio.value == pytest.approx(1)

    holds()


def test_the_break_even_lies_between_the_most_tokens_that_lose_and_the_fewest_that_gain() -> None:
    rows = pair_of({1: 1.6, LANES: 0.6}, prefill_mean_s=0.1)
    base = next(row.system_throughput_tok_s or 0 for row in rows if row.speculation == "off" and row.concurrency == 8)
    told = [
        one
        for tokens, ratio in ((3.6, 0.7), (4.0, 0.999), (4.4, 1.3), (4.8, 1.5))
        for one in synthetic({LANES: base * ratio}, tokens)
    ]
    (found,) = asked(study_of(*rows, *told))
    (load,) = found.loads
    assert [(one.asked, one.side) for one in load.measured] == [
        (None, -1), ("3.60", -1), ("4.00", 0), ("4.40", 1), ("4.80", 1),
    ]  # fmt: skip
    assert [one.value for one in load.bracket if one] == [3.6, 4.4]
    assert load.needed
    low, high = (one.value for one in load.bracket if one)
    assert load.contains is (low < load.needed.needed.value < high)
    # A gain below a loss leaves no bracket to speak of.
    crossed = [*told, *synthetic({LANES: base * 1.4}, 3.5)]
    ((load,),) = (one.loads for one in asked(study_of(*rows, *crossed)))
    assert load.bracket == (None, None)
    assert load.contains is None


@pytest.mark.parametrize(
    "changes", [{"checks": "client_bound"}, {"kv_cache_dtype": "fp8"}, {"window_method": "steady"}]
)
def test_only_what_is_alike_and_held_stands_beside_the_drafter(changes: dict[str, Any]) -> None:
    rows = pair_of({1: 1.6, LANES: 0.6}, prefill_mean_s=0.1)
    assert asked(study_of(*rows, *synthetic({LANES: 300.0}, 4.0)))
    assert asked(study_of(*rows, *synthetic({LANES: 300.0}, 4.0, **changes))) == ()
    assert asked(study_of(*rows)) == ()


# --- it is no drafter's -------------------------------------------------------------------------------------


def test_no_finding_about_a_drafter_depends_on_rows_that_were_asked_whatever_they_say() -> None:
    rows = pair_of({1: 1.6, LANES: 0.6, 32: 0.5}, prefill_mean_s=0.1)
    absurd = {"accepted_tokens": 10**6, "draft_tokens": 10**6, "drafts": 10}
    told = [one for n in (1, 2) for one in synthetic({1: 9e5 * n, LANES: 9e6, 32: 9e7}, 4.9, repeat=n, **absurd)]
    without, beside = study_of(*rows), study_of(*rows, *told)
    assert beside.pairs(SPECULATION) == without.pairs(SPECULATION)
    assert drafters(beside) == drafters(without)
    assert advice(beside)[1] == advice(without)[1]
    assert lede(beside) == lede(without), "the peak among them"
    assert repeat_errors(beside) == repeat_errors(without)
    assert noise_of(beside).effects == noise_of(without).effects
    assert cases_of(beside.basis) == cases_of(without.rows)
    both = [loads(one, noise_of(one)) for one in (beside, without)]
    assert both[0] == both[1], "nobody is told to serve with an acceptance that was asked for"


def test_in_the_stored_campaign_every_finding_is_that_of_the_campaign_without_such_rows() -> None:
    study = read_campaign(DATA / "acceptance")
    plain = tuple(row for row in study.rows if "synthetic" not in (row.speculative_config or ""))
    assert 0 < len(plain) < len(study.rows)
    without = replace(study, rows=plain)
    assert advice(study)[1] == advice(without)[1]
    assert drafters(study) == drafters(without)
    assert lede(study) == lede(without)
