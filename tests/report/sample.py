"""Two small campaigns with invented, plausible figures; `python -m tests.report.sample` writes them again.

sample-dual has what a page must cope with: gains, a gain that turns into a loss, repeats, a failed check, a
configuration that never started. sample-emulated has rows but nothing to compare.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from collector.core.codec import to_csv
from collector.core.rows import SCHEMA_VERSION, Failure, Position, Row
from collector.report.pages import Campaign

FOLDER = Path(__file__).resolve().parents[1] / "data" / "campaigns"
OUTPUT_TOKENS = 256

HOST = {
    "host_id": "h-7f3a91c2d4",
    "cpu_model": "Example CPU 16-Core",
    "gpu_model": "NVIDIA GeForce RTX 3090",
    "gpu_count": 2,
    "driver_version": "580.95.05",
}

PLAN = """\
plan: 1
campaign: sample-dual
about: Does speculative decoding pay under load?

engine:
  kind: docker
  image: example/engine:0.27.0

models:
  alpha-30b:
    path: example/alpha-30b
    drafter: example/alpha-30b-draft

stages:
  concurrency: {1: 8, 8: 32, 32: 64}
"""

HOST_JSON = '{\n  "driver_version": "580.95.05",\n  "gpus": ["NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090"]\n}\n'


def short_hash(*parts: object) -> str:
    return hashlib.sha256("/".join(str(part) for part in parts).encode()).hexdigest()[:10]


def make_row(**changes: Any) -> Row:
    """Return a row whose derived figures fit its throughput, concurrency, tokens per step and acceptance."""
    given: dict[str, Any] = {
        "campaign": "sample-dual",
        "provenance": "measured",
        "series": "main",
        "model": "alpha-30b",
        "kv_cache_dtype": "auto",
        "speculation": "off",
        "num_speculative_tokens": None,
        "nvlink": "on",
        "concurrency": 1,
        "requests": 8,
        "repeat": 1,
        "system_throughput_tok_s": 60.0,
        "ttft_mean_s": 0.25,
        "tokens_per_step": 1.0,
        "prompt_set": "synthetic",
        "extra_flags": None,
        "max_num_seqs": 32,
        "attention_backend": "FLASH_ATTN",
    } | changes
    speculating = given["speculation"] != "off"
    configuration = short_hash(
        *(given[name] for name in ("campaign", "series", "model", "kv_cache_dtype", "speculation", "nvlink")),
        *(given[name] for name in ("num_speculative_tokens", "extra_flags", "max_num_seqs")),
        *(given[name] for name in ("speculative_config",) if name in given),
    )
    defaults = _identity(given, configuration) | _speculation(given, speculating) | _measured(given, speculating)
    empty = {name: None for name in Row.__dataclass_fields__ if name not in defaults}
    return Row(**(empty | defaults | given))


def _identity(given: dict[str, Any], configuration: str) -> dict[str, Any]:
    stage = (given["concurrency"], given["requests"], given["prompt_set"])
    return HOST | {
        "schema_version": SCHEMA_VERSION,
        "row_id": short_hash(configuration, *stage, given["repeat"]),
        "configuration_id": configuration,
        "measured_at": f"2026-09-1{given['repeat']}T04:05:06Z",
        "collector_version": "0.1.0",
        "plan_digest": "0f1e2d3c4b5a",
        "engine_kind": "docker",
        "engine_version": "0.27.0",
        "image": "example/engine:0.27.0",
        "tensor_parallel": 2,
        "max_model_len": 16384,
        "model_path": f"example/{given['model']}",
        "prompt_set_digest": short_hash("prompts", given["prompt_set"]),
        "output_tokens": OUTPUT_TOKENS,
        "warmup_requests": given["concurrency"],
        "requests_sent": given["requests"],
        "requests_done": given["requests"],
        "requests_failed": 0,
        "window_method": "whole_stage",
        "prompt_tokens_mean": 702.5,
        "start_s": 118.0,
        "kv_cache_tokens": 61_440,
        "preemptions": 0,
        "checks": "",
        "checks_not_run": "",
    }


def _speculation(given: dict[str, Any], speculating: bool) -> dict[str, Any]:
    if not speculating:
        return {"drafter": None, "speculative_config": None}
    k = given["num_speculative_tokens"]
    return {
        "drafter": f"example/{given['model']}-draft",
        "speculative_config": f'{{"method":"{given["speculation"]}","num_speculative_tokens":{k}}}',
    }


def _measured(given: dict[str, Any], speculating: bool) -> dict[str, Any]:
    tokens = given["requests"] * OUTPUT_TOKENS
    throughput = given["system_throughput_tok_s"]
    if throughput is None:
        return {"window_s": 30.0, "generation_tokens": None}
    window_s = tokens / throughput
    steps = round((tokens - given["requests"]) / given["tokens_per_step"])
    tpot = given["concurrency"] / throughput
    found: dict[str, Any] = {
        "window_s": window_s,
        "generation_tokens": tokens,
        "request_decode_rate_tok_s": 1 / tpot,
        "tpot_mean_s": tpot,
        "step_time_mean_s": tpot * given["tokens_per_step"],
        "kv_usage_peak": min(0.98, given["concurrency"] * 960 / 61_440),
    }
    if speculating:
        accepted = round(steps * (given["tokens_per_step"] - 1))
        drafted = steps * given["num_speculative_tokens"]
        found |= {
            "drafts": steps,
            "draft_tokens": drafted,
            "accepted_tokens": accepted,
            "acceptance_rate": accepted / drafted,
            "accepted_per_forward": accepted / steps,
        }
    return found


def make_failure(**changes: Any) -> Failure:
    defaults: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "campaign": "sample-dual",
        "failure_id": short_hash("failure", sorted(changes.items())),
        "configuration_id": short_hash("never ran", sorted(changes.items())),
        "repeat": 1,
        "attempt": 1,
        "provenance": "measured",
        "failed_at": "2026-09-12T05:06:07Z",
        "series": "main",
        "model": "gamma-33b",
        "kv_cache_dtype": "auto",
        "speculation": "off",
        "num_speculative_tokens": None,
        "nvlink": "on",
        "engine_kind": "docker",
        "engine_version": "0.27.0",
        "category": "oom_weights",
        "phase": "weights",
        "cause": "torch.OutOfMemoryError: CUDA out of memory.",
        "exit_code": 1,
        "alive_s": 41.5,
        "retryable": False,
        "log": "logs/gamma.log",
    }
    empty: dict[str, Any] = dict.fromkeys(Failure.__dataclass_fields__)
    return Failure(**(empty | defaults | changes))


#: Concurrency to requests.
STAGES = {1: 8, 8: 32, 32: 64}


def _arm(throughputs: dict[int, float], **changes: Any) -> list[Row]:
    ttft = {1: 0.21, 8: 1.32, 32: 4.87}
    return [
        make_row(
            concurrency=concurrency,
            requests=STAGES[concurrency],
            system_throughput_tok_s=throughput,
            ttft_mean_s=ttft[concurrency] * (1.2 if changes.get("speculation") else 1.0),
            **changes,
        )
        for concurrency, throughput in throughputs.items()
    ]


def dual() -> Campaign:
    alpha = {"model": "alpha-30b"}
    dflash = alpha | {"speculation": "dflash", "num_speculative_tokens": 15, "tokens_per_step": 3.9}
    beta = {"model": "beta-31b", "attention_backend": "TRITON_ATTN"}
    mtp = beta | {"speculation": "mtp", "num_speculative_tokens": 4, "tokens_per_step": 3.4}
    rows = [
        *_arm({1: 57.6, 8: 301.4, 32: 496.8}, **alpha),
        *_arm({1: 57.9, 8: 303.0, 32: 498.1}, **alpha, repeat=2),
        *_arm({1: 101.2, 8: 262.5, 32: 219.6}, **dflash),
        *_arm({1: 100.1, 8: 259.9, 32: 221.4}, **dflash, repeat=2),
        *_arm({1: 55.6, 8: 252.3, 32: 286.1}, **beta),
        *_arm({1: 119.4, 8: 340.2}, **mtp),
        *_arm({32: 338.7}, **mtp, checks="throttled", checks_not_run="prefix_hits"),
        *_arm({1: 48.9, 8: 231.7}, model="gamma-33b"),
    ]
    failures = [
        make_failure(speculation="mtp", num_speculative_tokens=1, category="oom_unknown", phase="profile",
                     cause="torch.OutOfMemoryError: CUDA out of memory. GPU 0 has a total capacity of 23.56 GiB "
                     "of which 6.38 MiB is free."),
        make_failure(model="beta-31b", kv_cache_dtype="fp8_e5m2", nvlink=None, category="kv_dtype", phase="config",
                     cause="ValueError: FP8 KV cache is not supported by the Triton attention backend",
                     log="logs/beta-fp8.log"),
        make_failure(model="beta-31b", kv_cache_dtype="fp8_e5m2", speculation="mtp", num_speculative_tokens=4,
                     nvlink=None, category="timeout", phase="weights", cause="no new log line for 600 s",
                     retryable=True, exit_code=None, exit_signal=9, log=None),
    ]  # fmt: skip
    positions = [
        Position(
            schema_version=SCHEMA_VERSION,
            campaign="sample-dual",
            row_id=rows[6].row_id,
            configuration_id=rows[6].configuration_id,
            position=position,
            drafts=523,
            accepted_tokens=accepted,
            acceptance_rate=accepted / 523,
            conditional_rate=accepted / before,
        )
        for position, before, accepted in ((1, 523, 419), (2, 419, 330))
    ]
    return Campaign(
        name="sample-dual",
        rows=tuple(rows),
        failures=tuple(failures),
        positions=tuple(positions),
        plan_text=PLAN,
        host_text=HOST_JSON,
    )


def emulated() -> Campaign:
    rows = _arm(
        {1: 61.3, 8: 318.8, 32: 517.2},
        campaign="sample-emulated",
        provenance="emulated",
        model="delta-9b",
        nvlink=None,
    )
    kind = {"engine_kind": "emulated", "image": None, "gpu_count": 1, "tensor_parallel": 1}
    return Campaign(
        name="sample-emulated",
        rows=tuple(replace(row, **kind) for row in rows),  # type: ignore[arg-type]  # every value fits its column
        failures=(),
        positions=(),
        plan_text=None,
        host_text=None,
    )


def files(campaign: Campaign) -> dict[str, str]:
    """Return a campaign's files as a sweep leaves them."""
    found = {
        "rows.csv": to_csv(Row, campaign.rows),
        "failures.csv": to_csv(Failure, campaign.failures),
        "positions.csv": to_csv(Position, campaign.positions),
    }
    if campaign.plan_text is not None:
        found["plan.yaml"] = campaign.plan_text
    if campaign.host_text is not None:
        found["host.json"] = campaign.host_text
    return found


def write(campaign: Campaign, data: Path) -> None:
    folder = data / campaign.name
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files(campaign).items():
        (folder / name).write_text(text, encoding="utf-8", newline="")


if __name__ == "__main__":
    for sample in (dual(), emulated()):
        write(sample, FOLDER)
