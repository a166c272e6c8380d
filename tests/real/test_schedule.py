"""A batch-size schedule on a real vLLM 0.27.0 (CPU build): accepted by its own validator, and run by its scheduler."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from collector.analysis.choosing import judging_of
from collector.analysis.noise import noise_of
from collector.analysis.proposals import proposals
from collector.analysis.schedule import measured, suggestions
from collector.analysis.study import Study
from collector.core.speculative import SAMPLER, SCHEDULE, SYNTHETIC_RATES, check_speculation
from collector.measure.campaign import read_tables
from collector.report.build import read_campaign
from tests.measure.sweeping import Bench
from tests.real.environment import ensure
from tests.report.remade import rendered

pytestmark = pytest.mark.real

DATA = Path(__file__).parents[2] / "data"
#: Gives schedules on standard input, one JSON list a line, to the engine's own validator and table.
VALIDATE = """\
import json, sys
from vllm.v1.spec_decode.dynamic import utils
for line in sys.stdin:
    schedule, sequences, k = json.loads(line)
    utils.validate_and_normalize_dynamic_sd_schedule(schedule)
    print(json.dumps(utils.build_dynamic_sd_schedule_lookup(schedule, sequences, k)))
"""
#: Makes the engine's own configuration object of an n-gram schedule.
CONSTRUCT = """\
import json, sys
from vllm.config import ModelConfig, ParallelConfig, SpeculativeConfig
model = ModelConfig(model=sys.argv[1])
target = {"target_model_config": model, "target_parallel_config": ParallelConfig()}
config = SpeculativeConfig(**target, **json.loads(sys.argv[2]))
print(config.num_speculative_tokens_per_batch_size)
"""
#: Makes the engine's own configuration object of an acceptance that is asked for: its checks, and the rates it uses.
SYNTHETIC = """\
import json, sys
from vllm.config import ModelConfig, ParallelConfig, SpeculativeConfig
model = ModelConfig(model=sys.argv[1])
target = {"target_model_config": model, "target_parallel_config": ParallelConfig()}
for line in sys.stdin:
    config = SpeculativeConfig(**target, **json.loads(line))
    print(json.dumps([config.rejection_sample_method, list(config.synthetic_acceptance_rates)]))
"""
RANGES = [[1, 4, 4], [5, 32, 0]]
PLAN = """\
plan: 1
campaign: small
engine:
  kind: process
  version: 0.27.0
  command: ["${COLLECTOR_VLLM}"]
  environment: {VLLM_CPU_KVCACHE_SPACE: 1, HF_HUB_OFFLINE: 1}
  flags: {enforce-eager: true}
models:
  tiny-a: {path: "${COLLECTOR_TINY_MODELS}/tiny-a"}
speculation:
  ngram-4: {method: ngram, num_speculative_tokens: 4, prompt_lookup_max: 4}
  ngram-4-up-to-4:
    method: ngram
    num_speculative_tokens: 4
    prompt_lookup_max: 4
    num_speculative_tokens_per_batch_size: RANGES
matrix: {model: tiny-a, speculation: [off, ngram-4, ngram-4-up-to-4], max_model_len: 2048, max_num_seqs: 32}
stages: {concurrency: {1: 4, 4: 12, 12: 24}, prompt_tokens: 300, output_tokens: 192}
limits: {ready_s: 600, start_stall_s: 300, stop_s: 20}
""".replace("RANGES", json.dumps(RANGES))


def _ask(program: str, *arguments: str, given: str = "") -> str:
    python = ensure() / "bin" / "python"
    done = subprocess.run(
        [str(python), "-c", program, *arguments], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_schedule_that_the_stored_campaigns_suggest_passes_the_engines_own_validator() -> None:
    studies = [read_campaign(DATA / name) for name in ("dual-3090", "follow-up")]
    found = [one for study in studies for one in suggestions(study, judging_of(study, noise_of(study)))]
    assert found
    lines = [[[list(part) for part in one.ranges], 32, one.pair.num_speculative_tokens] for one in found]
    tables = _ask(VALIDATE, given="".join(json.dumps(line) + "\n" for line in lines)).splitlines()
    for one, table in zip(found, map(json.loads, tables), strict=True):
        assert table[1:] == [k for first, last, k in one.ranges for _ in range(first, last + 1)]
        assert json.loads(one.config)[SCHEDULE] == [list(part) for part in one.ranges]


def test_every_acceptance_that_is_proposed_or_was_asked_for_passes_the_engines_own_validator() -> None:
    """n-gram stands for the drafters, whose weights are not here: what is checked does not depend on the method."""
    studies = [read_campaign(DATA / name) for name in ("dual-3090", "follow-up", "acceptance")]
    proposed = [one for study in studies for one in proposals(study, study.plans) if one.kind == "acceptance"]
    texts = [one.cells[0].configuration.speculative_config or "" for one in proposed]
    texts += [
        one for one in dict.fromkeys(row.speculative_config or "" for row in studies[-1].rows) if SYNTHETIC_RATES in one
    ]
    assert len(texts) > len(proposed) > 0
    ours = [json.loads(text) | {"method": "ngram", "prompt_lookup_max": 4} for text in texts]
    asked = [{name: value for name, value in one.items() if name != "model"} for one in ours]
    given = "".join(json.dumps(one) + "\n" for one in asked)
    printed = _ask(SYNTHETIC, str(ensure() / "models" / "tiny-a"), given=given).splitlines()
    told = [json.loads(line) for line in printed if line.startswith("[")]  # the engine logs between
    assert told == [["synthetic", one[SYNTHETIC_RATES]] for one in asked]


def test_an_acceptance_that_collector_refuses_the_engine_refuses_too() -> None:
    rising = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4, SAMPLER: "synthetic"}
    rising |= {SYNTHETIC_RATES: [0.2, 0.9]}
    assert check_speculation(rising)
    with pytest.raises(AssertionError, match="synthetic_acceptance_rates"):
        _ask(SYNTHETIC, str(ensure() / "models" / "tiny-a"), given=json.dumps(rising) + "\n")


def test_the_engine_makes_its_configuration_of_a_schedule() -> None:
    config = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, SCHEDULE: RANGES}
    told = _ask(CONSTRUCT, str(ensure() / "models" / "tiny-a"), json.dumps(config))
    assert json.loads(told.splitlines()[-1].replace("(", "[").replace(")", "]")) == RANGES


def test_a_schedule_runs_beside_both_pure_settings_and_drafts_nothing_where_k_is_0(tmp_path: Path) -> None:
    folder = ensure()
    places = {"COLLECTOR_VLLM": str(folder / "bin" / "vllm"), "COLLECTOR_TINY_MODELS": str(folder / "models")}
    bench = Bench(tmp_path, PLAN, **places)
    done = bench.sweep(timeout=1200)
    rows, failures, _ = read_tables(bench.campaign)
    assert (len(rows), failures) == (3 * 3, []), done.stdout + done.stderr
    assert {row.checks for row in rows} <= {"", "client_bound"}
    # On a busy machine the frontend starves now and then; that each cell ran is what is asked here.
    rows = [replace(row, checks="") for row in rows]
    study = Study(name="small", rows=tuple(rows))
    (found,) = measured(study)
    by_concurrency = {row.concurrency: row for row in rows if SCHEDULE in (row.speculative_config or "")}
    pure = {
        row.concurrency: row
        for row in rows
        if row.speculation == "ngram" and row is not by_concurrency[row.concurrency]
    }
    assert [(one.concurrency, one.k) for one in found.stages] == [(1, 4), (4, 4), (12, 0)]
    for one in found.stages:
        told = [side and round(side.value, 1) for side in (one.scheduled, one.on, one.off)]
        print(f"concurrency {one.concurrency}, k={one.k}: schedule, always on, off: {told} tok/s")
        assert None not in told
    # While requests come and go a step has fewer of them, so a few drafts are left at 12.
    assert (by_concurrency[12].drafted_step_share or 0) < 0.2 < (by_concurrency[1].drafted_step_share or 0)
    assert (by_concurrency[12].draft_tokens or 0) < 0.2 * (pure[12].draft_tokens or 0)
    article = rendered("recommendations", study, "en")
    table = article[article.index("{: #schedule }") :]
    for one in found.stages:
        for side in (one.scheduled, one.on, one.off):
            assert side
            assert f'value="{side.value:.6g}"' in table, "the page shows it against both pure settings"
    bench.nothing_left(2)
