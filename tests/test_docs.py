"""What the documents say must be so: their plans parse, their commands exist, every key of a plan is explained."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from collector.cli import parser
from collector.core import plan_schema
from collector.core.doctor import engine_checks
from collector.core.estimate import plan_seconds
from collector.core.plan import parse_plan
from collector.emulator.faults import Faults
from collector.emulator.profile_file import parse_profile

ROOT = Path(__file__).parents[1]
READMES = ("README.md", "README.ko.md")
PLAN_DOCS = ("docs/plan.md", "docs/plan.ko.md")
HOST_DOCS = ("docs/host.md", "docs/host.ko.md")


def _text(name: str) -> str:
    return (ROOT / name).read_text()


def _blocks(text: str, language: str) -> Iterator[str]:
    for indent, body in re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        yield "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))


@pytest.mark.parametrize("name", READMES)
def test_the_first_plan_of_the_readme_is_a_plan(name: str) -> None:
    (text,) = _blocks((ROOT / name).read_text(), "yaml")
    plan = parse_plan(text, name)
    assert [len(run.stages) for run in plan.runs] == [4, 4]


@pytest.mark.parametrize("name", READMES)
def test_every_command_is_in_the_readme_and_every_command_there_exists(name: str) -> None:
    told = set(re.findall(r"`collector (\w+)", (ROOT / name).read_text()))
    choices = next(action.choices for action in parser()._actions if action.choices)
    assert told == set(choices or ())


@pytest.mark.parametrize("name", READMES + HOST_DOCS)
def test_every_collector_line_is_one_that_the_program_takes(name: str) -> None:
    found = []
    for block in (*_blocks(_text(name), "sh"), *_blocks(_text(name), "ini")):
        for line in re.findall(r"^.*\bcollector (?:[a-z]+ ?)[^\n]*", block, re.MULTILINE):
            for part in re.split(r"&&|ExecStart=", line):
                words = shlex.split(part, comments=True)
                if words and words[0].endswith("collector") and len(words) > 1:
                    parser().parse_args(words[1:])  # ends the test with its own words where it is wrong
                    found.append(words[1])
    assert {"plan", "sweep", "status", "build"} <= set(found)
    assert "doctor" not in found or found.index("doctor") < found.index("sweep")


@pytest.mark.parametrize("name", HOST_DOCS)
def test_the_plan_for_the_host_is_a_plan(name: str) -> None:
    (text,) = _blocks(_text(name), "yaml")
    rest = "defaults: {tensor_parallel: 2}\nmatrix: {model: [muse-glimmer-30b, exaone-4.5-33b]}\n"
    plan = parse_plan(f"{text}{rest}stages: {{concurrency: {{1: 8}}}}\n", name)
    assert (plan.engine.kind, len(plan.runs)) == ("docker", 2)
    assert {one.model_revision for one in plan.configurations} == {"COMMIT"}


@pytest.mark.parametrize("name", HOST_DOCS)
def test_hours_and_gibibytes_of_the_host_s_way_are_those_of_the_program(name: str) -> None:
    text = _text(name)
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", text, re.MULTILINE))
    for plan in ("plans/dual-3090.yaml", "plans/follow-up.yaml"):
        minutes = plan_seconds(parse_plan(_text(plan), plan)) / 60
        assert [re.findall(r"\d+", told) for what, told in rows.items() if plan in what] == [[f"{minutes:.0f}"]]
    told = [int(told.removesuffix(" GiB")) for told in rows.values() if told.endswith("GiB")]
    assert told == [engine_checks.MODEL_GIB, engine_checks.IMAGE_GIB, engine_checks.CACHE_GIB]
    assert f" {3 * told[0] + told[1] + told[2]} GiB" in text


@pytest.mark.parametrize("name", READMES)
def test_every_make_target_named_in_the_readme_exists(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"\bmake ([a-z]+)", (ROOT / name).read_text()))
    assert {"test", "real"} <= targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


@pytest.mark.parametrize("name", PLAN_DOCS)
def test_the_profile_of_the_documents_is_a_profile_and_every_fault_is_explained(name: str) -> None:
    text = (ROOT / name).read_text()
    (example,) = _blocks(text, "json")
    assert [bool(one.faults) for one in parse_profile(example, name).outcomes] == [False, True]
    told = {
        fault for line in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for fault in re.findall(r"`(\w+)`", line)
    }
    assert set(Faults.model_fields) <= told


@pytest.mark.parametrize("name", PLAN_DOCS)
def test_every_key_of_a_plan_is_explained(name: str) -> None:
    text = (ROOT / name).read_text()
    parts = [
        one
        for one in vars(plan_schema).values()
        if isinstance(one, type) and issubclass(one, BaseModel) and one.__module__ == plan_schema.__name__
    ]
    keys = {key for part in parts for key in part.model_fields}
    assert len(keys) > 40
    missing = sorted(key for key in keys if not re.search(rf"\b{key}\b", text))
    assert missing == []


def test_the_example_of_the_plan_document_is_a_plan() -> None:
    text = "".join(_blocks((ROOT / "docs/plan.md").read_text(), "yaml"))
    text = text.replace("models:\n", "models:\n  exaone: {path: org/exaone}\n  gemma: {path: org/gemma}\n")
    plan = parse_plan(text + "stages: {concurrency: {1: 8}}\n", "docs/plan.md")
    assert len(plan.runs) == 8 + 2 + 1


def test_no_file_names_a_path_of_a_machine_or_a_registry() -> None:
    """Tracked text must work on any machine. The caches are those inside vLLM's image."""
    places = r"(?<![\w/])/(?:work|farm|root(?!/\.cache\b))/"
    wrong = re.compile(rf"{places}|(?:files|index)\.python\w+\.org|--(?:extra-)?index-url")
    found = []
    for path in ROOT.rglob("*"):
        parts = set(path.relative_to(ROOT).parts)
        if path.relative_to(ROOT).parts[0] in {".git", ".venv", "site", "build", "data"} or any(
            part.endswith(("_cache", ".egg-info")) for part in parts
        ):
            continue
        if path.suffix in {".py", ".md", ".yaml", ".yml", ".toml", ".j2", ".json", ".js", ".css", ".log"}:
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in wrong.finditer(text)]
    assert found == []
