"""Plans: what they become, ids that stay, the order of repeats, and what a wrong plan is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from collector.core.configuration import Configuration, Plan, Stage, row_id
from collector.core.errors import PlanError
from collector.core.plan import parse_plan
from collector.core.plan_schema import PlanFile, json_schema
from collector.core.prompt_names import PROMPT_SETS
from tests.data_files import DATA

ROOT = Path(__file__).parents[2]
REFERENCE = DATA / "plans" / "reference.yaml"
SHIPPED = [*sorted((ROOT / "plans").glob("*.yaml")), REFERENCE]

SMALL = """\
plan: 1
campaign: small
engine:
  environment: {HF_HUB_OFFLINE: 1}
  flags: {enforce-eager: true}
models:
  first: {path: "${MODELS}/first", drafter: d}
  second: {path: second}
speculation:
  draft: {method: dflash, model: "{drafter}", num_speculative_tokens: 3}
defaults: {max_model_len: 1024}
matrix:
  model: [first]
  speculation: [off, draft]
stages:
  concurrency: {1: 2, 4: 8}
  prompt_tokens: 300
"""


def plan_of(text: str) -> Plan:
    return parse_plan(text, "p.yaml")


def changed(*changes: tuple[str, str], plan: str = SMALL) -> str:
    """Return the small plan with some of its text replaced; each must be there once."""
    for old, new in changes:
        assert plan.count(old) == 1, old
        plan = plan.replace(old, new)
    return plan


def ids(plan: Plan) -> list[str]:
    return [one.configuration_id for one in plan.configurations]


def cells(plan: Plan) -> list[str]:
    return [row_id(run.configuration, stage, run.repeat) for run in plan.runs for stage in run.stages]


# --- the reference experiment -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference() -> Plan:
    return parse_plan(REFERENCE.read_text(encoding="utf-8"), "reference.yaml")


def test_the_reference_experiment_has_its_25_configurations(reference: Plan) -> None:
    assert len(reference.configurations) == 25
    groups = Counter((one.model, one.series) for one in reference.configurations)
    assert groups == {
        ("muse-glimmer-30b", "main"): 8,
        ("exaone-4.5-33b", "main"): 8,
        ("exaone-4.5-33b", "k3"): 4,
        ("gemma-4-31b", "main"): 5,
    }


def test_the_reference_experiment_varies_what_it_says(reference: Plan) -> None:
    seen = {
        model: Counter(
            (one.kv_cache_dtype, one.speculation, one.num_speculative_tokens, one.nvlink)
            for one in reference.configurations
            if (one.model, one.series) == model
        )
        for model in {(one.model, one.series) for one in reference.configurations}
    }

    def product(dtypes: list[str], method: str, k: int) -> dict[tuple[str, str, int | None, str | None], int]:
        arms: list[tuple[str, int | None]] = [("off", None), (method, k)]
        return {(dtype, *arm, link): 1 for dtype in dtypes for arm in arms for link in ("on", "off")}

    both = ["auto", "fp8_e5m2"]
    assert seen["muse-glimmer-30b", "main"] == product(both, "dflash", 15)
    assert seen["exaone-4.5-33b", "main"] == product(both, "mtp", 1)
    assert seen["exaone-4.5-33b", "k3"] == product(["auto"], "mtp", 3)
    assert seen["gemma-4-31b", "main"] == product(["auto"], "mtp", 4) | {("fp8_e5m2", "off", None, None): 1}


def test_the_reference_experiment_has_four_stages_each_and_four_more_for_three_drafters(reference: Plan) -> None:
    assert len(cells(reference)) == len(set(cells(reference))) == 25 * 4 + 12
    load = {(1, 8), (8, 32), (16, 48), (32, 64)}
    general = {name for name in PROMPT_SETS if name.startswith("general/")}
    drafting = []
    for run in reference.runs:
        synthetic = [stage for stage in run.stages if stage.prompt_set == "synthetic"]
        assert {(stage.concurrency, stage.requests) for stage in synthetic} == load
        assert {(stage.prompt_tokens, stage.output_tokens) for stage in synthetic} == {(700, 256)}
        more = [stage for stage in run.stages if stage.prompt_set != "synthetic"]
        assert {stage.prompt_set for stage in more} in (set(), general)
        assert {(stage.concurrency, stage.prompt_tokens) for stage in more} <= {(1, None)}
        if more:
            drafting.append(run.configuration.label)
    assert drafting == [
        "muse-glimmer-30b · KV fp8_e5m2 · speculation dflash k=15 · NVLink on",
        "exaone-4.5-33b · KV auto · speculation mtp k=3 · NVLink on · k3",
        "gemma-4-31b · KV auto · speculation mtp k=4 · NVLink on",
    ]


def test_the_reference_experiment_fixes_the_rest(reference: Plan) -> None:
    for one in reference.configurations:
        assert (one.tensor_parallel, one.max_model_len, one.max_num_seqs) == (2, 16384, 32)
        assert one.version == "0.27.0"
        off = one.nvlink == "off"
        assert (("NCCL_P2P_DISABLE", "1") in one.environment) is off
        assert (("disable-custom-all-reduce", True) in one.flags) is off
        assert (one.drafter is not None) == (one.speculation != "off" and not one.model.startswith("exaone"))


# --- ids ------------------------------------------------------------------------------------------------------

_PRINT_IDS = """
import sys
from collector.core.configuration import row_id
from collector.core.plan import parse_plan
plan = parse_plan(open(sys.argv[1], encoding="utf-8").read(), "elsewhere.yaml")
for run in plan.runs:
    print(run.configuration.configuration_id, *[row_id(run.configuration, stage, run.repeat) for stage in run.stages])
"""


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_ids_are_the_same_in_every_process(seed: str, reference: Plan) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_IDS, str(REFERENCE)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": seed},
    )
    expected = [
        [run.configuration.configuration_id, *(row_id(run.configuration, stage, 1) for stage in run.stages)]
        for run in reference.runs
    ]
    assert [line.split() for line in done.stdout.splitlines()] == expected


def test_ids_are_the_same_in_every_version() -> None:
    """Written down: a change here parts new rows from all rows measured before."""
    plan = plan_of(SMALL)
    assert ids(plan) == ["a0e56f09eb", "57ce52b3b8"]
    assert cells(plan)[0] == "9e2ffd1109"


#: One factor each: the text that is replaced in the small plan.
OTHER_FACTORS: dict[str, list[tuple[str, str]]] = {
    "series": [("defaults: {", "defaults: {series: late, ")],
    "model": [("model: [first]", "model: [third]"), ("  first: {", "  third: {")],
    "model_path": [("${MODELS}/first", "${MODELS}/other")],
    "model_revision": [("drafter: d}", "drafter: d, revision: abc}")],
    "drafter": [("drafter: d}", "drafter: e}")],
    "kv_cache_dtype": [("defaults: {", "defaults: {kv_cache_dtype: fp8_e5m2, ")],
    "speculation": [("method: dflash", "method: eagle3")],
    "num_speculative_tokens": [("num_speculative_tokens: 3", "num_speculative_tokens: 4")],
    "speculative_config": [("method: dflash,", "method: dflash, draft_sample_method: greedy,")],
    "nvlink": [("defaults: {", "defaults: {nvlink: on, ")],
    "nvlink off": [("defaults: {", "defaults: {nvlink: off, ")],
    "tensor_parallel": [("defaults: {", "defaults: {tensor_parallel: 2, ")],
    "max_model_len": [("max_model_len: 1024", "max_model_len: 2048")],
    "max_num_seqs": [("defaults: {", "defaults: {max_num_seqs: 8, ")],
    "attention_backend": [("defaults: {", "defaults: {attention_backend: FLASHINFER, ")],
    "image": [("engine:\n", "engine:\n  image: vllm@sha256:00\n")],
    "version": [("engine:\n", "engine:\n  version: 0.27.0\n")],
    "flags": [("enforce-eager: true", "enforce-eager: false")],
    "another flag": [("enforce-eager: true", "enforce-eager: true, seed: 1")],
    "environment": [("HF_HUB_OFFLINE: 1", "HF_HUB_OFFLINE: 0")],
}


def test_every_factor_is_part_of_the_id() -> None:
    assert OTHER_FACTORS.keys() >= {*Configuration.__dataclass_fields__} - {"configuration_id"}
    drafting = {"": ids(plan_of(SMALL))[1]}
    for factor, changes in OTHER_FACTORS.items():
        drafting[factor] = ids(plan_of(changed(*changes)))[1]
    assert len(set(drafting.values())) == len(drafting)


def test_what_only_a_drafting_configuration_has_does_not_change_the_others() -> None:
    plain = ids(plan_of(SMALL))[0]
    for factor in ("drafter", "speculation", "num_speculative_tokens", "speculative_config"):
        assert ids(plan_of(changed(*OTHER_FACTORS[factor])))[0] == plain


@pytest.mark.parametrize(
    "changes",
    [
        [("plan: 1\ncampaign: small\n", "# remarks\ncampaign: small # and more\nplan: 1\n")],
        [("method: dflash, ", ""), ("_tokens: 3}", "_tokens: 3, method: dflash}")],
        [("  model: [first]\n  speculation: [off, draft]", "  speculation: [off, draft]\n  model: first")],
        [("campaign: small", "campaign: another\nabout: Something else")],
        [("engine:\n", "engine:\n  kind: docker\n")],
        [("engine:\n", "engine:\n  kind: url\n  url: http://127.0.0.1:1\n")],
        [("engine:\n", "engine:\n  command: [python, -m, vllm]\n  port: 8123\n")],
        [("HF_HUB_OFFLINE: 1", "HF_HUB_OFFLINE: '1', HF_TOKEN: '${HF_TOKEN}'")],
        [("HF_HUB_OFFLINE: 1", "VLLM_API_KEY: '${ANY}', HF_HUB_OFFLINE: 1")],
        [("max_model_len: 1024", "max_model_len: 1024, kv_cache_dtype: auto, series: main, tensor_parallel: 1")],
        [("speculation: [off, draft]", "speculation: [false, draft]")],
        [("stages:\n", "limits: {ready_s: 5}\nstages:\n")],
    ],
)  # fmt: skip
def test_ids_do_not_depend_on_how_a_plan_is_written_or_where_it_runs(changes: list[tuple[str, str]]) -> None:
    plan = plan_of(changed(*changes))
    assert ids(plan) == ids(plan_of(SMALL))
    assert cells(plan) == cells(plan_of(SMALL))


def test_a_row_id_is_that_of_its_cell_and_repeat() -> None:
    first, second = plan_of(SMALL).configurations
    stage = plan_of(SMALL).runs[0].stages[0]

    def other(**changes: Any) -> Stage:
        return Stage(**({name: getattr(stage, name) for name in Stage.__dataclass_fields__} | changes))

    made = {
        row_id(first, stage, 1),
        row_id(second, stage, 1),
        row_id(first, stage, 2),
        row_id(first, other(concurrency=2), 1),
        row_id(first, other(requests=3), 1),
        row_id(first, other(prompt_set="general/code"), 1),
        row_id(first, other(prompt_tokens=301), 1),
        row_id(first, other(prompt_tokens=None), 1),
        row_id(first, other(output_tokens=255), 1),
    }
    assert len(made) == 9
    assert row_id(first, other(warmup_requests=9, warmup_output_tokens=9), 1) in made


def test_the_digest_is_that_of_the_text() -> None:
    assert plan_of(SMALL).digest == plan_of(SMALL).digest != plan_of(SMALL + "# a remark\n").digest
    assert len(plan_of(SMALL).digest) == 12


# --- order ----------------------------------------------------------------------------------------------------

MANY = changed(("model: [first]", "model: [first, second]"), ("[off, draft]", "[off, draft, {method: ngram}]"), (
    "  second: {path: second}", "  second: {path: second, drafter: d}"))  # fmt: skip


def order(repeats: str) -> list[tuple[str, int]]:
    plan = plan_of(f"{MANY}repeats: {repeats}\n")
    return [(run.configuration.configuration_id, run.repeat) for run in plan.runs]


def test_listed_repeats_stand_in_a_row() -> None:
    plain = ids(plan_of(MANY))
    assert len(plain) == 6
    assert order("{count: 3, order: listed}") == [(one, repeat) for one in plain for repeat in (1, 2, 3)]


def test_interleaved_repeats_go_through_all_configurations_first() -> None:
    plain = ids(plan_of(MANY))
    expected = [(one, repeat) for repeat in (1, 2, 3) for one in plain]
    assert order("{count: 3, order: interleaved}") == order("{count: 3}") == expected


def test_shuffled_repeats_are_rounds_in_an_order_of_their_seed() -> None:
    plain = ids(plan_of(MANY))
    found = order("{count: 3, order: shuffled, seed: 7}")
    assert [repeat for _, repeat in found] == [1] * 6 + [2] * 6 + [3] * 6
    rounds = [[one for one, repeat in found if repeat == number] for number in (1, 2, 3)]
    assert all(sorted(one) == sorted(plain) for one in rounds)
    assert len({tuple(one) for one in rounds}) == 3
    assert found == order("{seed: 7, order: shuffled, count: 3}") != order("{count: 3, order: shuffled, seed: 8}")
    assert found[:6] == order("{count: 1, order: shuffled, seed: 7}")


def test_the_order_of_a_seed_is_the_same_in_every_version() -> None:
    plain = ids(plan_of(MANY))
    assert [plain.index(one) for one, _ in order("{count: 1, order: shuffled, seed: 7}")] == [2, 3, 5, 1, 4, 0]


def test_a_plan_without_repeats_runs_once_in_its_own_order() -> None:
    assert order("{}") == [(one, 1) for one in ids(plan_of(MANY))]


# --- words and switches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("on", "off"), [("on", "off"), ("true", "false"), ('"on"', '"off"'), ("True", "FALSE")])
def test_switches_may_be_written_in_either_yaml(on: str, off: str) -> None:
    plan = plan_of(changed(("speculation: [off, draft]", f"speculation: [{off}, draft]\n  nvlink: [{on}, {off}]")))
    found = {(one.speculation, one.nvlink) for one in plan.configurations}
    assert found == {("off", "on"), ("off", "off"), ("dflash", "on"), ("dflash", "off")}
    written = changed(("speculation: [off, draft]", "speculation: [off, draft]\n  nvlink: [on, off]"))
    assert ids(plan) == ids(plan_of(written))


def test_nvlink_off_adds_what_the_plan_says() -> None:
    plan = plan_of(changed(("defaults: {", "nvlink_off: {environment: {X: 2}, flags: {}}\ndefaults: {nvlink: off, ")))
    first = plan.configurations[0]
    assert first.environment == (("HF_HUB_OFFLINE", "1"), ("X", "2"))
    assert first.flags == (("enforce-eager", True),)


def test_the_nearest_word_wins_for_flags_and_environment() -> None:
    """Engine, then model, then what NVLink off adds, then the configuration itself."""
    plan = plan_of(
        changed(
            ("HF_HUB_OFFLINE: 1", "A: engine, B: engine, NCCL_P2P_DISABLE: engine"),
            ("drafter: d}", "drafter: d, environment: {A: model, B: model}, flags: {seed: 1, enforce-eager: false}}"),
            ("defaults: {", "defaults: {nvlink: off, environment: {B: own}, flags: {seed: 2}, "),
        )
    )
    first = plan.configurations[0]
    assert first.environment == (("A", "model"), ("B", "own"), ("NCCL_P2P_DISABLE", "1"))
    assert first.flags == (("disable-custom-all-reduce", True), ("enforce-eager", False), ("seed", 2))


def test_an_inline_speculation_is_the_named_one() -> None:
    entry = "{method: dflash, model: '{drafter}', num_speculative_tokens: 3}"
    inline = changed(("speculation: [off, draft]", f"speculation: [off, {entry}]"))
    assert ids(plan_of(inline)) == ids(plan_of(SMALL))
    found = plan_of(inline).configurations[1]
    assert found.speculative_config == '{"method":"dflash","model":"d","num_speculative_tokens":3}'


def test_the_drafter_is_the_one_that_the_speculation_names() -> None:
    """Not the model's own where another is named, or none."""
    arms = "[draft, {method: ngram}, {method: eagle3, model: org/other}, off]"
    plan = plan_of(changed(("speculation: [off, draft]", f"speculation: {arms}")))
    found = [(one.speculation, one.drafter) for one in plan.configurations]
    assert found == [("dflash", "d"), ("ngram", None), ("eagle3", "org/other"), ("off", None)]


def test_excluded_combinations_are_left_out() -> None:
    plan = plan_of(f"{MANY}exclude: [{{model: second, speculation: draft}}, {{speculation: off, model: first}}]\n")
    found = [(one.model, one.speculation) for one in plan.configurations]
    assert found == [("first", "dflash"), ("first", "ngram"), ("second", "off"), ("second", "ngram")]


def test_a_filter_may_name_what_the_plan_leaves_at_its_default() -> None:
    plan = plan_of(
        f"{SMALL}exclude: [{{speculation: draft, kv_cache_dtype: auto, series: main, tensor_parallel: 1}}]\n"
    )
    assert [one.speculation for one in plan.configurations] == ["off"]


def test_stages_apply_only_where_they_match() -> None:
    more = "  - {concurrency: {1: 1}, prompt_set: general/code, only: {speculation: draft}}\n"
    all_of_them = "  - {concurrency: {1: 2, 4: 8}, prompt_tokens: 300}\n"
    text = changed(("  concurrency: {1: 2, 4: 8}\n  prompt_tokens: 300\n", more + all_of_them))
    plain, drafting = plan_of(text).runs
    assert [stage.label for stage in plain.stages] == [
        "concurrency 1, 2 requests, synthetic",
        "concurrency 4, 8 requests, synthetic",
    ]
    assert [stage.label for stage in drafting.stages][:1] == ["concurrency 1, 1 requests, general/code"]
    assert len(drafting.stages) == 3


def test_warm_up_is_rounds_of_the_stage_s_concurrency() -> None:
    plan = plan_of(SMALL + "  warm_up: {rounds: 2, output_tokens: 5}\n")
    found = [(stage.warmup_requests, stage.warmup_output_tokens) for stage in plan.runs[0].stages]
    assert found == [(2, 5), (8, 5)]


def test_anchors_and_merges_are_read() -> None:
    text = changed(("  second: {path: second}", "  second: &base {path: second}\n  third: {<<: *base, revision: r}"), (
        "model: [first]", "model: [third]"), ("[off, draft]", "off"))  # fmt: skip
    (only,) = plan_of(text).configurations
    assert (only.model_path, only.model_revision) == ("second", "r")


# --- wrong plans ----------------------------------------------------------------------------------------------

TOP = ", ".join(PlanFile.model_fields)
FACTORS = (
    "model, kv_cache_dtype, speculation, nvlink, series, tensor_parallel, max_model_len, max_num_seqs, "
    "attention_backend, image, version, flags, environment"
)


class Wrong(NamedTuple):
    """Changes of the small plan, or a whole text; the whole message; whether the JSON schema sees it."""

    text: list[tuple[str, str]] | str
    says: str
    by_shape: bool = False


WRONG: dict[str, Wrong] = {
    "a typing error in a key": Wrong(
        [("  model: [first]", "  modle: [first]")],
        f"p.yaml, line 13: matrix.modle: unknown key; did you mean 'model'?; allowed: {FACTORS}",
        by_shape=True,
    ),
    "a typing error at the top": Wrong(
        [("campaign: small", "campain: small")],
        "p.yaml: plan: the key 'campaign' is missing\n"
        f"p.yaml, line 2: campain: unknown key; did you mean 'campaign'?; allowed: {TOP}",
        by_shape=True,
    ),
    "a typing error deep inside": Wrong(
        [("drafter: d}", "draftr: d}")],
        "p.yaml, line 7: models.first.draftr: unknown key; did you mean 'drafter'?; "
        "allowed: path, revision, drafter, environment, flags",
        by_shape=True,
    ),
    "a model that is not named": Wrong(
        [("model: [first]", "model: [frist]")],
        "p.yaml, line 13: matrix.model: found 'frist', allowed: first, second; did you mean 'first'?",
    ),
    "a speculation that is not named": Wrong(
        [("[off, draft]", "[off, darft]")],
        "p.yaml, line 14: matrix.speculation: found 'darft', allowed: off, draft; did you mean 'draft'?",
    ),
    "a prompt set that is not there": Wrong(
        [("  prompt_tokens: 300", "  prompt_set: general/korea")],
        "p.yaml, line 17: stages.prompt_set: found 'general/korea' (str), allowed: synthetic, general/english, "
        "general/code, general/reasoning, general/korean; did you mean 'general/korean' or 'general/code'?",
        by_shape=True,
    ),
    "another switch": Wrong(
        [("defaults: {", "defaults: {nvlink: yes, ")],
        "p.yaml, line 11: defaults.nvlink: found 'yes' (str), allowed: on, off",
        by_shape=True,
    ),
    "text where a number is due": Wrong(
        [("max_model_len: 1024", "max_model_len: 1k")],
        "p.yaml, line 11: defaults.max_model_len: found '1k' (str), expected a valid integer",
        by_shape=True,
    ),
    "a number where text is due": Wrong(
        [("engine:\n", "engine:\n  version: 0.27\n")],
        "p.yaml, line 4: engine.version: found 0.27 (float), expected a valid string",
        by_shape=True,
    ),
    "a number that is too small": Wrong(
        [("4: 8", "4: 0")],
        "p.yaml, line 16: stages.concurrency.4: found 0 (int), expected greater than or equal to 1",
        by_shape=True,
    ),
    "a word where a concurrency is due": Wrong(
        [("4: 8", "four: 8")],
        "p.yaml, line 16: stages.concurrency.four: found the key four, expected a valid integer",
    ),
    "a truth value in the environment": Wrong(
        [("HF_HUB_OFFLINE: 1", "HF_HUB_OFFLINE: true")],
        "p.yaml, line 4: engine.environment.HF_HUB_OFFLINE: found True (bool), expected text or a number; quote the "
        "value to pass it as it stands",
        by_shape=True,
    ),
    "a missing key": Wrong(
        [('path: "${MODELS}/first", ', "")],
        "p.yaml, line 7: models.first: the key 'path' is missing",
        by_shape=True,
    ),
    "no stages": Wrong(
        [("stages:\n  concurrency: {1: 2, 4: 8}\n  prompt_tokens: 300\n", "")],
        "p.yaml: plan: the key 'stages' is missing",
        by_shape=True,
    ),
    "a list with nothing in it": Wrong(
        [("model: [first]", "model: []")],
        "p.yaml, line 13: matrix.model: found [] (list), expected at least one entry",
        by_shape=True,
    ),
    "a part that is a word": Wrong(
        [("engine:\n  environment: {HF_HUB_OFFLINE: 1}\n  flags: {enforce-eager: true}", "engine: vllm")],
        "p.yaml, line 3: engine: found 'vllm' (str), expected a mapping with the keys kind, version, command, image, "
        "container, url, port, api_key_variable, gpu_busy, profile, environment, flags",
        by_shape=True,
    ),
    "another version of the format": Wrong(
        [("plan: 1", "plan: 2")],
        "p.yaml, line 1: plan: found 2 (int), allowed: 1",
        by_shape=True,
    ),
    "a campaign whose name the site uses": Wrong(
        [("campaign: small", "campaign: index")],
        "p.yaml, line 2: campaign: found 'index' (str), expected any name but index and published, "
        "which data/ and the site use themselves",
    ),
    "a campaign that is no folder": Wrong(
        [("campaign: small", "campaign: ../x")],
        "p.yaml, line 2: campaign: found '../x' (str), expected String should match pattern "
        "'^[a-z0-9][a-z0-9.-]{0,63}$'",
        by_shape=True,
    ),
    "not YAML": Wrong(
        [("campaign: small", "campaign: small: er")],
        "p.yaml, line 2, column 16: not YAML: mapping values are not allowed here",
    ),
    "a key twice": Wrong(
        [("stages:\n", "campaign: small\nstages:\n")],
        'p.yaml, line 15, column 1: not YAML: found duplicate key "campaign" with value "small" '
        '(original value: "small")',
    ),
    "a tab": Wrong(
        [("  model: [first]", "\tmodel: [first]")],
        "p.yaml, line 13, column 1: not YAML: found character '\\t' that cannot start any token",
    ),
    "a date that is none": Wrong(
        [("campaign: small", "campaign: 2026-13-01")],
        "p.yaml: not YAML: month must be in 1..12",
    ),
    "brackets without end": Wrong("[" * 1000, "p.yaml: not YAML that can be read: nested too deeply"),
    "an empty file": Wrong("", f"p.yaml: found nothing, expected a mapping with the keys {TOP}"),
    "only remarks": Wrong("# nothing yet\n", f"p.yaml: found nothing, expected a mapping with the keys {TOP}"),
    "a list": Wrong(
        "- plan: 1\n", f"p.yaml: found [{{'plan': 1}}] (list), expected a mapping with the keys {TOP}", by_shape=True
    ),
    "a word": Wrong("plan", f"p.yaml: found 'plan' (str), expected a mapping with the keys {TOP}", by_shape=True),
    "a secret in the engine's environment": Wrong(
        [("HF_HUB_OFFLINE: 1", "HF_TOKEN: abc")],
        "p.yaml, line 4: engine.environment.HF_TOKEN: a secret may not stand in a plan, which is stored with the rows; "
        "write ${HF_TOKEN}",
    ),
    "a secret in the defaults": Wrong(
        [("defaults: {", "defaults: {environment: {MY_API_KEY: 12345}, ")],
        "p.yaml, line 11: defaults.environment.MY_API_KEY: a secret may not stand in a plan, which is stored with the "
        "rows; write ${MY_API_KEY}",
    ),
    "a secret in the matrix": Wrong(
        [("model: [first]", "model: [first]\n  environment: [{A: 1}, {DB_PASSWORD: x}]")],
        "p.yaml, line 14: matrix.environment[1].DB_PASSWORD: a secret may not stand in a plan, which is stored with "
        "the rows; write ${DB_PASSWORD}",
    ),
    "a secret beside NVLink": Wrong(
        [("defaults: {", "nvlink_off: {environment: {A_SECRET: x}}\ndefaults: {")],
        "p.yaml, line 11: nvlink_off.environment.A_SECRET: a secret may not stand in a plan, which is stored with the "
        "rows; write ${A_SECRET}",
    ),
    "a secret as a flag": Wrong(
        [("enforce-eager: true", "hf-token: abc")],
        "p.yaml, line 5: engine.flags.hf-token: a secret may not stand in a plan, which is stored with the rows; "
        "write ${NAME}",
    ),
    "a secret by its shape": Wrong(
        [("path: second", "path: https://me:pa55word@example.org/m")],
        "p.yaml, line 8: models.second.path: a secret may not stand in a plan, which is stored with the rows; "
        "write ${NAME}",
    ),
    "a flag that collector sets": Wrong(
        [("enforce-eager: true", "port: 8000")],
        "p.yaml, line 5: engine.flags: found the flag 'port', which collector sets itself; allowed: any other",
    ),
    "a factor as a flag": Wrong(
        [("enforce-eager: true", "max-num-seqs: 8")],
        "p.yaml, line 5: engine.flags: found the flag 'max-num-seqs', allowed: the key 'max_num_seqs' instead",
    ),
    "a part of a factor as a flag": Wrong(
        [("enforce-eager: true", "speculative-config.method: ngram")],
        "p.yaml, line 5: engine.flags: found the flag 'speculative-config.method', allowed: the key 'speculation' "
        "instead",
    ),
    "a flag with its dashes": Wrong(
        [("enforce-eager: true", "--enforce-eager: true")],
        "p.yaml, line 5: engine.flags: found the flag '--enforce-eager', allowed: the long name without dashes, as in "
        "enforce-eager: true",
    ),
    "a flag and its value in one": Wrong(
        [("enforce-eager: true", "max-num-seqs=8: true")],
        "p.yaml, line 5: engine.flags: found the flag 'max-num-seqs=8', allowed: the long name without dashes, as in "
        "enforce-eager: true",
    ),
    "a flag without a value": Wrong(
        [("enforce-eager: true", "enforce-eager: ")],
        "p.yaml, line 5: engine.flags: found 'enforce-eager' without a value, allowed: true for a bare flag",
    ),
    "flags that are a list": Wrong(
        [("flags: {enforce-eager: true}", "flags: [enforce-eager]")],
        "p.yaml, line 5: engine.flags: found ['enforce-eager'] (list), allowed: a mapping of serve flags to true, "
        "false, text, number, list or object",
        by_shape=True,
    ),
    "a flag's value that no command line can hold": Wrong(
        [("enforce-eager: true", "since: 2026-08-20")],
        "p.yaml, line 5: engine.flags: found 'since' with datetime.date(2026, 8, 20), allowed: true, false, text, "
        "finite numbers, lists and mappings of these",
    ),
    "a speculation that is a number": Wrong(
        [("[off, draft]", "[off, 4]")],
        "p.yaml, line 14: matrix.speculation[1]: found 4 (int), allowed: off, a name of `speculation`, or an object "
        "for --speculative-config",
        by_shape=True,
    ),
    "an exclusion that matches nothing": Wrong(
        [("stages:\n", "exclude: [{model: second}]\nstages:\n")],
        "p.yaml, line 15: exclude[0]: matches no combination of the matrix",
    ),
    "a stage filter that matches nothing": Wrong(
        [("  prompt_tokens: 300", "  only: [{speculation: off}, {speculation: draft}, {nvlink: on}]")],
        "p.yaml, line 17: stages.only[2]: matches no configuration",
    ),
    "a configuration twice": Wrong(
        [("stages:\n", "extra:\n  - {model: first, speculation: draft}\nstages:\n")],
        "p.yaml, line 16: extra[0]: the configuration 'first · KV auto · speculation dflash k=3' is already given by "
        "matrix",
    ),
    "a configuration twice within a list": Wrong(
        [("model: [first]", "model: [first, first]")],
        "p.yaml, line 12: matrix: the configuration 'first · KV auto · speculation off' is already given by matrix",
    ),
    "a stage twice": Wrong(
        [("  prompt_tokens: 300", "  prompt_set: [general/code, general/code]")],
        "p.yaml, line 15: stages: 'first · KV auto · speculation off' gets twice: concurrency 1, 2 requests, "
        "general/code",
    ),
    "fewer requests than lanes": Wrong(
        [("4: 8", "4: 3")],
        "p.yaml, line 16: stages.concurrency.4: 3 requests cannot keep 4 in flight; give at least 4",
    ),
    "a prompt that is too long": Wrong(
        [("prompt_tokens: 300", "prompt_tokens: 800")],
        "p.yaml, line 15: stages: 800 prompt tokens + 256 output tokens do not fit max_model_len 1024 of "
        "'first · KV auto · speculation off'",
    ),
    "a schedule that overlaps": Wrong(
        [
            (
                "num_speculative_tokens: 3}",
                "num_speculative_tokens: 3, num_speculative_tokens_per_batch_size: [[1, 4, 3], [4, 8, 1]]}",
            )
        ],
        "p.yaml, line 10: speculation.draft: num_speculative_tokens_per_batch_size: the ranges [1, 4, 3] and [4, 8, 1] "
        "overlap",
    ),
    "a drafter that the model does not name": Wrong(
        [("model: [first]", "model: [second]")],
        "p.yaml, line 10: speculation.draft: '{drafter}' needs a drafter; model 'second' names no drafter",
    ),
    "a speculation named off": Wrong(
        [("  draft: {method", "  off: {method: ngram}\n  draft: {method")],
        "p.yaml, line 10: speculation.off: off means no speculation; choose another name",
    ),
    "no model": Wrong(
        [("  model: [first]\n", "")],
        "p.yaml, line 12: matrix: no model: name one of first, second here or in `defaults`",
    ),
    "no configuration": Wrong(
        [("matrix:\n  model: [first]\n  speculation: [off, draft]\n", "")],
        "p.yaml: plan: no configuration: give `matrix` or `extra` (or exclude less)",
    ),
    "everything excluded": Wrong(
        [("stages:\n", "exclude: [{model: first}]\nstages:\n")],
        "p.yaml: plan: no configuration: give `matrix` or `extra` (or exclude less)",
    ),
    "no stage for a configuration": Wrong(
        [("  prompt_tokens: 300", "  only: {speculation: draft}")],
        "p.yaml, line 15: stages: no stage applies to the configuration 'first · KV auto · speculation off'",
    ),
    "an address that is missing": Wrong(
        [("engine:\n", "engine:\n  kind: url\n")],
        "p.yaml, line 3: engine: kind url needs `url`, such as http://127.0.0.1:8000",
    ),
    "an error behind a merge": Wrong(
        [("  second: {path: second}", "  second: &base {path: 2}\n  third: {<<: *base}")],
        "p.yaml, line 8: models.second.path: found 2 (int), expected a valid string\n"
        "p.yaml, line 9: models.third.path: found 2 (int), expected a valid string",
        by_shape=True,
    ),
    "numbers as keys": Wrong(
        [("campaign: small", "campaign: small\n7: 1")],
        "p.yaml, line 3: 7: found the key 7, expected a word; quote it",
    ),
}


def wrong_text(case: str) -> str:
    text = WRONG[case].text
    return text if isinstance(text, str) else changed(*text)


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_plan_is_told_what_is_where_and_what_would_be_right(case: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan_of(wrong_text(case))
    assert str(caught.value) == WRONG[case].says


def test_many_errors_are_cut_short() -> None:
    extra = "".join(f"wrong{index}: 1\n" for index in range(13))
    with pytest.raises(PlanError) as caught:
        plan_of(SMALL + extra)
    told = str(caught.value).splitlines()
    assert len(told) == 11
    assert told[-1] == "… and 3 more"


# --- the JSON schema ------------------------------------------------------------------------------------------


def as_json(text: str) -> Any:
    """Return a plan as an editor's validator sees it: plain JSON, every key a string."""
    return json.loads(json.dumps(YAML(typ="safe", pure=True).load(text)))


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(json_schema())
    assert json_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda one: one.name)
def test_the_schema_accepts_the_plans_that_are_shipped(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert list(Draft202012Validator(json_schema()).iter_errors(as_json(text))) == []
    assert parse_plan(text, path.name).runs


def test_the_schema_accepts_the_small_plan() -> None:
    assert Draft202012Validator(json_schema()).is_valid(as_json(SMALL))


@pytest.mark.parametrize("case", [case for case, one in WRONG.items() if one.by_shape])
def test_the_schema_refuses_what_is_wrong_by_shape(case: str) -> None:
    assert not Draft202012Validator(json_schema()).is_valid(as_json(wrong_text(case)))


def test_every_key_that_needs_words_has_a_description_in_the_schema() -> None:
    parts = json_schema()["$defs"]
    for part, key in (("Engine", "command"), ("Model", "drafter"), ("Stages", "only"), ("Limits", "stop_s")):
        assert parts[part]["properties"][key]["description"]


# --- anything at all ------------------------------------------------------------------------------------------

fragments = st.sampled_from(
    ["\t", ":", "- ", "{", "}", "[", "]", "&a ", "*a", "!!set ", "!!int ", "!x ", "? ", "\n", "  ", "'", '"', "#", "|",
     "null", "~", ".nan", ".inf", "2026-02-31", "2026-02-01", "<<: *a", "off", "true", "9" * 5000, "\x00", "\ud7ff",
     ">", "%", '"\\ud800"', "-1", "0", "1e999", "---\n", "...\n", "0x", "0b2", "1_0", "12:30:45", "=",
     "{drafter}", "${X}"]
)  # fmt: skip
edits = st.lists(
    st.tuples(st.integers(min_value=0, max_value=len(SMALL)), st.integers(min_value=0, max_value=12), fragments),
    min_size=1,
    max_size=4,
)


def told(text: str) -> str:
    """Return what a text is told, if anything: nothing but a plan or a PlanError comes of it."""
    try:
        plan_of(text)
    except PlanError as error:
        return str(error)
    return "p.yaml is a plan"


@given(st.text(max_size=60))
def test_any_text_is_a_plan_or_a_plan_error(text: str) -> None:
    assert told(text).startswith("p.yaml")


@given(edits)
def test_any_damage_to_a_plan_is_survived_or_named(damage: list[tuple[int, int, str]]) -> None:
    text = SMALL
    for at, length, fragment in damage:
        text = text[:at] + fragment + text[at + length :]
    assert told(text).startswith("p.yaml")


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-3, max_value=2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["off", "on", "first", "draft", "{drafter}", "synthetic", "process", "${X}"]),
)
keys = st.one_of(
    st.sampled_from([*PlanFile.model_fields, *FACTORS.split(", "), "method", "1", "path"]), st.text(max_size=5)
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
tree = YAML(typ="safe", pure=True).load(SMALL)


@given(st.dictionaries(st.sampled_from(list(PlanFile.model_fields)), anything, max_size=3))
def test_any_values_of_the_right_keys_are_a_plan_or_a_plan_error(values: dict[str, Any]) -> None:
    """Written as JSON, which is YAML."""
    assert told(json.dumps({str(key): value for key, value in tree.items()} | values)).startswith("p.yaml")


@given(st.sampled_from(FACTORS.split(", ")), anything, st.sampled_from(["defaults", "matrix", "extra", "exclude"]))
def test_any_value_of_a_factor_is_a_plan_or_a_plan_error(factor: str, value: Any, part: str) -> None:
    made: Any = {"model": "first"} | {factor: value}
    assert told(json.dumps(tree | {part: [made] if part in ("extra", "exclude") else made})).startswith("p.yaml")


def test_flags_of_a_configuration_add_to_the_defaults_name_by_name() -> None:
    plan = parse_plan(
        "plan: 1\ncampaign: c\nmodels: {m: {path: p}}\n"
        "defaults: {model: m, flags: {enforce-eager: true, block-size: 16}}\n"
        "extra:\n  - {flags: {block-size: 32}}\n  - {}\nstages: {concurrency: {1: 1}}\n",
        "plan.yaml",
    )
    assert [dict(one.flags) for one in plan.configurations] == [
        {"block-size": 32, "enforce-eager": True},
        {"block-size": 16, "enforce-eager": True},
    ]
