"""The pages around an article: cells and downloads of a study, method, glossary, what was not measured, source."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import markdown  # type: ignore[import-untyped]
import pytest
from ruamel.yaml import YAML

from collector.analysis.study import Study
from collector.core.checks import CHECKS
from collector.core.codec import to_csv
from collector.core.rows import Failure, Row
from collector.report.build import TEMPLATES, build_site, campaign_names, loader_of, read_campaign, read_published
from collector.report.cells import CAUSE_LIMIT, cells_page
from collector.report.downloads import data_page
from collector.report.environment import strict_environment
from collector.report.evidence import stored_files
from collector.report.pages import pages
from collector.report.pages import published_study as _study
from collector.report.reference_pages import reference_pages
from collector.report.words import LANGUAGES, Words
from tests.report.sample import make_failure, make_row
from tests.report.test_section_failures import HOSTILE

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
CAMPAIGNS = campaign_names(DATA)
LOADER = loader_of(TEMPLATES)
HANGUL = re.compile(r"[가-힣]")


class Page(HTMLParser):
    """Ids, links, tables of raw values and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.words: list[str] = []
        self._inside = False
        body = text.split("---\n", 2)[2]
        self.feed(str(markdown.markdown(body, extensions=["attr_list", "toc"])))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.ids += [named["id"]] if "id" in named else []
        self.links += [named["href"]] if "href" in named else []
        self._inside = tag == "td"
        if self._inside:
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "td"

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self._inside:
            self.cells[-1] += data

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def cells_of_study(study: Study, language: str = "en") -> str:
    return cells_page(study, Words(language), strict_environment(LOADER, language))


def data_of_study(study: Study, language: str = "en", charts: tuple[str, ...] = ()) -> str:
    return data_page(study, Words(language), strict_environment(LOADER, language), charts)


def references(language: str, studies: tuple[Study, ...] = (), with_published: bool = True) -> dict[str, str]:
    published = read_published(DATA / "published") if with_published else None
    return reference_pages(studies, published, Words(language), strict_environment(LOADER, language))


def study_of(rows: list[Row], failures: list[Failure] | None = None, files: tuple[str, ...] = ()) -> Study:
    return Study(name="sample-dual", rows=tuple(rows), failures=tuple(failures or ()), files=files)


# --- cells -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_row_and_failure_has_one_anchor(name: str, language: str) -> None:
    study = read_campaign(DATA / name)
    page = Page(cells_of_study(study, language))
    wanted = [f"row-{row.row_id}" for row in study.rows] + [f"failure-{one.failure_id}" for one in study.failures]
    assert wanted
    assert sorted(one for one in page.ids if one.startswith(("row-", "failure-"))) == sorted(wanted)
    assert len(page.ids) == len(set(page.ids))


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_value_of_every_row_stands_on_the_page_as_the_csv_has_it(name: str) -> None:
    study = read_campaign(DATA / name)
    shown = set(Page(cells_of_study(study)).cells)
    text = (DATA / name / "rows.csv").read_text(encoding="utf-8")
    said = {"campaign", "row_id", "configuration_id", "checks", "checks_not_run"}
    for line in csv.DictReader(io.StringIO(text)):
        for column, value in line.items():
            if value and column not in said:
                assert value in shown, (line["row_id"], column)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_links_of_the_page_lead_to_stored_files(name: str) -> None:
    study = read_campaign(DATA / name)
    links = [one.removeprefix("../files/") for one in Page(cells_of_study(study)).links if "/files/" in one]
    assert set(links) == {one for one in study.files if one.startswith(("raw/", "logs/"))}


def test_repeats_have_a_line_each_with_their_number() -> None:
    rows = [make_row(repeat=1), make_row(repeat=2, system_throughput_tok_s=61.0)]
    page = Page(cells_of_study(study_of(rows)))
    assert {f"row-{row.row_id}" for row in rows} <= set(page.ids)
    assert {"60.0", "61.0"} <= set(page.cells)


def test_what_is_the_same_everywhere_is_told_once() -> None:
    rows = [make_row(concurrency=at, system_throughput_tok_s=60.0 + at) for at in (1, 8, 32)]
    assert cells_of_study(study_of(rows)).count("Example CPU 16-Core") == 1


def test_a_thousand_rows_stay_within_a_few_megabytes() -> None:
    study = read_campaign(DATA / "dual-3090")
    by_configuration: dict[str, list[Row]] = {}
    for row in study.rows:
        if row.prompt_set == "synthetic":
            by_configuration.setdefault(row.configuration_id, []).append(row)
    rows = [
        replace(row, configuration_id=f"{number:010x}", row_id=f"{number:06x}{place:04x}", model=f"model-{number}")
        for number in range(300)
        for place, row in enumerate(list(by_configuration.values())[number % len(by_configuration)])
    ]
    text = cells_of_study(study_of(rows, files=tuple(f"raw/{row.row_id}-after.prom.gz" for row in rows)))
    assert len(rows) == 1200
    assert len(text.encode()) < 4_000_000


def test_a_row_that_failed_a_check_is_not_comparable_and_names_it() -> None:
    text = cells_of_study(study_of([make_row(checks="token_mismatch", checks_not_run="prompt_length")]))
    page = Page(text)
    assert "not comparable: token_mismatch" in page.text
    assert "not run: prompt_length" in page.text
    assert 'class="hollow"' in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_hostile_text_of_rows_and_engines_stays_text(language: str) -> None:
    rows = [make_row(model="<img src=x>", drafter=HOSTILE), make_row(model="<img src=x>", concurrency=8)]
    long = make_failure(cause=HOSTILE + "y" * 10_000, model="`m` | ## h")
    text = cells_of_study(study_of(rows, [long]), language)
    page = Page(text)
    assert not {"script", "img"} & set(page.tags)
    assert "javascript:x" not in page.links
    assert "alert(1)" in page.text
    assert "\u202e" not in text
    assert "y" * (CAUSE_LIMIT + 1) not in page.text.replace(HOSTILE, "")
    assert "\n\n" not in text.split("<table", 1)[1].split("</table>")[0]


def test_a_campaign_without_a_plan_says_that_the_command_is_not_known() -> None:
    assert "cannot be told from the stored plan" in cells_of_study(study_of([make_row()]))


# --- data --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [*CAMPAIGNS, "published"])
def test_the_downloads_are_the_files_of_data_byte_for_byte(name: str, language: str, built: Path) -> None:
    page = (built / language / "campaigns" / name / "data.md").read_text(encoding="utf-8")
    files = sorted(one for one in (built / language / "campaigns" / name / "files").glob("*") if one.is_file())
    assert files
    for file in files:
        content = (DATA / name / file.name).read_bytes()
        assert file.read_bytes() == content
        assert hashlib.sha256(content).hexdigest() in page
        assert f'href="../files/{file.name}"' in page
        assert f">{len(content)}<" in page


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site") / "site_src"
    shutil.copytree(ROOT / "site_src" / "common", target / "common")
    build_site(DATA, target)
    return target


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_link_from_an_article_to_a_row_or_failure_arrives(language: str, built: Path) -> None:
    for name in CAMPAIGNS:
        folder = built / language / "campaigns" / name
        article = (folder / "index.md").read_text(encoding="utf-8")
        wanted = set(re.findall(r'href="cells/#([^"]+)"', article))
        assert wanted
        assert wanted <= set(Page((folder / "cells.md").read_text(encoding="utf-8")).ids)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_front_matter_is_a_data_set_with_addresses_from_the_languages_home(language: str, built: Path) -> None:
    for name in CAMPAIGNS:
        text = (built / language / "campaigns" / name / "data.md").read_text(encoding="utf-8")
        dataset = YAML(typ="safe").load(text.split("---\n", 2)[1])["dataset"]
        assert 50 <= len(dataset["description"]) <= 5_000
        assert all(isinstance(dataset[key], str) for key in ("name", "published", "modified", "version", "technique"))
        assert all((built / language / one["path"]).is_file() for one in dataset["files"])
        assert {"name": "system_throughput_tok_s", "unit": "tok/s"} in dataset["variables"]


def test_charts_are_listed_with_their_files() -> None:
    text = data_of_study(
        study_of([make_row()]), charts=("files/charts/ratio-1.csv", "files/charts/ratio-1.json", "x.md")
    )
    assert {"../files/charts/ratio-1.csv", "../files/charts/ratio-1.json"} <= set(Page(text).links)
    assert "x.md" not in text


def test_a_campaign_without_scrapes_says_which_command_makes_them_again() -> None:
    study = read_campaign(DATA / "follow-up")
    page = Page(data_of_study(study))
    assert "are not kept in the repository" in page.text
    assert "collector sweep plans/follow-up.yaml --engine emulated --out again" in page.text
    generic = Page(data_of_study(replace(study, plan_path=None)))
    assert "collector sweep plan.yaml --engine emulated --out again" in generic.text


def test_a_campaign_with_scrapes_says_how_to_compute_its_rows_again() -> None:
    page = Page(data_of_study(read_campaign(DATA / "dual-3090")))
    assert "collector recompute dual-3090 collector check dual-3090" in page.text


def test_hostile_facts_of_a_host_stay_text() -> None:
    host = '{"kernel": "</td><script>x</script>", "numbers": [1, 2], "empty": ""}'
    page = Page(data_of_study(replace(study_of([make_row()]), host_text=host)))
    assert "script" not in page.tags
    assert "</td><script>x</script>" in page.text
    assert "empty" not in page.text


def test_a_cause_that_looks_like_a_formula_is_published_as_it_is_stored(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "sample-dual"
    folder.mkdir(parents=True)
    failure = make_failure(cause="=cmd|' /C calc'!A0,\"x\"")
    (folder / "rows.csv").write_text(to_csv(Row, [make_row()]), encoding="utf-8")
    (folder / "failures.csv").write_text(to_csv(Failure, [failure]), encoding="utf-8")
    shutil.copytree(ROOT / "site_src" / "common", tmp_path / "site_src" / "common")
    build_site(tmp_path / "data", tmp_path / "site_src")
    copied = tmp_path / "site_src" / "ko" / "campaigns" / "sample-dual" / "files" / "failures.csv"
    assert copied.read_bytes() == (folder / "failures.csv").read_bytes()


# --- evidence ----------------------------------------------------------------------------------------------


def test_only_what_collector_writes_is_published_and_no_link_is_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.log"
    secret.write_text("secret", encoding="utf-8")
    folder = tmp_path / "campaign"
    (folder / "logs").mkdir(parents=True)
    (folder / "rows.csv").write_text("x\n", encoding="utf-8")
    (folder / "plan.yaml").symlink_to(secret)
    (folder / "logs" / "aa-r1-a1.log").write_text("fine", encoding="utf-8")
    (folder / "logs" / "bb-r1-a1.log").symlink_to(secret)
    (folder / "raw").symlink_to(tmp_path)
    for name in ("index.md", "<b>.log", "a b.log", ".hidden.log", "x.html", "é.log"):
        (folder / "logs" / name).write_text("stray", encoding="utf-8")
    (folder / "logs" / "folder.log").mkdir()
    assert set(stored_files(folder)) == {"rows.csv", "logs/aa-r1-a1.log"}


# --- method, glossary, not measured, source -----------------------------------------------------------------


def test_the_method_explains_every_check_that_the_code_runs() -> None:
    for language in LANGUAGES:
        assert {f"check-{name}" for name in CHECKS} <= set(Page(references(language)["method.md"]).ids)


def test_both_glossaries_have_the_same_ascii_ids_and_their_own_words() -> None:
    found = {language: references(language)["glossary.md"] for language in LANGUAGES}
    ids = {language: Page(text).ids for language, text in found.items()}
    assert ids["ko"] == ids["en"]
    assert len(ids["ko"]) == len(set(ids["ko"])) > 30
    assert all(re.fullmatch(r"[a-z][a-z-]*", one) for one in ids["ko"])
    meanings = {language: re.findall(r"<dd>(.*?)</dd>", text, flags=re.DOTALL) for language, text in found.items()}
    assert all(HANGUL.search(one) for one in meanings["ko"])
    assert not any(HANGUL.search(one) for one in meanings["en"])


def test_what_was_not_measured_follows_from_the_rows() -> None:
    once = study_of([make_row()])
    twice = study_of([make_row(), make_row(repeat=2, energy_j=5.0, power_mean_w=9.0)])
    texts = [Page(references("en", (study,))["not-measured.md"]).text for study in (once, twice)]
    assert "all 1 cells were measured once" in texts[0]
    assert "measured once" not in texts[1]
    assert "no row has a value" in texts[0]
    assert "1 of 2 rows have no value" in texts[1]
    assert "Real hardware" not in texts[0]
    emulated = study_of([make_row(provenance="emulated")])
    assert "nothing ran on a GPU" in Page(references("en", (emulated,))["not-measured.md"]).text


def test_the_source_names_the_article_and_the_figure_that_does_not_add_up() -> None:
    for language in LANGUAGES:
        page = Page(references(language)["source.md"])
        assert "심근우" in page.text or "Shim Geunwoo" in page.text
        assert {"F020"} == {one for one in page.text.split() if re.fullmatch(r"F\d{3}", one)}
        assert "338.9" in page.text
        assert "286.1" in page.text


@pytest.mark.parametrize("language", LANGUAGES)
def test_without_data_the_pages_are_there_and_say_so(language: str) -> None:
    found = references(language, (), with_published=False)
    assert set(found) == {"method.md", "glossary.md", "not-measured.md", "source.md"}
    for text in found.values():
        Page(text)


def test_both_languages_have_the_same_pages() -> None:
    published = read_published(DATA / "published")
    study = read_campaign(DATA / "dual-3090")
    found = [set(pages([study], LOADER, language, published)) for language in LANGUAGES]
    assert found[0] == found[1]
    assert {"method.md", "campaigns/dual-3090/data.md", "campaigns/published/data.md"} <= found[0]
    assert "campaigns/published/cells.md" in found[0]
    assert published is not None
    assert _study(published).tables
