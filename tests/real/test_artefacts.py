"""vLLM 0.27.0 itself reads what is to be pasted: its argument parser, its config files, its schedule validator.

One Python process of the real environment for all of it; no engine is started.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from collector.analysis.noise import noise_of
from collector.analysis.settings import Setting, loads
from collector.core.serving import config_text
from collector.core.speculative import SCHEDULE
from collector.report.build import read_campaign
from tests.analysis.arms import MTP, arm, pair_of, study_of
from tests.real.environment import ensure

pytestmark = pytest.mark.real

DATA = Path(__file__).parents[2] / "data"
#: Parses each case as `vllm serve` does, from its words and from its config file, and gives back what was understood.
READ = """\
import json, sys
from vllm.config import ModelConfig, ParallelConfig, SpeculativeConfig
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.spec_decode.dynamic.utils import validate_and_normalize_dynamic_sd_schedule
NAMES = ("model_tag", "model", "served_model_name", "kv_cache_dtype", "tensor_parallel_size", "max_model_len",
         "max_num_seqs", "speculative_config", "enable_prefix_caching", "disable_custom_all_reduce")
def read(words):
    parser = FlexibleArgumentParser()
    ServeSubcommand().subparser_init(parser.add_subparsers(dest="subparser"))
    found = vars(parser.parse_args(["serve", *words]))
    return {name: found.get(name) for name in NAMES}
told = []
for case in json.load(sys.stdin):
    understood = [read(case["words"]), read(["--config", case["config"]])]
    config = understood[0]["speculative_config"] or {}
    if "num_speculative_tokens_per_batch_size" in config:
        validate_and_normalize_dynamic_sd_schedule(config["num_speculative_tokens_per_batch_size"])
    if config.get("method") == "ngram":
        model = ModelConfig(model=sys.argv[1])
        made = SpeculativeConfig(target_model_config=model, target_parallel_config=ParallelConfig(), **config)
        understood.append([list(one) for one in made.num_speculative_tokens_per_batch_size or ()])
    told.append(understood)
print("TOLD" + json.dumps(told, default=str))
"""


def _settings() -> list[Setting]:
    """Return the settings of the stored campaigns, and of hostile and n-gram rows."""
    studies = [read_campaign(DATA / name) for name in ("dual-3090", "follow-up")]
    hostile = {"model": 'it\'s "$(off)" 1e3', "model_path": "org/off", "extra_flags": "--no-enable-prefix-caching"}
    studies.append(study_of(*pair_of({1: 1.7, 8: 0.6}, **hostile)))
    ngram = '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4}'
    off = [row for row in pair_of({1: 1.7, 8: 0.6}) if row.speculation == "off"]
    on = arm({1: 85.0, 8: 240.0}, **(MTP | {"speculation": "ngram", "speculative_config": ngram}))
    studies.append(study_of(*off, *on))
    found = [one for study in studies for load in loads(study, noise_of(study)) for one in load.settings]
    return list({one.file: one for one in found}.values())


def _read(settings: list[Setting], folder: Path) -> list[list[Any]]:
    cases = []
    for number, one in enumerate(settings):
        path = folder / f"{number}.yaml"
        path.write_text(config_text(one.serving, ["about"]))
        cases.append({"words": one.serving.arguments, "config": str(path)})
    environment = ensure()
    done = subprocess.run(
        [str(environment / "bin" / "python"), "-c", READ, str(environment / "models" / "tiny-a")],
        input=json.dumps(cases),
        env=os.environ | {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told: list[list[Any]] = json.loads(done.stdout.partition("TOLD")[2])
    return told


def test_the_engines_own_parser_understands_every_command_and_config_file_alike(tmp_path: Path) -> None:
    settings = _settings()
    told = _read(settings, tmp_path)
    for one, (command, config, *made) in zip(settings, told, strict=True):
        row = one.row
        assert command["model_tag"] == row.model_path == config["model"]
        for found in (command, config):
            assert found["served_model_name"] == [row.model]
            assert found["kv_cache_dtype"] == row.kv_cache_dtype
            assert (found["tensor_parallel_size"], found["max_model_len"]) == (row.tensor_parallel, row.max_model_len)
            assert str(found["max_num_seqs"]) == one.serving.option("max-num-seqs")
            wanted = one.serving.option("speculative-config")
            assert found["speculative_config"] == (json.loads(wanted) if wanted else None)
            assert (found["enable_prefix_caching"] is False) == ("--no-enable-prefix" in (row.extra_flags or ""))
        if made and one.suggested:
            assert made == [json.loads(one.suggested.config)[SCHEDULE]]
    scheduled = [one for one in settings if one.suggested]
    assert any(one.row.speculation == "ngram" for one in scheduled), [
        shlex.join(one.serving.arguments) for one in settings
    ]
    assert {one.row.model for one in scheduled} >= {"muse-glimmer-30b", "exaone-4.5-33b", "gemma-4-31b"}
