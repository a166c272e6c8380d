"""vLLM's P2P cache: found where vLLM keeps it, cleared before a start that names NVLink, and read for its staleness."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from collector.core.configuration import Configuration
from collector.core.plan import parse_plan
from collector.core.plan_schema import CONTAINER_HOME
from collector.measure import p2p_cache
from collector.measure.failed import MeasurementError
from tests.measure.sweeping import PLAN, Bench

NAME = "gpu_p2p_access_cache_for_0,1.json"
YES = {"0->0": True, "0->1": True, "1->0": True, "1->1": True}


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({"HOME": "/home/u"}, "/home/u/.cache/vllm"),
        ({"HOME": "/home/u", "XDG_CACHE_HOME": "/big"}, "/big/vllm"),
        ({"HOME": "/home/u", "XDG_CACHE_HOME": "~/c"}, "/home/u/c/vllm"),
        ({"HOME": "/home/u", "XDG_CACHE_HOME": "/big", "VLLM_CACHE_ROOT": "/v"}, "/v"),
        ({"HOME": "/home/u", "VLLM_CACHE_ROOT": "~/v"}, "/home/u/v"),
        ({"XDG_CACHE_HOME": "/big"}, "/big/vllm"),
        ({"VLLM_CACHE_ROOT": "~/v"}, None),
        ({}, None),
    ],
)
def test_the_cache_lies_where_vllm_s_own_rule_puts_it(environment: dict[str, str], root: str | None) -> None:
    assert p2p_cache.cache_root(environment) == (Path(root) if root else None)


@pytest.mark.parametrize(
    ("inside", "volumes", "outside"),
    [
        ("/home/c/.cache/vllm", ["/h/vllm:/home/c/.cache/vllm"], "/h/vllm"),
        ("/home/c/.cache/vllm", ["/h/hf:/home/c/.cache/huggingface", "/h/c:/home/c/.cache:ro"], "/h/c/vllm"),
        ("/home/c/.cache/vllm", ["/h/c:/home/c/.cache", "/h/v:/home/c/.cache/vllm"], "/h/v"),
        ("/home/c/.cache/vllm", ["/h/v:/home/c/.cache/vl"], None),
        ("/home/c/.cache/vllm", [], None),
    ],
)
def test_a_container_s_cache_is_found_through_its_volumes(inside: str, volumes: list[str], outside: str | None) -> None:
    folders = [(one.split(":")[0], one.split(":")[1]) for one in volumes]
    assert p2p_cache.mounted(Path(inside), folders) == (Path(outside) if outside else None)
    assert p2p_cache.mounted(None, folders) is None


def test_a_container_s_cache_follows_the_container_s_own_environment() -> None:
    folders = [("/h/vllm", f"{CONTAINER_HOME}/.cache/vllm"), ("/h/big", "/big")]
    assert p2p_cache.container_root({}, folders) == Path("/h/vllm")
    assert p2p_cache.container_root({"VLLM_CACHE_ROOT": "/big/v"}, folders) == Path("/h/big/v")
    assert p2p_cache.container_root({"XDG_CACHE_HOME": "/elsewhere"}, folders) is None


def _configuration(nvlink: str | None) -> Configuration:
    plan = parse_plan(PLAN, "plan.yaml")
    return replace(plan.configurations[0], nvlink=nvlink)


@pytest.mark.parametrize(("nvlink", "left"), [("off", []), ("on", []), (None, [NAME])])
def test_the_cache_goes_before_a_start_that_names_nvlink_and_nothing_else_goes(
    tmp_path: Path, nvlink: str | None, left: list[str]
) -> None:
    for name in (NAME, "torch_compile_cache", "gpu_p2p_access_cache_for_0,1.json.bak"):
        (tmp_path / name).write_text("{}")
    p2p_cache.clear_for(_configuration(nvlink), tmp_path)
    kept = {"torch_compile_cache", "gpu_p2p_access_cache_for_0,1.json.bak"}
    assert sorted({one.name for one in tmp_path.iterdir()} - kept) == left
    assert kept <= {one.name for one in tmp_path.iterdir()}


def test_no_cache_and_no_home_are_nothing_to_clear(tmp_path: Path) -> None:
    p2p_cache.clear_for(_configuration("off"), tmp_path / "none")
    p2p_cache.clear_for(_configuration("off"), None)


def test_a_cache_that_cannot_be_removed_fails_the_start(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()  # which unlink refuses, for root too
    with pytest.raises(MeasurementError, match=r"P2P cache .* cannot be removed before .* NVLink off") as told:
        p2p_cache.clear_for(_configuration("off"), tmp_path)
    assert (told.value.category, told.value.retryable) == ("environment", True)


@pytest.mark.parametrize(
    ("text", "grants"),
    [
        (json.dumps(YES), True),
        (json.dumps(YES | {"0->1": False, "1->0": False}), False),
        (json.dumps(YES | {"0->1": False}), None),
        (json.dumps({"0->0": True}), None),
        ("{", None),
        ("[]", None),
    ],
)
def test_what_the_cache_says_is_about_pairs_of_two(tmp_path: Path, text: str, grants: bool | None) -> None:
    (tmp_path / NAME).write_text(text)
    (found,) = p2p_cache.inspect(tmp_path, None)
    assert (found.grants, found.before_boot) == (grants, None)


def test_a_cache_knows_whether_it_was_written_before_this_boot(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(json.dumps(YES))
    os.utime(tmp_path / NAME, (1000, 1000))
    assert [one.before_boot for one in p2p_cache.inspect(tmp_path, 1001.0)] == [True]
    assert [one.before_boot for one in p2p_cache.inspect(tmp_path, 999.0)] == [False]


def test_a_sweep_clears_the_cache_of_the_configuration_s_own_environment(tmp_path: Path) -> None:
    """The engine would write it again; the stand-in of vLLM does not, so that what was cleared stays gone."""
    plan = PLAN.replace("speculation: [off, ngram-4]", "nvlink: [on, off]").replace(
        "defaults:", 'nvlink_off: {environment: {VLLM_CACHE_ROOT: "${CACHES}/off"}, flags: {}}\ndefaults:'
    )
    caches = {name: tmp_path / "caches" / name for name in ("off", "vllm", "other")}
    for one in caches.values():
        one.mkdir(parents=True)
        (one / NAME).write_text(json.dumps(YES))
    bench = Bench(tmp_path, plan, CACHES=str(tmp_path / "caches"), XDG_CACHE_HOME=str(tmp_path / "caches"))
    bench.sweep()
    assert [row["nvlink"] for row in bench.rows()] == ["on", "on", "off", "off"]
    assert [name for name, one in caches.items() if (one / NAME).exists()] == ["other"]
