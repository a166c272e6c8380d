"""The container of a configuration: what a plan says of it, and the `docker run` that shows it."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from collector.core.command import expander, serve_arguments
from collector.core.configuration import Plan
from collector.core.container import EVERYWHERE, PORT, Mount, container_spec, shown_run
from collector.core.errors import PlanError
from collector.core.plan import parse_plan
from collector.core.plan_schema import CONTAINER_HOME

PLAN = """\
plan: 1
campaign: c
engine:
  kind: docker
  image: vllm/vllm-openai:v0.27.0
  container: CONTAINER
models: {m: {path: "${MODELS}/m", drafter: org/drafter}}
speculation: {d: {method: dflash, model: "{drafter}", num_speculative_tokens: 3}}
extra: [{model: m, speculation: d, environment: {HF_TOKEN: "${HF_TOKEN}", A: b c}}]
stages: {concurrency: {1: 1}}
"""
VARIABLES = {"HOME": "/home/me", "MODELS": "/disk/models", "HF_TOKEN": "x" * 9}


def plan_of(container: str = "{}") -> Plan:
    return parse_plan(PLAN.replace("CONTAINER", container), "p.yaml")


def spec_of(container: str = "{}", **changes: Any) -> Any:
    plan = plan_of(container)
    return container_spec(plan.configurations[0], plan.engine, expand=expander(VARIABLES | changes, "here"))


def test_without_a_word_a_container_gets_all_gpus_the_caches_and_the_models_folder_for_reading() -> None:
    spec = spec_of()
    assert (spec.gpus, spec.ipc, spec.shm_size, spec.memory, spec.program) == ("all", "host", None, None, ("vllm",))
    caches = [Mount(source=f"/home/me/.cache/{name}", target=f"{CONTAINER_HOME}/.cache/{name}", read_only=False)
              for name in ("huggingface", "vllm", "flashinfer")]  # fmt: skip
    assert [*spec.mounts] == [*caches, Mount(source="/disk/models/m", target="/disk/models/m", read_only=True)]


def test_a_model_that_a_volume_holds_is_not_mounted_again() -> None:
    (only,) = spec_of("{volumes: ['/disk/models:/disk/models:ro']}").mounts
    assert only == Mount(source="/disk/models", target="/disk/models", read_only=True)


def test_of_a_snapshot_in_the_hubs_cache_the_whole_repository_is_mounted() -> None:
    """Its files are links to those beside it."""
    spec = spec_of("{volumes: []}", MODELS="/hub/models--org--m/snapshots")
    assert [one.source for one in spec.mounts] == ["/hub/models--org--m"]


def test_a_private_shared_memory_needs_no_further_word() -> None:
    assert (spec_of("{shm_size: 16g}").ipc, spec_of("{shm_size: 16g}").shm_size) == ("private", "16g")


def test_what_is_shown_can_be_pasted_and_leaves_variables_to_the_shell() -> None:
    plan = plan_of("{gpus: [0, 1], shm_size: 16g, memory: 96g, volumes: []}")
    shown = shown_run(plan.configurations[0], plan.engine)
    configuration = plan.configurations[0]
    assert shlex.split(shown) == [
        *("docker", "run", "--gpus", '"device=0,1"', "--ipc", "private", "--shm-size", "16g"),
        *("--memory", "96g", "--memory-swap", "96g", "--volume", "${MODELS}/m:${MODELS}/m:ro"),
        *("--publish", "127.0.0.1::8000", "--env", "A=b c", "--env", "HF_TOKEN=${HF_TOKEN}"),
        *("--entrypoint", "vllm", "vllm/vllm-openai:v0.27.0"),
        *serve_arguments(configuration, port=PORT, host=EVERYWHERE),
    ]


def test_how_a_container_is_run_is_not_part_of_the_id() -> None:
    plain = plan_of().configurations[0].configuration_id
    assert plan_of("{gpus: none, memory: 9g, volumes: []}").configurations[0].configuration_id == plain


@pytest.mark.parametrize(
    ("container", "told"),
    [
        ("{gpus: some}", "engine.container.gpus: found 'some' (str), allowed: all, none, or a list"),
        ("{gpus: []}", "engine.container.gpus"),
        ("{shm_size: 16 GB}", "engine.container.shm_size: found '16 GB' (str)"),
        ("{shm_size: 16g, ipc: host}", "engine.container.shm_size: has no effect with ipc: host"),
        ("{volumes: [/a]}", "allowed: SOURCE:TARGET or SOURCE:TARGET:ro"),
        ("{volumes: ['/a:b']}", "TARGET an absolute path in the container"),
        ("{pull: always}", "allowed: missing, never"),
        ("{gpu: all}", "unknown key; did you mean 'gpus'?"),
    ],
)
def test_a_wrong_wish_is_told_with_what_would_be_right(container: str, told: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan_of(container)
    assert told in str(caught.value)
    assert "p.yaml, line 6" in str(caught.value)
