"""A profile's file: what it may say, and how a slip is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.core.errors import UserError
from collector.emulator.faults import Faults
from collector.emulator.profile_file import load_profile, parse_profile, profile_of
from collector.measure.prompts import load_prompt_set
from tests.emulator.engines import GIB, PROFILE, drive, make, profile, samples, scenario, setup, started, total


def test_a_profile_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(PROFILE), encoding="utf-8")
    assert load_profile(path) == profile()
    with pytest.raises(UserError, match=r"absent\.json: cannot be read"):
        load_profile(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"modles": {}}, "modles"),
        ({"models": {}}, "models"),
        ({"profile": 2}, "profile"),
        ({"acceptance": {"plain": {"mtp": {"4": {"code": [1.2]}}}}}, r"acceptance\.plain\.mtp\.4\.code\.0"),
        ({"memory": {"gpu_bytes": 0}}, r"memory\.gpu_bytes"),
        ({"outcomes": [{"match": {}, "log": "x"}]}, r"outcomes\.0\.match"),
        ({"outcomes": [{"match": {"seris": "a"}, "log": "x"}]}, r"outcomes\.0\.match: found 'seris'.*'series'\?"),
        ({"outcomes": [{"match": {"series": "a"}}]}, r"outcomes\.0: needs either log"),
        ({"outcomes": [{"match": {"series": "a"}, "log": "x", "faults": {}}]}, r"outcomes\.0: needs either log"),
        (
            {"outcomes": [{"match": {"series": "a"}, "faults": {"hang": True}}]},
            r"outcomes\.0\.faults\.hang: .*; the faults are refuse, ",
        ),
        (
            {"outcomes": [{"match": {"series": "a"}, "faults": {"fail_every": 0}}]},
            r"outcomes\.0\.faults\.fail_every: Input should be greater",
        ),
        ({"extends": "dual-3091"}, r"extends: found 'dual-3091', allowed: dual-3090; did you mean 'dual-3090'\?"),
    ],
)
def test_a_slip_in_a_profile_is_named_with_its_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(UserError, match=f"p.json: {place}"):
        parse_profile(json.dumps(PROFILE | change), "p.json")


def test_a_file_that_is_no_json_is_told_with_its_line() -> None:
    with pytest.raises(UserError, match=r"p\.json: not JSON: .* line 2 column 1"):
        parse_profile("{\n", "p.json")
    with pytest.raises(UserError, match=r"p\.json: file: Input should be"):
        parse_profile("[]", "p.json")


def test_a_profile_that_extends_a_shipped_one_says_only_what_is_different() -> None:
    shipped = profile_of("dual-3090")
    changes = {"memory": {"gpu_bytes": 48 * GIB}, "models": {"gemma-4-31b": None}, "outcomes": []}
    ours = parse_profile(json.dumps({"extends": "dual-3090"} | changes), "folder/twice-the-card.json")
    assert ours.name == "twice-the-card"
    assert ours.memory == shipped.memory.model_copy(update={"gpu_bytes": 48 * GIB})
    assert dict(ours.models) == {name: one for name, one in shipped.models.items() if name != "gemma-4-31b"}
    assert (ours.outcomes, ours.hardware) == ((), shipped.hardware)


def test_the_first_outcome_that_matches_a_start_counts() -> None:
    of = profile(
        outcomes=[
            {"match": {"series": "a", "attempt": 1}, "faults": {"fail_every": 1}},
            {"match": {"series": "a", "repeat": 2}, "log": "x"},
            {"match": {"series": "a"}, "faults": {"fail_every": 3}},
        ]
    )
    starts = [setup(series="a", repeat=repeat, attempt=attempt) for repeat in (1, 2) for attempt in (1, 2)]
    found = [of.outcome(one) for one in (*starts, setup())]
    assert found == [of.outcomes[place] for place in (0, 2, 0, 1)] + [None]


def test_an_engine_has_the_faults_that_its_profile_scripts_unless_others_are_given() -> None:
    of = profile(outcomes=[{"match": {"series": "a"}, "faults": {"fail_every": 3}}])

    async def work() -> None:
        assert make({"series": "a"}, of=of).faults == Faults(fail_every=3)
        assert make({"series": "b"}, of=of).faults == Faults()
        assert make({"series": "a"}, {"die_after_tokens": 1}, of=of).faults == Faults(die_after_tokens=1)

    scenario(work)


def test_the_kind_of_each_prompt_that_the_collector_sends_is_recognised() -> None:
    kinds = profile()
    for kind in ("english", "code", "reasoning", "korean"):
        texts = load_prompt_set(f"general/{kind}").texts
        found = [kinds.kind_of(f"0123456789ab {text}", chat=True) for text in texts]
        assert found == [kind] * len(texts)
    assert kinds.kind_of(" ".join(load_prompt_set("synthetic").texts), chat=False) == "synthetic"


def test_acceptance_is_looked_up_by_model_method_k_and_kind() -> None:
    p = profile()
    assert p.conditional("plain", "mtp", 4, "synthetic") == (0.9, 0.8, 0.7, 0.6)
    assert p.conditional("plain", "mtp", 2, "code") == (0.95, 0.9)
    assert p.conditional("plain", "mtp", 4, "korean") == (0.4, 0.3, 0.3, 0.3)
    assert p.conditional("plain", "mtp", 4, "reasoning") == (0.9, 0.8, 0.7, 0.6)  # nothing else is known
    assert p.conditional("sliding", "dflash", 9, "synthetic")[2:] == (0.7,) * 7


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"model": "absent"}, "has no model 'absent'; it has plain, sliding"),
        ({"speculation": "eagle", "num_speculative_tokens": 2}, "has no acceptance of eagle for plain"),
    ],
)
def test_what_the_profile_does_not_know_is_refused_before_the_start(facts: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        make(facts)


@pytest.mark.parametrize(
    ("nvlink", "kind", "lanes", "none_accepted"),
    [
        ("on", "synthetic", 1, True),
        ("on", "synthetic", 4, False),
        ("off", "synthetic", 1, False),
        ("on", "code", 1, False),
    ],
)
def test_a_known_lone_run_counts_only_for_its_configuration_its_kind_and_while_a_request_is_alone(
    nvlink: str, kind: str, lanes: int, none_accepted: bool
) -> None:
    known = {"match": {"model": "plain", "nvlink": "on"}, "kind": "synthetic", "conditional": [0.0] * 4}
    facts = {"speculation": "mtp", "num_speculative_tokens": 4, "nvlink": nvlink}

    async def work() -> None:
        async with started(make(facts, of=profile(lone_runs=[known]))) as engine:
            await drive(engine, [(50, 64)] * 8, lanes, kind=kind)
            assert (total(samples(engine), "spec_decode_num_accepted_tokens_total") == 0) is none_accepted

    scenario(work)
