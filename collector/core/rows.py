"""What a row is: the frozen records behind rows.csv, failures.csv and positions.csv.

Each field carries its group, unit, meaning and source; the CSV header, datapackage.json and the data
dictionary page are made from these records and from nothing else. Longer than most files because it is
the table itself. Missing is None (an empty field), never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Goes up with any change of a column; an older file is read through a named upgrade step (codec.UPGRADES).
SCHEMA_VERSION = 3

PROVENANCES = ("measured", "emulated", "published")


def column(group: str, unit: str, meaning: str, source: str = "") -> Any:
    """Declare a column. `unit` is empty for words, ids and plain fractions."""
    return field(metadata={"group": group, "unit": unit, "meaning": meaning, "source": source})


def _identity(meaning: str, source: str = "") -> Any:
    return column("identity", "", meaning, source)


def _percentile(metric: str, share: int, source: str) -> Any:
    meaning = f"{share}th percentile of {metric}, linear inside its bucket; empty above the last finite bound"
    return column("latency", "s", meaning, source)


def _bound(which: str, of: str) -> Any:
    return column("latency", "s", f"{which} bound of the bucket that holds {of}", "histogram bounds of the scrape")


def _telemetry(unit: str, meaning: str) -> Any:
    return column("telemetry", unit, meaning, "NVML")


TTFT = "vllm:time_to_first_token_seconds"
ITL = "vllm:inter_token_latency_seconds"
TPOT = "vllm:request_time_per_output_token_seconds"
QUEUE = "vllm:request_queue_time_seconds"
PREFILL = "vllm:request_prefill_time_seconds"
E2E = "vllm:e2e_request_latency_seconds"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One measurement of a cell (configuration x stage)."""

    schema_version: int = _identity("version of this table")
    campaign: str = _identity("one plan run on one host: the folder under data/")
    row_id: str = _identity("content hash of configuration, stage and repeat; unique in a campaign")
    configuration_id: str = _identity("content hash of everything fixed at engine start")
    repeat: int = _identity("1 for the first measurement of the cell, in an engine start of its own")
    provenance: str = _identity("measured, emulated or published; never mixed in one number")
    measured_at: str = _identity("end of the window, UTC, ISO 8601")
    collector_version: str = _identity("version of collector that took the measurement")
    plan_digest: str = _identity("SHA-256 of plan.yaml, first 12 hex digits")
    host_id: str = column("host", "", "stable pseudonym of the host", "hash of its machine id")
    cpu_model: str | None = column("host", "", "processor", "/proc/cpuinfo")
    gpu_model: str | None = column("host", "", "GPU name; empty on a host without one", "NVML")
    gpu_count: int | None = column("host", "GPUs", "GPUs that the engine used", "NVML")
    driver_version: str | None = column("host", "", "GPU driver", "NVML")
    p2p_driver: bool | None = column("host", "", "the driver lets every GPU reach every other's memory", "NVML")

    engine_kind: str = column("engine", "", "docker, process, url or emulated")
    engine_version: str = column("engine", "", "what the engine says it is", "GET /version")
    image: str | None = column("engine", "", "container image as the plan names it", "plan")
    image_digest: str | None = column(
        "engine", "", "digest of the image that ran: its registry's, else its own id", "Docker"
    )
    attention_backend: str | None = column("engine", "", "backend that the engine chose", "engine log")
    draft_attention_backend: str | None = column("engine", "", "the drafter's, when it differs", "engine log")
    cudagraph_mode: str | None = column("engine", "", "CUDA-graph mode after the engine's downgrades", "engine log")
    all_reduce: str | None = column("engine", "", "all-reduce backends in dispatch order", "engine log")
    nccl_p2p: bool | None = column(
        "engine", "", "NCCL goes from GPU to GPU; false: through host memory or a socket", "engine log, NCCL's lines"
    )
    custom_all_reduce: bool | None = column("engine", "", "vLLM's own all-reduce is in use", "engine log")
    linear_kernel: str | None = column("engine", "", "kernel of the quantised linear layers", "engine log")
    tensor_parallel: int = column("engine", "GPUs", "tensor-parallel size", "plan")
    max_model_len: int | None = column("engine", "tokens", "longest sequence the engine accepts", "GET /v1/models")
    max_num_seqs: int | None = column("engine", "sequences", "most sequences in one step", "plan")
    nvlink: str | None = column("engine", "", "on, off (P2P disabled), or empty when the plan does not vary it", "plan")
    extra_flags: str | None = column("engine", "", "serve flags beyond the columns, as passed", "plan")
    start_s: float | None = column("engine", "s", "from launch to ready", "collector's clock")
    model_load_gib: float | None = column("engine", "GiB", "weights on each GPU, drafter included", "engine log")
    weights_load_s: float | None = column("engine", "s", "loading the weights, drafter's included", "engine log")
    compile_s: float | None = column("engine", "s", "torch.compile, in start_s", "engine log")
    graph_gib: float | None = column("engine", "GiB", "CUDA graphs on each GPU", "engine log")

    series: str = column("model", "", "label of a group of runs measured together; pairs are made within it", "plan")
    model: str = column("model", "", "the plan's name of the model", "plan")
    model_path: str = column("model", "", "repository or path as the plan writes it", "plan")
    model_revision: str | None = column("model", "", "revision of the repository", "plan")
    model_commit: str | None = column("model", "", "commit of the repository that lay on the host", "hub's own notes")
    kv_cache_dtype: str = column("model", "", "KV cache dtype as asked for", "plan")

    speculation: str = column("speculation", "", "off, or the method", "plan")
    num_speculative_tokens: int | None = column("speculation", "tokens", "k: most tokens drafted per step", "plan")
    drafter: str | None = column("speculation", "", "drafter's repository or path", "plan")
    drafter_commit: str | None = column("speculation", "", "commit of the drafter's repository", "hub's own notes")
    speculative_config: str | None = column("speculation", "", "the --speculative-config object as JSON", "plan")

    concurrency: int = column("workload", "requests", "requests kept in flight", "plan")
    requests: int = column("workload", "requests", "requests in the stage", "plan")
    prompt_set: str = column("workload", "", "where the prompts come from", "plan")
    prompt_set_digest: str = column("workload", "", "content hash of the prompt set's texts")
    prompt_tokens_mean: float | None = column("workload", "tokens", "mean prompt length", "usage of the responses")
    output_tokens: int = column("workload", "tokens", "exact output length of each request", "plan")
    warmup_requests: int = column("workload", "requests", "discarded before the window", "plan")

    requests_sent: int = column("stage", "requests", "requests sent in the window", "client")
    requests_done: int = column("stage", "requests", "answered with status 200 and usage", "client")
    requests_failed: int = column("stage", "requests", "everything else", "client")
    window_method: str = column(
        "stage", "", "whole_stage: one window over all requests, ramp and drain included; steady: all lanes busy in it"
    )
    window_s: float = column("stage", "s", "between the returns of the two scrapes", "collector's monotonic clock")
    scrape_s: float | None = column("stage", "s", "how long the closing scrape took", "collector's clock")
    samples: int | None = column("stage", "scrapes", "gauge samples taken inside the window", "collector")

    generation_tokens: int | None = column("throughput", "tokens", "output tokens", "vllm:generation_tokens_total")
    prompt_tokens: int | None = column(
        "throughput", "tokens", "prompt tokens, cached ones included", "vllm:prompt_tokens_total"
    )
    prompt_tokens_computed: int | None = column(
        "throughput",
        "tokens",
        "prompt tokens computed, not cached",
        "vllm:prompt_tokens_by_source_total{local_compute}",
    )
    system_throughput_tok_s: float | None = column(
        "throughput",
        "tok/s",
        "generation_tokens / window_s over all requests",
        "vllm:generation_tokens_total",
    )
    prefill_throughput_tok_s: float | None = column(
        "throughput", "tok/s", "prompt_tokens_computed / window_s", "vllm:prompt_tokens_by_source_total"
    )
    request_decode_rate_tok_s: float | None = column(
        "throughput", "tok/s", "1 / tpot_mean_s: one request's decode rate", ITL
    )

    ttft_mean_s: float | None = column("latency", "s", "time to first token, queueing included", TTFT)
    ttft_p50_s: float | None = _percentile("ttft", 50, TTFT)
    ttft_p50_low_s: float | None = _bound("lower", "ttft_p50_s")
    ttft_p50_high_s: float | None = _bound("upper", "ttft_p50_s")
    ttft_p95_s: float | None = _percentile("ttft", 95, TTFT)
    ttft_p95_low_s: float | None = _bound("lower", "ttft_p95_s")
    ttft_p95_high_s: float | None = _bound("upper", "ttft_p95_s")
    queue_mean_s: float | None = column("latency", "s", "waiting before the first schedule", QUEUE)
    queue_p50_s: float | None = _percentile("queue time of finished requests", 50, QUEUE)
    queue_p50_low_s: float | None = _bound("lower", "queue_p50_s")
    queue_p50_high_s: float | None = _bound("upper", "queue_p50_s")
    queue_p95_s: float | None = _percentile("queue time of finished requests", 95, QUEUE)
    queue_p95_low_s: float | None = _bound("lower", "queue_p95_s")
    queue_p95_high_s: float | None = _bound("upper", "queue_p95_s")
    prefill_mean_s: float | None = column("latency", "s", "first schedule to first token", PREFILL)
    prefill_p50_s: float | None = _percentile("prefill time of finished requests", 50, PREFILL)
    prefill_p50_low_s: float | None = _bound("lower", "prefill_p50_s")
    prefill_p50_high_s: float | None = _bound("upper", "prefill_p50_s")
    prefill_p95_s: float | None = _percentile("prefill time of finished requests", 95, PREFILL)
    prefill_p95_low_s: float | None = _bound("lower", "prefill_p95_s")
    prefill_p95_high_s: float | None = _bound("upper", "prefill_p95_s")
    tpot_mean_s: float | None = column(
        "latency",
        "s",
        "time per output token after the first: itl_sum / (generation_tokens - ttft_count)",
        ITL,
    )
    tpot_p50_s: float | None = _percentile("tpot of finished requests", 50, TPOT)
    tpot_p50_low_s: float | None = _bound("lower", "tpot_p50_s")
    tpot_p50_high_s: float | None = _bound("upper", "tpot_p50_s")
    tpot_p95_s: float | None = _percentile("tpot of finished requests", 95, TPOT)
    tpot_p95_low_s: float | None = _bound("lower", "tpot_p95_s")
    tpot_p95_high_s: float | None = _bound("upper", "tpot_p95_s")
    step_time_mean_s: float | None = column(
        "latency",
        "s",
        "itl_sum / itl_count: per request and engine step, not per token under speculation",
        ITL,
    )
    e2e_mean_s: float | None = column("latency", "s", "arrival to last token, engine's clock", E2E)
    client_e2e_mean_s: float | None = column("latency", "s", "request sent to response read", "client")

    tokens_per_step: float | None = column(
        "speculation results",
        "tokens",
        "(generation_tokens - ttft_count) / itl_count; exactly 1 with speculation off",
        ITL,
    )
    drafts: int | None = column(
        "speculation results", "drafts", "request steps with a draft", "vllm:spec_decode_num_drafts_total"
    )
    draft_tokens: int | None = column(
        "speculation results", "tokens", "tokens drafted", "vllm:spec_decode_num_draft_tokens_total"
    )
    accepted_tokens: int | None = column(
        "speculation results",
        "tokens",
        "accepted, before trimming",
        "vllm:spec_decode_num_accepted_tokens_total",
    )
    acceptance_rate: float | None = column(
        "speculation results",
        "",
        "accepted_tokens / draft_tokens; empty when nothing was drafted",
        "vllm:spec_decode_*",
    )
    accepted_per_forward: float | None = column(
        "speculation results", "tokens", "accepted_tokens / drafts", "vllm:spec_decode_*"
    )
    drafted_step_share: float | None = column(
        "speculation results",
        "",
        "drafts / itl_count: share of request steps that verified a draft",
        "vllm:spec_decode_*",
    )
    trimmed_tokens: int | None = column(
        "speculation results",
        "tokens",
        "ttft_count + itl_count + accepted - generation_tokens: cut at the output length",
        ITL,
    )

    kv_cache_tokens: int | None = column(
        "kv and scheduling", "tokens", "KV capacity as the engine states it", "vllm:cache_config_info"
    )
    kv_cache_tokens_source: str | None = column(
        "kv and scheduling", "", "where kv_cache_tokens was read: info, log or blocks"
    )
    kv_usage_peak: float | None = column(
        "kv and scheduling",
        "",
        "largest sampled KV usage, a lower bound of the true peak",
        "vllm:kv_cache_usage_perc",
    )
    preemptions: int | None = column("kv and scheduling", "events", "preempted requests", "vllm:num_preemptions_total")
    waiting_peak: int | None = column(
        "kv and scheduling", "requests", "most requests seen waiting", "vllm:num_requests_waiting"
    )
    running_mean: float | None = column(
        "kv and scheduling", "requests", "mean of the sampled running requests", "vllm:num_requests_running"
    )
    decode_steps: int | None = column(
        "kv and scheduling",
        "steps",
        "engine steps with output; empty with several API servers",
        "vllm:iteration_tokens_total_count",
    )
    prefix_hit_rate: float | None = column(
        "kv and scheduling", "", "prefix-cache hits / queries, in tokens", "vllm:prefix_cache_hits_total"
    )
    occupancy: float | None = column(
        "kv and scheduling",
        "",
        "(itl_sum + ttft_sum) / loaded lane time; below 1 the client or frontend starves the engine",
        ITL,
    )
    frontend_cpu_s: float | None = column(
        "kv and scheduling", "s", "CPU of the API server", "process_cpu_seconds_total"
    )
    client_cpu_s: float | None = column(
        "kv and scheduling", "s", "CPU of collector inside the window", "collector's clock"
    )

    energy_j: float | None = _telemetry("J", "energy of the GPUs in the window; empty for a short one on Ampere")
    power_mean_w: float | None = _telemetry("W", "energy_j / window_s")
    power_max_w: float | None = _telemetry("W", "highest power of the GPUs together, of a sample")
    idle_power_w: float | None = _telemetry("W", "power of the same GPUs before the sweep's first engine")
    power_limit_w: float | None = _telemetry("W", "power limit of one GPU, the lowest where they differ")
    energy_per_token_j: float | None = _telemetry("J", "energy_j / generation_tokens, idle power included")
    tokens_per_joule: float | None = _telemetry("tok/J", "generation_tokens / energy_j")
    sm_clock_mean_mhz: float | None = _telemetry("MHz", "mean SM clock of the slowest GPU")
    sm_clock_min_mhz: int | None = _telemetry("MHz", "lowest SM clock under load, of a sample of any GPU")
    gpu_temperature_max_c: float | None = _telemetry("°C", "hottest GPU")
    gpu_utilisation_mean: float | None = _telemetry("", "mean share of time with a kernel running")
    gpu_memory_peak_mib: float | None = _telemetry("MiB", "most memory in use on one GPU, of a sample")
    gpu_samples: int | None = _telemetry("samples", "samples of the GPUs taken inside the window")
    throttle_reasons: str | None = _telemetry(
        "", "clock throttle reasons seen in the window; none where there was none"
    )
    nvlink_bytes: int | None = _telemetry("bytes", "NVLink bytes sent and received over all GPUs")
    pcie_bytes: int | None = _telemetry(
        "bytes", "PCIe bytes sent and received over all GPUs: mean rate of the samples times window_s, an estimate"
    )
    pcie_link_width_min: int | None = _telemetry("lanes", "narrowest PCIe link under load")
    pcie_generation_min: int | None = _telemetry("", "lowest PCIe generation under load")

    checks: str = column(
        "checks", "", "names of the checks that failed, space separated; empty when all held", "collector"
    )
    checks_not_run: str = column("checks", "", "checks whose series this engine or host does not give", "collector")


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A configuration that did not start, or an engine that died while it was measured."""

    schema_version: int = _identity("version of this table")
    campaign: str = _identity("one plan run on one host: the folder under data/")
    failure_id: str = _identity("content hash of configuration, repeat, attempt and refused cell; unique in a campaign")
    configuration_id: str = _identity("content hash of everything fixed at engine start")
    repeat: int = _identity("which repeat was being measured")
    attempt: int = _identity("1 for the first start of this configuration and repeat that came to an end")
    provenance: str = _identity("measured, emulated or published; never mixed in one number")
    failed_at: str = _identity("when the failure was noticed, UTC, ISO 8601")
    series: str = column("model", "", "label of a group of runs measured together", "plan")
    model: str = column("model", "", "the plan's name of the model", "plan")
    kv_cache_dtype: str = column("model", "", "KV cache dtype as asked for", "plan")
    speculation: str = column("speculation", "", "off, or the method", "plan")
    num_speculative_tokens: int | None = column("speculation", "tokens", "k: most tokens drafted per step", "plan")
    nvlink: str | None = column("engine", "", "on, off, or empty when the plan does not vary it", "plan")
    engine_kind: str = column("engine", "", "docker, process, url or emulated")
    engine_version: str | None = column("engine", "", "what the plan asks for or the engine stated", "plan, engine log")
    category: str = column("cause", "", "one word of the failure categories", "engine log, exit code, phase")
    phase: str = column("cause", "", "what the engine was doing", "engine log")
    cause: str = column("cause", "", "the engine's own line, secrets removed", "engine log")
    row_id: str | None = column("cause", "", "the cell being measured, when the engine had been ready")
    kv_gib_needed: float | None = column("numbers", "GiB", "KV memory one request needs", "cause line")
    kv_gib_available: float | None = column("numbers", "GiB", "KV memory there was", "cause line")
    gib_tried: float | None = column("numbers", "GiB", "allocation that failed", "cause line")
    gib_free: float | None = column("numbers", "GiB", "GPU memory free at that moment", "cause line")
    max_model_len_estimate: int | None = column(
        "numbers", "tokens", "the engine's estimate of what would fit", "cause line"
    )
    exit_code: int | None = column("end", "", "exit code of the engine, empty while it still ran", "operating system")
    exit_signal: int | None = column("end", "", "signal that ended the engine", "operating system")
    oom_killed: bool | None = column(
        "end", "", "the container runtime says that the host killed it for memory", "Docker"
    )
    alive_s: float | None = column("end", "s", "from launch to the end or the verdict", "collector's clock")
    retryable: bool = column("end", "", "a fault of the moment or of the host: the next sweep tries again")
    log: str | None = column("end", "", "stored engine log, relative to the campaign")


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """Acceptance at one draft position of one row."""

    schema_version: int = _identity("version of this table")
    campaign: str = _identity("one plan run on one host: the folder under data/")
    row_id: str = _identity("the row of rows.csv")
    configuration_id: str = _identity("content hash of everything fixed at engine start")
    position: int = column("speculation results", "", "1 for the first drafted token", "label position + 1")
    drafts: int = column(
        "speculation results", "drafts", "request steps with a draft", "vllm:spec_decode_num_drafts_total"
    )
    accepted_tokens: int = column(
        "speculation results",
        "tokens",
        "drafts accepted up to here",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    )
    acceptance_rate: float | None = column("speculation results", "", "accepted_tokens / drafts (unconditional)")
    conditional_rate: float | None = column(
        "speculation results", "", "accepted here / accepted at the position before"
    )


def failed_checks(row: Row) -> tuple[str, ...]:
    """Return the names of the row's failed checks."""
    return tuple(row.checks.split())


def comparable(row: Row) -> bool:
    """Return whether the row may feed a ratio or a recommendation."""
    return not row.checks
