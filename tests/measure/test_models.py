"""Where models lie, and which commit of their repository that is: told by the host's files, never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.core.plan import parse_plan
from collector.measure import models
from tests.measure.sweeping import PLAN

COMMIT, OTHER = "a" * 40, "b" * 40


def _write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    kept = tmp_path / ".cache" / "huggingface" / "hub" / "models--org--model"
    _write(kept / "snapshots" / COMMIT / "config.json")
    _write(kept / "refs" / "main", COMMIT)
    _write(kept / "refs" / "v2", OTHER + "\n")
    return {"HOME": str(tmp_path)}


def test_a_repository_in_the_cache_is_here_and_another_is_not(home: dict[str, str]) -> None:
    assert models.is_here("org/model", home)
    assert not models.is_here("org/other", home)
    assert not models.is_here("org/model", {"HOME": home["HOME"], "HF_HOME": home["HOME"] + "/none"})
    assert not models.is_here("org/model", {})


@pytest.mark.parametrize(
    ("revision", "commit"), [(None, COMMIT), ("main", COMMIT), ("v2", OTHER), (OTHER, OTHER), ("v3", None)]
)
def test_a_branch_is_the_commit_that_the_cache_holds_of_it(
    home: dict[str, str], revision: str | None, commit: str | None
) -> None:
    assert models.commit_of("org/model", revision, home) == commit


def test_the_cache_lies_where_its_variables_say(tmp_path: Path) -> None:
    environment = {"HOME": "/h", "XDG_CACHE_HOME": "/x"}
    assert models.hub_cache(environment) == Path("/x/huggingface/hub")
    assert models.hub_cache(environment | {"HF_HOME": "/hf"}) == Path("/hf/hub")
    assert models.hub_cache(environment | {"HF_HOME": "/hf", "HF_HUB_CACHE": "/hub"}) == Path("/hub")
    assert models.hub_cache({"HOME": "/h"}) == Path("/h/.cache/huggingface/hub")
    assert models.hub_cache({"HF_HOME": "/hf"}) == Path("/hf/hub")
    assert models.hub_cache({}) is None


def test_a_folder_that_was_downloaded_to_tells_its_commit(tmp_path: Path) -> None:
    notes = tmp_path / "m" / ".cache" / "huggingface" / "download"
    _write(notes / "config.json.metadata", f"{COMMIT}\netag\n1790000000.0\n")
    _write(notes / "model.safetensors.metadata", f"{COMMIT}\netag\n1790000000.0\n")
    assert models.commit_of(str(tmp_path / "m"), None, {}) == COMMIT
    _write(notes / "tokenizer.json.metadata", f"{OTHER}\netag\n1790000000.0\n")
    assert models.commit_of(str(tmp_path / "m"), None, {}) is None  # of two commits it is neither


def test_a_snapshot_of_the_cache_is_its_own_name(home: dict[str, str], tmp_path: Path) -> None:
    snapshot = Path(home["HOME"]) / ".cache/huggingface/hub/models--org--model/snapshots" / COMMIT
    assert models.commit_of(str(snapshot), None, {}) == COMMIT
    (tmp_path / "link").symlink_to(snapshot)
    assert models.commit_of(str(tmp_path / "link"), None, {}) == COMMIT


def test_a_folder_without_notes_and_a_path_that_is_not_there_tell_nothing(tmp_path: Path) -> None:
    assert models.is_here(str(tmp_path), {})
    assert models.commit_of(str(tmp_path), "main", {}) is None
    assert models.commit_of("/no/such/folder", "main", {"HOME": str(tmp_path)}) is None
    assert not models.is_here("/no/such/folder", {"HOME": str(tmp_path)})


def test_a_row_s_commits_are_those_of_its_model_and_its_drafter(home: dict[str, str]) -> None:
    text = PLAN.replace('path: "${MODEL}"', 'path: "org/${NAME}", drafter: org/drafter')
    text = text.replace("method: ngram,", 'method: dflash, model: "{drafter}",')
    plan = parse_plan(text, "plan.yaml")
    drafter = Path(home["HOME"]) / ".cache" / "huggingface" / "hub" / "models--org--drafter"
    _write(drafter / "refs" / "main", OTHER)
    told = [models.commits(one, home | {"NAME": "model"}) for one in plan.configurations]
    assert told == [
        {"model_commit": COMMIT, "drafter_commit": None},
        {"model_commit": COMMIT, "drafter_commit": OTHER},
    ]
