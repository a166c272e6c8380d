"""The setup of an article: facts of rows and host, and none that nobody stated."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from collector.analysis.study import Study
from collector.report.build import TEMPLATES, loader_of
from collector.report.environment import strict_environment
from collector.report.sections import setup
from collector.report.words import LANGUAGES, Words
from tests.report.sample import make_row

HOST: dict[str, Any] = {
    "kernel": "Linux 6.8.0",
    "board": "ROMED8-2T",
    "iommu": "passthrough",
    "cpu_governor": "performance",
    "gpus": [
        {"pci_address": "0000:01:00.0", "link_width": 16, "link_width_max": 16, "slot_width_max": 16},
        {"pci_address": "0000:02:00.0", "link_width": 8, "link_width_max": 16, "slot_width_max": None},
    ],
}
P2P = ("p2p_driver", "nccl_p2p", "custom_all_reduce")


def shown(host: object, language: str = "en", **row: Any) -> str:
    text = None if host is None else json.dumps(host)
    study = Study(name="sample-dual", rows=(make_row(**row),), host_text=text)
    page = (
        strict_environment(loader_of(TEMPLATES), language)
        .get_template("article/setup.md.j2")
        .render(study=study, **setup.section(study, Words(language)))
    )
    return re.sub("<[^>]+>", " ", page)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_host_is_told_with_its_slots_and_the_three_facts_of_p2p(language: str) -> None:
    text = shown(HOST, language, p2p_driver=True, nccl_p2p=False, custom_all_reduce=False)
    for stated in ("Linux 6.8.0", "ROMED8-2T", "passthrough", "performance"):
        assert stated in text
    assert "x16 (card x16, slot x16)" in text
    assert "x8 (card x16)" in text
    assert (text.count("true"), text.count("false")) == (1, 2)


@pytest.mark.parametrize("host", [None, {}, [], {"kernel": "", "board": None, "gpus": []}, {"gpus": [{}, "x", 1]}])
def test_what_nobody_stated_is_left_out_and_never_a_zero(host: object) -> None:
    names = [name for name, _ in setup.section(_study(host), Words("en"))["facts"]]
    assert not {*P2P, "board", "kernel", "iommu", "cpu_governor", "pcie"} & set(names)


def _study(host: object) -> Study:
    row = make_row(**dict.fromkeys(P2P))
    return Study(name="sample-dual", rows=(row,), host_text=None if host is None else json.dumps(host))
