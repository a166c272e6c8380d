"""Building the site: what is written, left alone and removed, what is refused, and that MkDocs renders it."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.core.codec import line_of
from collector.core.errors import DataError, UserError
from collector.report.build import build_site, campaign_names, read_campaign
from collector.report.tree import WRITTEN
from collector.report.words import LANGUAGES
from collector.verbs import build as verb
from tests.report import sample

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what the site is made from, with the two samples as its data."""
    shutil.copytree(ROOT / "site_src" / "common", tmp_path / "site_src" / "common")
    shutil.copytree(ROOT / "site_src" / "overrides", tmp_path / "site_src" / "overrides")
    for name in ("mkdocs.yml", "mkdocs.en.yml", "hooks.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(sample.FOLDER, tmp_path / "data")
    return tmp_path


def pages_under(site_src: Path) -> set[str]:
    return {path.relative_to(site_src).as_posix() for path in site_src.glob("??/**/*.md")}


def test_every_page_is_written_in_both_languages(clone: Path) -> None:
    report = build_site(clone / "data", clone / "site_src")
    found = {
        language: {name[3:] for name in pages_under(clone / "site_src") if name[:2] == language}
        for language in LANGUAGES
    }
    assert found["ko"] == found["en"]
    around = {"index.md", "published.md", "dictionary.md", "method.md", "glossary.md", "not-measured.md", "source.md"}
    own = {f"campaigns/{name}/{page}.md" for name in report.campaigns for page in ("index", "cells", "data")}
    assert around | {"campaigns/index.md"} | own <= found["ko"]
    assert report.campaigns == ("sample-dual", "sample-emulated")
    assert "ko/assets/site.css" in report.written


def test_an_unchanged_file_is_not_touched(clone: Path) -> None:
    build_site(clone / "data", clone / "site_src")
    before = {path: path.stat().st_mtime_ns for path in (clone / "site_src").rglob("*") if path.is_file()}
    report = build_site(clone / "data", clone / "site_src")
    assert (report.written, report.removed) == ((), ())
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_changed_row_changes_its_pages_and_no_other(clone: Path) -> None:
    build_site(clone / "data", clone / "site_src")
    rows = clone / "data" / "sample-emulated" / "rows.csv"
    rows.write_text(rows.read_text(encoding="utf-8").replace(",61.3,", ",61.9,"), encoding="utf-8")
    report = build_site(clone / "data", clone / "site_src")
    assert {f"{language}/campaigns/sample-emulated/cells.md" for language in LANGUAGES} <= set(report.written)
    assert all("/campaigns/sample-emulated" in name for name in report.written)


def test_pages_of_a_campaign_that_is_gone_are_removed_and_foreign_files_are_not(clone: Path) -> None:
    build_site(clone / "data", clone / "site_src")
    foreign = clone / "site_src" / "ko" / "campaigns" / "notes.md"
    foreign.write_text("by hand", encoding="utf-8")
    shutil.rmtree(clone / "data" / "sample-emulated")
    report = build_site(clone / "data", clone / "site_src")
    assert {f"{language}/campaigns/sample-emulated/index.md" for language in LANGUAGES} <= set(report.removed)
    assert all("/campaigns/sample-emulated" in name for name in report.removed)
    assert not (clone / "site_src" / "en" / "campaigns" / "sample-emulated").exists()
    assert foreign.read_text(encoding="utf-8") == "by hand"


def test_a_tampered_list_of_written_files_removes_nothing_outside_its_tree(clone: Path) -> None:
    build_site(clone / "data", clone / "site_src")
    note = clone / "site_src" / "ko" / WRITTEN
    note.write_text("../../mkdocs.yml\n/etc/hostname\n../en/index.md\n", encoding="utf-8")
    assert build_site(clone / "data", clone / "site_src").removed == ()
    assert (clone / "mkdocs.yml").is_file()


def test_only_named_campaigns_are_shown(clone: Path) -> None:
    report = build_site(clone / "data", clone / "site_src", ["sample-dual"])
    assert report.campaigns == ("sample-dual",)
    assert not (clone / "site_src" / "ko" / "campaigns" / "sample-emulated").exists()


def test_an_unknown_campaign_is_refused_with_the_nearest_name(clone: Path) -> None:
    with pytest.raises(UserError, match=r"no campaign 'sample-duel' under .*; did you mean 'sample-dual'"):
        build_site(clone / "data", clone / "site_src", ["sample-duel"])
    assert not (clone / "site_src" / "ko").exists()


def test_without_data_there_is_a_site_that_says_so(clone: Path) -> None:
    build_site(clone / "nowhere", clone / "site_src")
    home = (clone / "site_src" / "en" / "index.md").read_text(encoding="utf-8")
    assert "There is no campaign yet." in home
    assert "collector sweep PLAN" in home


def test_published_figures_are_no_campaign(clone: Path) -> None:
    (clone / "data" / "published").mkdir()
    (clone / "data" / "published" / "failures.csv").write_text("model,category\n", encoding="utf-8")
    assert campaign_names(clone / "data") == ["sample-dual", "sample-emulated"]


def test_published_figures_make_a_page_and_no_campaign(clone: Path) -> None:
    shutil.copytree(ROOT / "data" / "published", clone / "data" / "published")
    report = build_site(clone / "data", clone / "site_src")
    assert report.campaigns == ("sample-dual", "sample-emulated")
    page = (clone / "site_src" / "en" / "published.md").read_text(encoding="utf-8")
    assert "No campaign has rows for these figures yet" in page  # the samples are of other models
    assert "338.9" in page
    assert "kv_read.FLASHINFER" in page  # from the profile that comes with the program


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("figures.csv", ",57.7,", ",fast,", r"figures\.csv, line 14: could not convert string to float: 'fast'"),
        ("figures.csv", ",metric,", ",kind,", r"figures\.csv, line 1: has no column 'metric'"),
        ("failures.csv", ",engine_message,", ",said,", r"failures\.csv, line 1: has no column 'engine_message'"),
    ],
)
def test_a_damaged_file_of_figures_is_refused_by_name_and_line(
    clone: Path, file: str, old: str, new: str, message: str
) -> None:
    shutil.copytree(ROOT / "data" / "published", clone / "data" / "published")
    path = clone / "data" / "published" / file
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        build_site(clone / "data", clone / "site_src")


def test_a_damaged_calibration_is_refused_by_name_and_line(clone: Path) -> None:
    shutil.copytree(ROOT / "data" / "published", clone / "data" / "published")
    (clone / "data" / "published" / "calibration.json").write_text("{\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"calibration\.json, line 2: Expecting property name"):
        build_site(clone / "data", clone / "site_src")


@pytest.mark.parametrize("name", ["Upper", "under_score", "index"])
def test_a_folder_whose_name_is_no_address_is_refused(clone: Path, name: str) -> None:
    (clone / "data" / "sample-dual").rename(clone / "data" / name)
    with pytest.raises(DataError, match=f"{name}: a campaign's folder has lower-case letters"):
        build_site(clone / "data", clone / "site_src")


def damaged(clone: Path, file: str, old: str, new: str) -> None:
    path = clone / "data" / "sample-dual" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("rows.csv", ",57.6,", ",fast,", r"rows\.csv, line \d+, column \w+: found 'fast', expected float or empty"),
        ("rows.csv", ",row_id,", ",id_of_row,", r"rows\.csv, line 1: unknown column 'id_of_row'"),
        ("rows.csv", "\n2,sample-dual,", "\n2,other,", r"rows\.csv, record 1, column campaign: found 'other'"),
        ("failures.csv", "\n2,", "\n99,", r"failures\.csv, line 2: schema version 99 is newer"),
        ("positions.csv", ",523,", ",many,", r"positions\.csv, line 2, column drafts: found 'many'"),
        ("host.json", '"gpus": [', '"gpus" [', r"host\.json, line 3: Expecting ':' delimiter"),
    ],
)
def test_a_damaged_file_is_refused_by_name_and_line_and_nothing_is_written(
    clone: Path, file: str, old: str, new: str, message: str
) -> None:
    damaged(clone, file, old, new)
    with pytest.raises(DataError, match=message):
        build_site(clone / "data", clone / "site_src")
    assert not (clone / "site_src" / "ko").exists()


def test_a_row_that_stands_twice_is_refused(clone: Path) -> None:
    rows = clone / "data" / "sample-dual" / "rows.csv"
    lines = rows.read_text(encoding="utf-8").splitlines(keepends=True)
    rows.write_text("".join([*lines, lines[1]]), encoding="utf-8")
    with pytest.raises(DataError, match=r"rows\.csv, column row_id: '\w+' stands twice"):
        build_site(clone / "data", clone / "site_src")


def test_a_plan_that_cannot_be_read_any_more_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "dual-3090"
    shutil.copytree(ROOT / "data" / "dual-3090", folder, ignore=shutil.ignore_patterns("raw", "logs"))
    (folder / "plan-0123456789ab.yaml").write_text(
        "plan: 1\ncampaign: dual-3090\ncontinues: 0123456789ab\nunknown: 1\n"
    )
    study = read_campaign(folder)
    assert len(study.plans) == 1
    (fault,) = study.unreadable_plans
    assert "dual-3090/plan-0123456789ab.yaml" in fault
    assert "unknown" in fault


def test_a_file_that_is_no_text_is_refused_by_line(clone: Path) -> None:
    (clone / "data" / "sample-dual" / "plan.yaml").write_bytes(b"plan: 1\nabout: \xff\n")
    with pytest.raises(DataError, match=r"plan\.yaml, line 2: not UTF-8 text"):
        build_site(clone / "data", clone / "site_src")


def test_a_missing_site_source_is_refused(clone: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere/common: not found"):
        build_site(clone / "data", clone / "nowhere")


# --- the verb ----------------------------------------------------------------------------------------------


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.register(parser.add_subparsers())
    return parser.parse_args(["build", *arguments])


def test_the_verb_says_what_it_did_and_what_is_next(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = parsed("--data", str(clone / "data"), "--site-src", str(clone / "site_src"))
    assert args.run(args) == 0
    out = capsys.readouterr().out
    assert "campaigns: sample-dual, sample-emulated" in out
    assert re.search(r"files: [1-9]\d* written, 0 unchanged, 0 removed", out)
    assert "mkdocs build --strict" in out


def test_a_data_folder_that_is_not_there_removes_no_page(clone: Path) -> None:
    args = parsed("--data", str(clone / "dta"), "--site-src", str(clone / "site_src"))
    with pytest.raises(UserError, match="dta: no such folder"):
        args.run(args)


def test_a_data_folder_without_campaigns_removes_no_page_unless_told(clone: Path) -> None:
    build_site(clone / "data", clone / "site_src")
    for name in ("sample-dual", "sample-emulated"):
        shutil.rmtree(clone / "data" / name)
    arguments = ("--data", str(clone / "data"), "--site-src", str(clone / "site_src"))
    args = parsed(*arguments)
    with pytest.raises(UserError, match="would remove the pages of sample-dual, sample-emulated; name the folder"):
        args.run(args)
    assert (clone / "site_src" / "ko" / "campaigns" / "sample-dual" / "index.md").is_file()
    allowed = parsed(*arguments, "--allow-empty")
    assert allowed.run(allowed) == 0
    assert not (clone / "site_src" / "ko" / "campaigns" / "sample-dual").exists()


def test_every_broken_campaign_is_named_with_the_way_to_build_the_others(clone: Path) -> None:
    build_site(clone / "data", clone / "site_src")
    damaged(clone, "rows.csv", ",57.6,", ",fast,")
    shutil.copytree(clone / "data" / "sample-emulated", clone / "data" / "Spaced Name")
    with pytest.raises(DataError) as caught:
        build_site(clone / "data", clone / "site_src")
    told = str(caught.value)
    assert "sample-dual/rows.csv, line " in told
    assert "Spaced Name: a campaign's folder has lower-case letters" in told
    assert "nothing was written" in told
    assert "`collector build sample-emulated`" in told
    assert (clone / "site_src" / "ko" / "campaigns" / "sample-dual" / "index.md").is_file()
    assert build_site(clone / "data", clone / "site_src", ["sample-emulated"]).campaigns == ("sample-emulated",)


def test_the_verb_looks_in_data_and_site_src_unless_told() -> None:
    args = parsed("one", "two")
    assert (args.campaigns, args.data, args.site_src) == (["one", "two"], Path("data"), Path("site_src"))


def test_registering_the_verb_loads_neither_pandas_nor_templates() -> None:
    code = "import collector.verbs.build, sys; print({'pandas', 'jinja2', 'collector.report.build'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "set()"


# --- MkDocs ------------------------------------------------------------------------------------------------


def mkdocs(clone: Path, config: str) -> subprocess.CompletedProcess[str]:
    """Build as `make site` does: the pages are there, so the hook leaves them alone."""
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "COLLECTOR_PAGES_BUILT": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=clone, env=environment)


@pytest.mark.parametrize("figures", [True, False], ids=["published figures", "no figures"])
@pytest.mark.parametrize("filled", [True, False], ids=["two campaigns", "no campaign"])
def test_mkdocs_renders_both_languages_without_a_warning(clone: Path, filled: bool, figures: bool) -> None:
    if figures:
        shutil.copytree(ROOT / "data" / "published", clone / ("data" if filled else "nowhere") / "published")
    build_site(clone / ("data" if filled else "nowhere"), clone / "site_src")
    for config in ("mkdocs.yml", "mkdocs.en.yml"):
        built = mkdocs(clone, config)
        assert built.returncode == 0, built.stderr
        assert "WARNING" not in built.stderr
    site = clone / "site"
    ko = {path.relative_to(site) for path in site.glob("**/index.html") if path.relative_to(site).parts[0] != "en"}
    en = {path.relative_to(site / "en") for path in (site / "en").glob("**/index.html")}
    assert ko == en
    assert len(ko) == len(list((clone / "site_src" / "ko").rglob("*.md")))
    assert '<html lang="ko"' in (site / "index.html").read_text(encoding="utf-8")
    assert '<html lang="en"' in (site / "en" / "index.html").read_text(encoding="utf-8")
    assert_no_other_host(site)
    if filled:
        menu = (site / "en" / "campaigns" / "sample-dual" / "index.html").read_text(encoding="utf-8")
        assert 'href="../../../campaigns/sample-dual/" hreflang="ko"' in menu


def assert_no_other_host(site: Path) -> None:
    """Nothing on a page is fetched from elsewhere; a link that a reader may follow is no request."""
    for path in site.glob("**/*.html"):
        text = path.read_text(encoding="utf-8")
        assert 'src="http' not in text, path
        assert "@import" not in text, path
        for link in text.split("<link ")[1:]:
            kind, _, _ = link.partition(">")
            assert 'href="http' not in kind or 'rel="canonical"' in kind or 'rel="alternate ' in kind, kind


def test_a_failure_that_a_later_attempt_made_good_is_not_shown_as_one(tmp_path: Path) -> None:
    folder = tmp_path / "sample-dual"
    shutil.copytree(Path(__file__).parents[1] / "data" / "campaigns" / "sample-dual", folder)
    before = read_campaign(folder)
    row = before.rows[0]
    its: dict[str, Any] = {"configuration_id": row.configuration_id, "repeat": row.repeat, "row_id": None}
    mended = replace(before.failures[0], failure_id="mended", failed_at="2026-09-01T00:00:00Z", **its)
    later = replace(before.failures[0], failure_id="later", failed_at="2026-10-01T00:00:00Z", **its)
    with (folder / "failures.csv").open("a", encoding="utf-8") as file:
        file.write(line_of(mended) + line_of(later))
    assert read_campaign(folder).failures == (*before.failures, later)
