"""What is pasted is what the row says: each file is parsed back by the reader it is for, whatever a name holds."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # as vLLM reads it: YAML 1.1
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.core.configuration import Configuration
from collector.core.errors import DataError
from collector.core.plan import parse_plan
from collector.core.plan_schema import Container
from collector.core.rows import Row
from collector.core.serving import HUB_INSIDE, Serving, command_text, compose_text, config_text, serving_of
from collector.core.speculative import SCHEDULE
from collector.report.build import read_campaign
from tests.report.sample import make_row

DATA = Path(__file__).resolve().parents[2] / "data"
MTP: dict[str, Any] = {"speculation": "mtp", "num_speculative_tokens": 4, "tokens_per_step": 3.0}
#: What a shell, YAML, JSON, compose or a comment could take for something else.
HOSTILE = [
    "a b",
    "it's; rm -rf $HOME",
    '"$(touch x)"`id`',
    "off",
    "~",
    "1e3",
    "yes: no # comment",
    "한국어 모델 ✓",
    "$MODELS $$ $(",
    "*alias &anchor !tag %x",
    "line\nbreak\ttab",
    "{not: json",
    "back\\slash",
    "0x1f",
    "2026-01-01",
]


def words_of(text: str) -> list[str]:
    """Return the words of a script after `vllm serve`, as a shell splits them."""
    script = re.sub(r'\A(#.*\n|: ".*"\n)*', "", text).replace(" \\\n  ", " ")
    words = shlex.split(script)
    return words[words.index("serve") + 1 :]


def service_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)["services"]["vllm"]
    return found


def uncomposed(node: Any) -> Any:
    """Undo what compose does to a dollar and to a variable that must be set."""
    if isinstance(node, list):
        return [uncomposed(one) for one in node]
    return re.sub(r"\$\{(\w+):\?not set\}", r"${\1}", node).replace("$$", "$")


def configured(text: str) -> list[str]:
    """Return the arguments that vLLM makes of a config file (FlexibleArgumentParser.load_config_file)."""
    found = []
    for name, value in yaml.safe_load(text).items():
        if value is True:
            found.append(f"--{name}")
        elif isinstance(value, list):
            found += [f"--{name}", *map(str, value)]
        else:
            found += [f"--{name}", str(value)]
    return found


def agrees(serving: Serving, row: Row) -> None:
    """Hold all three files against the columns of the row."""
    wanted = {
        "--served-model-name": row.model,
        "--kv-cache-dtype": row.kv_cache_dtype,
        "--tensor-parallel-size": str(row.tensor_parallel),
        "--max-model-len": str(row.max_model_len),
        "--max-num-seqs": str(row.max_num_seqs),
    } | ({"--speculative-config": row.speculative_config} if row.speculative_config else {})
    config, command = configured(config_text(serving)), words_of(command_text(serving))
    composed = uncomposed(service_of(compose_text(serving))["command"])
    for arguments, path in ((command, command[0]), (composed, composed[0]), (config, config[1])):
        assert path == row.model_path
        assert {name: arguments[arguments.index(name) + 1] for name in wanted} == wanted
    assert composed == command == [config[1], *config[2:]]
    assert ("--speculative-config" in command) == (row.speculative_config is not None)


@pytest.mark.parametrize("campaign", ["dual-3090", "follow-up"])
def test_every_configuration_of_the_stored_campaigns_is_read_back_as_its_row_has_it(campaign: str) -> None:
    rows = {row.configuration_id: row for row in read_campaign(DATA / campaign).rows}
    for row in rows.values():
        agrees(serving_of(row), row)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_one_value_in_every_file(name: str) -> None:
    config = json.dumps({"method": "mtp", "model": name, "num_speculative_tokens": 4}, separators=(",", ":"))
    row = make_row(
        **MTP,
        model=name,
        model_path=f"x/{name}",
        speculative_config=config,
        extra_flags=shlex.join(["--hf-token-file", name]),
    )
    agrees(serving_of(row), row)


@settings(max_examples=40)
@given(
    st.text(min_size=1, max_size=20).filter(
        lambda text: not text.startswith("-") and "${" not in text and "\0" not in text
    )
)
def test_any_text_stays_one_value_in_every_file(name: str) -> None:
    name = name.encode("utf-8", "replace").decode().replace("\r", " ")
    row = make_row(model=name, model_path="x/" + name)
    agrees(serving_of(row), row)


@pytest.mark.parametrize("name", [one for one in HOSTILE if "\n" not in one])
def test_a_real_shell_hands_on_what_the_row_says(name: str, tmp_path: Path) -> None:
    row = make_row(**MTP, model=name, model_path="${MODELS}/" + name)
    script = "vllm() { printf '%s\\0' \"$@\"; }\n" + command_text(serving_of(row), [f"about {name}\n echo bad"])
    done = subprocess.run(
        ["sh", "-c", script], env={"MODELS": "/srv/my models"}, cwd=tmp_path, capture_output=True, check=True
    )
    got = done.stdout.decode().split("\0")[:-1]
    assert got[:4] == ["serve", f"/srv/my models/{name}", "--served-model-name", name]
    assert got[got.index("--speculative-config") + 1] == row.speculative_config
    assert list(tmp_path.iterdir()) == []


def test_a_variable_that_is_not_set_stops_the_shell_with_its_name() -> None:
    script = "vllm() { echo started; }\n" + command_text(serving_of(make_row(model_path="${MODELS}/x")))
    done = subprocess.run(["sh", "-c", script], env={}, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "MODELS" in done.stderr
    assert "started" not in done.stdout


def test_a_comment_never_becomes_a_line_of_its_own() -> None:
    serving = serving_of(make_row())
    for text in (command_text, config_text, compose_text):
        lines = text(serving, ["one\ntwo\r\u2028three"]).splitlines()
        assert lines[0].startswith("# one two")
        assert not lines[1].startswith(("two", "three", "#"))


def test_a_compose_file_has_the_cards_the_image_the_shared_memory_and_the_models() -> None:
    config = '{"method":"mtp","model":"org/draft","num_speculative_tokens":4}'
    row = make_row(**MTP, model_path="${MODELS}/m", speculative_config=config, image="vllm/vllm-openai@sha256:ab")
    service = service_of(compose_text(serving_of(row)))
    assert service["image"] == "vllm/vllm-openai@sha256:ab"
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 2, "capabilities": ["gpu"]}
    assert service["environment"] == {"HF_HOME": HUB_INSIDE}
    assert service["ipc"] == "host"
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    assert [one["target"] for one in service["volumes"]] == ["${MODELS:?not set}/m", HUB_INSIDE]
    cpu = service_of(compose_text(serving_of(replace(row, gpu_model=None, image=None))))
    assert "deploy" not in cpu
    assert cpu["image"] == "vllm/vllm-openai:v0.27.0"


def test_the_models_of_the_hub_lie_where_the_container_of_a_sweep_has_them() -> None:
    service = service_of(compose_text(serving_of(make_row(model_path="org/m"))))
    (hub,) = service["volumes"]
    assert f"{hub['source'].replace(':?not set', '')}:{hub['target']}" in Container().volumes
    assert service["environment"]["HF_HOME"] == hub["target"]


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("vllm/vllm-openai:v0.27.0", "vllm/vllm-openai"),
        ("host:5000/vllm", "host:5000/vllm"),
        (None, "vllm/vllm-openai"),
    ],
)
def test_the_image_that_ran_is_named_by_its_digest(image: str | None, name: str) -> None:
    row = replace(make_row(), image=image, image_digest="sha256:ab")
    assert service_of(compose_text(serving_of(row)))["image"] == f"{name}@sha256:ab"


def test_flags_beyond_the_columns_come_back_one_by_one() -> None:
    flags = "--no-enable-prefix-caching --compilation-config '{\"mode\":3}' --allowed-origins a b --seed=-1"
    serving = serving_of(make_row(extra_flags=flags))
    tail = [
        "--no-enable-prefix-caching",
        "--compilation-config",
        '{"mode":3}',
        "--allowed-origins",
        "a",
        "b",
        "--seed=-1",
    ]
    assert words_of(command_text(serving))[-len(tail) :] == tail
    assert yaml.safe_load(config_text(serving))["allowed-origins"] == ["a", "b"]
    assert yaml.safe_load(config_text(serving))["no-enable-prefix-caching"] is True


def test_flags_that_cannot_be_told_apart_are_refused_with_the_row() -> None:
    with pytest.raises(DataError, match="extra_flags"):
        serving_of(make_row(extra_flags="--x 'open"))


def test_a_schedule_and_a_limit_replace_what_the_row_has_and_nothing_else() -> None:
    row = make_row(**MTP)
    config = json.dumps({"method": "mtp", "num_speculative_tokens": 4, SCHEDULE: [[1, 4, 4], [5, 32, 0]]})
    plain, changed = serving_of(row), serving_of(row, max_num_seqs=8, speculative_config=config)
    differing = {name for name, values in changed.options if (values[0] != plain.option(name))}
    assert differing == {"max-num-seqs", "speculative-config"}
    assert json.loads(words_of(command_text(changed))[-1])[SCHEDULE] == [[1, 4, 4], [5, 32, 0]]


PLAN = """\
plan: 1
campaign: small
engine:
  kind: process
  version: 0.27.0
  environment: {VLLM_USE_V2_MODEL_RUNNER: "1", HF_TOKEN: "${HF_TOKEN}"}
models: {tiny: {path: org/tiny}}
matrix: {model: tiny, attention_backend: FLASHINFER, nvlink: [on, off]}
stages: {concurrency: {1: 2}}
"""


def configuration(nvlink: str) -> Configuration:
    plan = parse_plan(PLAN, "plan.yaml")
    return next(one for one in plan.configurations if one.nvlink == nvlink)


def test_what_no_column_holds_comes_from_the_plan() -> None:
    serving = serving_of(make_row(nvlink="off"), configuration("off"))
    assert dict(serving.environment) == {
        "NCCL_P2P_DISABLE": "1",
        "VLLM_USE_V2_MODEL_RUNNER": "1",
        "HF_TOKEN": "${HF_TOKEN}",
    }
    assert serving.option("attention-backend") == "FLASHINFER"
    assert service_of(compose_text(serving))["environment"]["HF_TOKEN"] == "${HF_TOKEN:?not set}"


def test_without_the_plan_only_the_link_says_what_the_environment_was() -> None:
    assert serving_of(make_row(nvlink="on")).environment == ()
    assert serving_of(make_row(nvlink="off")).environment == (("NCCL_P2P_DISABLE", "1"),)
