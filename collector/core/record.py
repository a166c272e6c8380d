"""Evidence to records: one window with its circumstances becomes one Row and its Positions."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from collector.core import series
from collector.core.checks import Evidence, lane_seconds, run_checks
from collector.core.command import flag_arguments
from collector.core.configuration import Configuration, Stage, row_id
from collector.core.counters import Percentile, StageResult, deltas, stage_result
from collector.core.engine_log import EngineFacts
from collector.core.gpu_figures import telemetry_columns
from collector.core.rows import SCHEMA_VERSION, Position, Row
from collector.core.secrets import redact
from collector.core.window import Window


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What a row says beside its figures; stored with the evidence, so that a row can be made again."""

    campaign: str
    repeat: int
    provenance: str
    measured_at: str
    collector_version: str
    plan_digest: str
    host_id: str
    cpu_model: str | None
    gpu_model: str | None
    gpu_count: int | None
    driver_version: str | None
    engine_kind: str
    engine_version: str
    max_model_len: int | None
    start_s: float | None
    prompt_set_digest: str
    facts: EngineFacts
    p2p_driver: bool | None = None
    image_digest: str | None = None
    model_commit: str | None = None
    drafter_commit: str | None = None


def make_row(
    context: Context, configuration: Configuration, stage: Stage, window: Window
) -> tuple[Row, tuple[Position, ...]]:
    """Compute a row and its positions from the stored evidence; nothing else goes in."""
    d = deltas(window.before, window.after)
    whole = d if window.idle is None else deltas(window.idle, window.confirm)
    result = stage_result(window, d, lane_s=lane_seconds(window))
    failed, not_run = run_checks(
        Evidence(
            window=window,
            deltas=d,
            whole=whole,
            after_window=deltas(window.after, window.confirm),
            stage=stage,
            speculation=configuration.speculation != "off",
            k=configuration.num_speculative_tokens,
            occupancy=result.occupancy,
            emulated=context.provenance == "emulated",
            # One card has nobody to talk to, whatever the plan says of its link.
            nvlink=configuration.nvlink if configuration.tensor_parallel > 1 else None,
        )
    )
    row = Row(
        schema_version=SCHEMA_VERSION,
        row_id=row_id(configuration, stage, context.repeat),
        **_circumstances(context, configuration, stage),
        **_client_columns(window),
        **_result_columns(result),
        **_kv_columns(window, context.facts),
        **telemetry_columns(window, result.generation_tokens),
        checks=" ".join(failed),
        checks_not_run=" ".join(not_run),
    )
    return row, _positions(row, result)


def _circumstances(context: Context, c: Configuration, stage: Stage) -> dict[str, Any]:
    facts = context.facts
    return {
        "campaign": context.campaign,
        "configuration_id": c.configuration_id,
        "repeat": context.repeat,
        "provenance": context.provenance,
        "measured_at": context.measured_at,
        "collector_version": context.collector_version,
        "plan_digest": context.plan_digest,
        "host_id": context.host_id,
        "cpu_model": context.cpu_model,
        "gpu_model": context.gpu_model,
        "gpu_count": context.gpu_count,
        "driver_version": context.driver_version,
        "p2p_driver": context.p2p_driver,
        "engine_kind": context.engine_kind,
        "engine_version": context.engine_version,
        "image": c.image,
        "image_digest": context.image_digest,
        # What the engine says it chose; what the plan asked for only where it says nothing.
        "attention_backend": facts.attention_backend,
        "draft_attention_backend": facts.draft_attention_backend,
        "cudagraph_mode": facts.cudagraph_mode,
        "all_reduce": facts.all_reduce,
        "nccl_p2p": facts.nccl_p2p,
        "custom_all_reduce": facts.custom_all_reduce,
        "linear_kernel": facts.linear_kernel,
        "tensor_parallel": c.tensor_parallel,
        "max_model_len": context.max_model_len,
        "max_num_seqs": c.max_num_seqs,
        "nvlink": c.nvlink,
        "extra_flags": redact(shlex.join(flag_arguments(dict(c.flags)))) or None,
        "start_s": context.start_s,
        "model_load_gib": facts.model_load_gib,
        "weights_load_s": facts.weights_load_s,
        "compile_s": facts.compile_s,
        "graph_gib": facts.graph_gib,
        "series": c.series,
        "model": c.model,
        "model_path": c.model_path,
        "model_revision": c.model_revision,
        "model_commit": context.model_commit,
        "kv_cache_dtype": c.kv_cache_dtype,
        "speculation": c.speculation,
        "num_speculative_tokens": c.num_speculative_tokens,
        "drafter": c.drafter,
        "drafter_commit": context.drafter_commit,
        "speculative_config": c.speculative_config,
        "concurrency": stage.concurrency,
        "requests": stage.requests,
        "prompt_set": stage.prompt_set,
        "prompt_set_digest": context.prompt_set_digest,
        "output_tokens": stage.output_tokens,
        "warmup_requests": stage.warmup_requests,
    }


def _client_columns(window: Window) -> dict[str, Any]:
    done = [one for one in window.measured if one.done]
    prompts = [one.prompt_tokens for one in done if one.prompt_tokens is not None]
    return {
        "prompt_tokens_mean": fmean(prompts) if prompts else None,
        "requests_sent": window.requests_sent - (len(window.requests) - len(window.measured)),
        "requests_done": len(done),
        "requests_failed": len(window.measured) - len(done),
        "window_method": window.method,
        "window_s": window.window_s,
        "scrape_s": window.scrape_s,
        "samples": len(window.samples),
        "client_e2e_mean_s": fmean(one.ended_s - one.sent_s for one in done) if done else None,
        "client_cpu_s": window.client_cpu_s,
    }


_PERCENTILES = tuple(f"{of}_{share}" for of in ("ttft", "queue", "prefill", "tpot") for share in ("p50", "p95"))


def _result_columns(result: StageResult) -> dict[str, Any]:
    columns: dict[str, Any] = {
        name: getattr(result, name)
        for name in StageResult.__dataclass_fields__
        if name not in _PERCENTILES and name != "positions"
    }
    for name in _PERCENTILES:
        found: Percentile = getattr(result, name)
        columns |= {f"{name}_s": found.value, f"{name}_low_s": found.low, f"{name}_high_s": found.high}
    return columns


def _kv_columns(window: Window, facts: EngineFacts) -> dict[str, Any]:
    """Return the KV capacity from the best source there is, and which one it was."""
    info = series.cache_info(window.after)
    sources = {"info": info.tokens, "log": facts.kv_cache_tokens, "blocks": info.block_tokens}
    source = next((name for name, tokens in sources.items() if tokens is not None), None)
    return {"kv_cache_tokens": sources[source] if source else None, "kv_cache_tokens_source": source}


def _positions(row: Row, result: StageResult) -> tuple[Position, ...]:
    if not result.positions or not result.drafts:
        return ()
    made, before = [], float(result.drafts)
    for position, accepted in result.positions.items():
        made.append(
            Position(
                schema_version=SCHEMA_VERSION,
                campaign=row.campaign,
                row_id=row.row_id,
                configuration_id=row.configuration_id,
                position=position + 1,
                drafts=result.drafts,
                accepted_tokens=round(accepted),
                acceptance_rate=accepted / result.drafts,
                conditional_rate=accepted / before if before else None,
            )
        )
        before = accepted
    return tuple(made)
