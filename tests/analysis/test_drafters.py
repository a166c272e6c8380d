"""What a drafter's acceptance is made of, and which prompts count as its best and its worst."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.drafters import Drafter, by_position, chosen, drafters, size_of
from collector.analysis.study import PUBLISHED, Study
from collector.analysis.waste import waste_of
from collector.core.rows import SCHEMA_VERSION, Position, Row
from collector.report.build import read_published
from tests.report.sample import make_row

DATA = Path(__file__).resolve().parents[2] / "data"
GENERAL = "general"
MTP = {"speculation": "mtp", "num_speculative_tokens": 4, "tokens_per_step": 2.0}


def row(prompts: str = "synthetic", drafts: int = 100, accepted: int = 100, **changes: object) -> Row:
    made = make_row(**(MTP | {"prompt_set": prompts} | changes))
    k = made.num_speculative_tokens or 1
    return replace(
        made,
        drafts=drafts,
        draft_tokens=k * drafts,
        accepted_tokens=accepted,
        acceptance_rate=accepted / (k * drafts),
        accepted_per_forward=accepted / drafts,
    )


def study(*rows: Row, positions: tuple[Position, ...] = ()) -> Study:
    return Study(name="sample-dual", rows=rows, positions=positions)


def only(found: list[Drafter]) -> Drafter:
    assert len(found) == 1
    return found[0]


def published() -> Study:
    found = read_published(DATA / PUBLISHED)
    assert found is not None
    return Study(name=PUBLISHED, figures=found.figures, published_failures=found.failures)


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 5000)), min_size=1, max_size=6))
def test_a_pool_is_a_ratio_of_sums_so_that_rows_with_more_steps_weigh_more(counts: list[tuple[int, int]]) -> None:
    rows = [row("general/code", drafts, accepted, repeat=n + 1) for n, (drafts, accepted) in enumerate(counts)]
    found = only(drafters(study(*rows)))
    drafted, accepted = sum(one for one, _ in counts), sum(one for _, one in counts)
    assert found.per_forward[GENERAL].value == pytest.approx(accepted / drafted)
    assert found.rate[GENERAL].value == pytest.approx(accepted / drafted / 4)
    assert set(found.per_forward[GENERAL].ids) == {one.row_id for one in rows}


def test_the_general_pool_leaves_the_synthetic_prompt_out() -> None:
    found = only(drafters(study(row(accepted=0), row("general/code", accepted=300), row("general/korean"))))
    assert found.per_forward[GENERAL].value == pytest.approx(2.0)
    assert found.rate["synthetic"].value == 0
    assert found.general == ("general/code", "general/korean")


def test_a_row_with_a_failed_check_feeds_no_acceptance_and_is_the_reason_for_a_gap() -> None:
    found = only(drafters(study(row(), row("general/code", checks="throttled"))))
    assert GENERAL not in found.rate
    assert (found.why("general/code"), found.why(GENERAL)) == ("checks", "checks")
    assert found.why("general/korean") == "missing"


def test_nothing_drafted_is_no_acceptance_of_zero() -> None:
    idle = replace(row(), drafts=0, draft_tokens=0, accepted_tokens=0)
    assert only(drafters(study(idle))).rate == {}


def test_links_dtypes_and_series_are_one_drafter_but_k_drafter_and_provenance_are_not() -> None:
    same = [row(), row(nvlink="off"), row(kv_cache_dtype="fp8_e5m2"), row(series="k3")]
    others = [row(num_speculative_tokens=3), row(drafter="other"), row(provenance="emulated"), row(model="beta")]
    assert len(drafters(study(*same))) == 1
    assert len(drafters(study(*same, *others))) == 5


def test_a_row_without_speculation_is_no_drafter() -> None:
    assert drafters(study(make_row())) == []


def test_the_range_over_repeats_pools_each_repeat_and_needs_two() -> None:
    once = only(drafters(study(row("general/code", 100, 100), row("general/code", 100, 300, concurrency=8))))
    assert once.repeats == {}
    twice = only(drafters(study(row("general/code", 100, 100), row("general/code", 300, 100, repeat=2))))
    assert twice.repeats["general/code"] == pytest.approx((1 / 3, 1.0))


def drafter_of(model: str, **values: float) -> Drafter:
    rows = [row(f"general/{name}", 100, round(100 * value), model=model) for name, value in values.items()]
    return only(drafters(study(*rows)))


def test_the_least_and_the_most_are_named_for_the_drafters_that_share_them() -> None:
    found = [
        drafter_of("a", english=2, code=4, korean=1),
        drafter_of("b", english=2, code=3, korean=1),
        drafter_of("c", english=1, code=2, korean=1.5),
    ]
    least = [(names, [one["model"] for one in members]) for names, members in chosen(found, min)]
    assert least == [(("general/korean",), ["a", "b"]), (("general/english",), ["c"])]
    assert [names for names, _ in chosen(found, max)] == [("general/code",)]


def test_a_tie_names_all_of_its_prompts_and_one_prompt_or_equal_ones_have_no_extreme() -> None:
    ((names, _),) = chosen([drafter_of("a", english=1, code=4, korean=1)], min)
    assert names == ("general/english", "general/korean")
    assert chosen([drafter_of("a", english=1), drafter_of("b", english=2, code=2)], min) == []


# --- positions -------------------------------------------------------------------------------------------------


def positions(of: Row, *accepted: int) -> tuple[Position, ...]:
    drafts = of.drafts or 0
    return tuple(
        Position(
            schema_version=SCHEMA_VERSION,
            campaign=of.campaign,
            row_id=of.row_id,
            configuration_id=of.configuration_id,
            position=place,
            drafts=drafts,
            accepted_tokens=count,
            acceptance_rate=count / drafts,
            conditional_rate=None,
        )
        for place, count in enumerate(accepted, start=1)
    )


def test_positions_are_pooled_as_sums_over_the_general_prompts() -> None:
    code, korean, synthetic = row("general/code", 100), row("general/korean", 300), row(drafts=100)
    found = study(
        code,
        korean,
        synthetic,
        positions=(*positions(code, 90, 10), *positions(korean, 30, 2), *positions(synthetic, 1, 1)),
    )
    (line,) = by_position(found, drafters(found))
    assert line.prompts == GENERAL
    assert [one.position for one in line.rates] == [1, 2]
    assert [one.rate for one in line.rates] == pytest.approx([120 / 400, 12 / 400])
    assert {(one.low, one.high) for one in line.rates} == {(None, None)}
    assert set(line.ids) == {code.row_id, korean.row_id}
    assert line.ends_rare


def test_without_general_prompts_the_positions_of_the_others_are_shown() -> None:
    one = row(drafts=100)
    found = study(one, positions=positions(one, 90, 60))
    (line,) = by_position(found, drafters(found))
    assert line.prompts == "synthetic"
    assert not line.ends_rare


def test_a_draft_that_is_never_accepted_does_not_end_rarely_but_begins_so() -> None:
    one = row(drafts=100)
    found = study(one, positions=positions(one, 0, 0))
    assert not by_position(found, drafters(found))[0].ends_rare


def test_the_range_at_a_position_spans_the_repeats() -> None:
    first, second = row(drafts=100), row(drafts=300, repeat=2)
    found = study(first, second, positions=(*positions(first, 90), *positions(second, 150)))
    (line,) = by_position(found, drafters(found))
    assert [line.rates[0].rate, line.rates[0].low, line.rates[0].high] == pytest.approx([240 / 400, 0.5, 0.9])


def test_positions_of_rows_with_a_failed_check_are_left_out() -> None:
    bad = row("general/code", 100, checks="throttled")
    found = study(bad, positions=positions(bad, 90))
    assert by_position(found, drafters(found)) == []


# --- published figures -----------------------------------------------------------------------------------------


def test_what_was_printed_for_one_link_or_concurrency_is_no_figure_of_the_drafter() -> None:
    found = {(one["model"], one["num_speculative_tokens"]): one for one in drafters(published())}
    gemma = found["gemma-4-31b", 4]
    assert gemma.rate["synthetic"].value == 0.7148  # 0.61 and 0.85 were printed for concurrency 1 with and without
    assert gemma.per_forward[GENERAL].ids == ("F054",)
    assert gemma.why("synthetic") == "not_published"
    assert found["exaone-4.5-33b", 1].rate["synthetic"].value == 0


def test_the_printed_size_is_that_of_the_drafter_or_of_the_weights_built_in() -> None:
    sizes = {}
    for one in drafters(published()):
        size = size_of(published(), one)
        sizes[one["model"], one["num_speculative_tokens"]] = size and (size.value, size.unit)
    assert sizes == {
        ("exaone-4.5-33b", 1): (1.0, "GiB"),
        ("exaone-4.5-33b", 3): (1.0, "GiB"),
        ("gemma-4-31b", 4): (0.47, "B"),
        ("muse-glimmer-30b", 15): (2.56, "B"),
    }
    assert size_of(study(row()), only(drafters(study(row())))) is None


def test_of_the_printed_figures_korean_is_not_lowest_for_every_drafter() -> None:
    least = [(names, [one["model"] for one in members]) for names, members in chosen(drafters(published()), min)]
    assert least == [
        (("general/korean",), ["gemma-4-31b", "muse-glimmer-30b"]),
        (("general/english",), ["exaone-4.5-33b"]),
    ]


def test_waste_is_what_was_drafted_and_not_accepted_pooled_over_rows() -> None:
    few = replace(make_row(**MTP), drafts=10, draft_tokens=40, accepted_tokens=30)
    many = replace(make_row(**MTP, concurrency=8, requests=16), drafts=90, draft_tokens=360, accepted_tokens=70)
    whole = study(few, many)
    (one,) = drafters(whole)
    found = waste_of(whole, one)
    assert found is not None
    assert found.per_token is not None
    assert found.prompts == "synthetic"
    assert found.share.value == pytest.approx(300 / 400)
    assert found.per_token.value == pytest.approx((400 + 100) / (100 + 100))
    rate = one.rate["synthetic"].value
    assert found.share.value == pytest.approx(1 - rate)


def test_of_a_printed_acceptance_the_waste_follows_for_the_same_prompts() -> None:
    published = read_published(DATA / "published")
    assert published is not None
    whole = Study(name=PUBLISHED, figures=published.figures)
    for one in drafters(whole):
        found = waste_of(whole, one)
        assert found is not None
        rate = one.rate[found.prompts].value
        k = one["num_speculative_tokens"]
        assert found.share.value == pytest.approx(1 - rate)
        assert found.per_token is not None
        assert found.per_token.value == pytest.approx((k + 1) / (1 + k * rate))
