"""The `vllm serve` command of a configuration, as it is run and as it is shown."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.core.command import (
    BASE_ENVIRONMENT,
    engine_environment,
    expander,
    flag_arguments,
    serve_arguments,
    shown_command,
)
from collector.core.configuration import Configuration
from collector.core.errors import PlanError
from collector.core.plan import parse_plan
from collector.core.secrets import HIDDEN
from tests.data_files import DATA

REFERENCE = parse_plan((DATA / "plans" / "reference.yaml").read_text(encoding="utf-8"), "reference.yaml")
VARIABLES = {"MODELS": "/disk one/models", "KEY": "a-key-of-mine", "ODD": "$HOME `id` \"q\" 'p' \\ *"}


def configuration(**entries: Any) -> Configuration:
    """Return the configuration of a plan with one entry, given as JSON, which is YAML."""
    plan: dict[str, Any] = {
        "plan": 1,
        "campaign": "c",
        "models": {"m": {"path": "org/m"}},
        "matrix": {"model": "m"} | entries,
        "stages": {"concurrency": {"1": 1}},
    }
    text = json.dumps(plan).replace('{"1": 1}', "{1: 1}")
    return parse_plan(text, "p.yaml").configurations[0]


PLAIN = configuration()


def test_a_configuration_that_says_nothing_gets_the_least() -> None:
    assert serve_arguments(PLAIN, port=8000) == [
        *("serve", "org/m", "--host", "127.0.0.1", "--port", "8000"),
        *("--served-model-name", "m", "--kv-cache-dtype", "auto", "--tensor-parallel-size", "1"),
        "--disable-uvicorn-access-log",
    ]


def test_a_drafting_configuration_without_nvlink_gets_this_command() -> None:
    found = next(one for one in REFERENCE.configurations if one.speculation == "dflash" and one.nvlink == "off")
    expand = expander(VARIABLES, "here")
    assert serve_arguments(found, port=8123, expand=expand) == [
        *("serve", "/disk one/models/muse-glimmer-30b-w4a16", "--host", "127.0.0.1", "--port", "8123"),
        *("--served-model-name", "muse-glimmer-30b", "--kv-cache-dtype", "auto", "--tensor-parallel-size", "2"),
        *("--max-model-len", "16384", "--max-num-seqs", "32", "--speculative-config"),
        '{"method":"dflash","model":"/disk one/models/muse-glimmer-30b-dflash","num_speculative_tokens":15}',
        *("--disable-uvicorn-access-log", "--disable-custom-all-reduce"),
    ]
    assert engine_environment(found, expand) == {
        **BASE_ENVIRONMENT,
        "HF_HUB_OFFLINE": "1",
        "NCCL_P2P_DISABLE": "1",
    }


def test_every_other_factor_has_its_flag() -> None:
    found = configuration(attention_backend="FLASHINFER", kv_cache_dtype="fp8_e5m2", max_num_seqs=4, max_model_len=4096)
    arguments = serve_arguments(found, port=1)
    for flag, value in (
        ("--attention-backend", "FLASHINFER"),
        ("--kv-cache-dtype", "fp8_e5m2"),
        ("--max-num-seqs", "4"),
        ("--max-model-len", "4096"),
    ):
        assert arguments[arguments.index(flag) + 1] == value


def test_flags_are_bare_negated_listed_or_json() -> None:
    flags: dict[str, Any] = {
        "enforce-eager": True,
        "enable-prefix-caching": False,
        "gpu-memory-utilization": 0.9,
        "seed": 0,
        "middleware": ["a.b", "c d", 3],
        "compilation-config": {"mode": 3, "a": [1, None, True]},
        "dtype": "bfloat16",
    }
    assert flag_arguments(flags) == [
        "--enforce-eager",
        "--no-enable-prefix-caching",
        *("--gpu-memory-utilization", "0.9"),
        *("--seed", "0"),
        *("--middleware", "a.b", "c d", "3"),
        *("--compilation-config", '{"a":[1,null,true],"mode":3}'),
        *("--dtype", "bfloat16"),
    ]


def test_flags_come_in_the_order_of_their_names_however_the_plan_lists_them() -> None:
    one = serve_arguments(configuration(flags=[{"seed": 1, "dtype": "half"}]), port=1)
    other = serve_arguments(configuration(flags=[{"dtype": "half", "seed": 1}]), port=1)
    assert one == other
    assert one[-4:] == ["--dtype", "half", "--seed", "1"]


def test_the_plan_may_set_what_keeps_logs_readable() -> None:
    found = engine_environment(configuration(environment=[{"VLLM_LOGGING_COLOR": 1, "A": "${KEY}"}]))
    assert found == {**BASE_ENVIRONMENT, "VLLM_LOGGING_COLOR": "1", "A": "${KEY}"}


def test_variables_are_expanded_once_and_only_in_braces() -> None:
    expand = expander({"A": "${B}", "B": "b", "HOME": "/h"}, "here")
    assert expand("x/${B}/${A}/$B/$HOME/~/${1}/$${B}") == "x/b/${B}/$B/$HOME/~/${1}/$b"


def test_a_variable_that_is_not_set_is_named() -> None:
    expand = expander({}, "configuration m")
    with pytest.raises(PlanError) as caught:
        serve_arguments(REFERENCE.configurations[0], port=1, expand=expand)
    assert str(caught.value) == "configuration m: ${MODELS} is not set; export MODELS before the sweep"


# --- as it is shown -------------------------------------------------------------------------------------------


def test_a_command_is_shown_as_it_would_be_typed() -> None:
    found = next(one for one in REFERENCE.configurations if one.speculation == "dflash" and one.nvlink == "off")
    assert shown_command(found, ["${ENGINE}", "-v"], None) == (
        'HF_HUB_OFFLINE=1 NCCL_P2P_DISABLE=1 "${ENGINE}" -v serve "${MODELS}/muse-glimmer-30b-w4a16" '
        "--host 127.0.0.1 --port PORT --served-model-name muse-glimmer-30b --kv-cache-dtype auto "
        "--tensor-parallel-size 2 --max-model-len 16384 --max-num-seqs 32 --speculative-config "
        r'"{\"method\":\"dflash\",\"model\":\"${MODELS}/muse-glimmer-30b-dflash\",\"num_speculative_tokens\":15}" '
        "--disable-uvicorn-access-log --disable-custom-all-reduce"
    )


def test_a_port_that_the_plan_fixes_is_shown() -> None:
    assert "--port 8001 " in shown_command(PLAIN, ["vllm"], 8001)


@pytest.mark.parametrize("index", range(0, 25, 4))
def test_what_is_shown_is_what_is_run_word_for_word(index: int) -> None:
    """Read back by the rules of a shell that expands nothing."""
    found = REFERENCE.configurations[index]
    words = shlex.split(shown_command(found, ["vllm"], 8000))
    environment = [f"{name}={value}" for name, value in found.environment]
    assert words == [*environment, "vllm", *serve_arguments(found, port=8000)]


_TELL = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('WHERE')]))"


def test_a_shell_runs_what_is_shown_as_collector_runs_it() -> None:
    """Spaces, quotes and dollars in values and in variables included."""
    found = configuration(
        environment=[{"WHERE": "${MODELS}/a b"}],
        speculation={"method": "x", "model": "${ODD}"},
        flags=[
            {"a": "$HOME ${ODD} `id`", "b": ["${MODELS}/*", "{1..3}", "'", '"'], "c": "back\\slash ${KEY}", "d": "*"}
        ],
    )
    shown = shown_command(found, [sys.executable, "-c", _TELL], 8000)
    done = subprocess.run(["/bin/sh", "-c", shown], env=VARIABLES, capture_output=True, text=True, check=True)
    expand = expander(VARIABLES, "here")
    assert json.loads(done.stdout) == [serve_arguments(found, port=8000, expand=expand), "/disk one/models/a b"]


words = st.lists(
    st.one_of(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
        st.text("${}MODELSKY`'\"\\ \n*~!#-", max_size=12),
    ),
    min_size=1,
    max_size=6,
).map(lambda parts: [part.replace("${", "$ {").replace("$ {MODELS}", "${MODELS}") for part in parts])


@given(words, st.booleans())
def test_any_flag_survives_the_shell(parts: list[str], named: bool) -> None:
    values = [f"{part}${{KEY}}" if named else part for part in parts]
    configured = replace(PLAIN, flags=(("x", values),))
    shown = shown_command(configured, ["printf", "%s\\0"], 1)
    done = subprocess.run(["/bin/sh", "-c", shown], env=VARIABLES, capture_output=True, check=True)
    found = done.stdout.decode().split("\0")[:-1]
    assert found == serve_arguments(configured, port=1, expand=expander(VARIABLES, "here"))


def test_secrets_are_not_shown() -> None:
    environment = {"HF_TOKEN": "${HF_TOKEN}", "MAX_TOKENS": 5, "VLLM_API_KEY": "${KEY}"}
    found = configuration(environment=[environment])
    shown = shown_command(found, ["vllm", "--api-key", "abc-def"], None)
    assert shown.startswith('HF_TOKEN="${HF_TOKEN}" MAX_TOKENS=5 VLLM_API_KEY="${KEY}" vllm --api-key [hidden] serve')
    kept = dict(found.environment)
    assert kept["VLLM_API_KEY"] == "${KEY}"


def test_a_secret_of_an_old_plan_is_hidden_all_the_same() -> None:
    """A plan may not state one; a configuration made by other means may hold one."""
    found = replace(PLAIN, environment=(("HF_TOKEN", "short"), ("URL", "http://a:secret@b/")))
    shown = shown_command(found, ["vllm"], None)
    assert shown.startswith(f"HF_TOKEN={shlex.quote(HIDDEN)} URL=http://{HIDDEN}@b/ vllm serve")
