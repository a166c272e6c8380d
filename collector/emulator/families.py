"""The series of vLLM 0.27.0 under their exact names, labels and buckets, in the order of its scrapes."""

from __future__ import annotations

from dataclasses import dataclass

_TAIL = (0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, *_TAIL, 160, 640, 2560)
STEP = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, *_TAIL)
LONG = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
ITERATION = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
FEW = (1, 2, 5, 10, 20)
#: Stands for 1, 2, 5, 10 and so on up to the longest sequence.
UP_TO_LENGTH: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """One family. A counter or gauge may have a label with fixed values; a histogram has bounds."""

    name: str  # without the vllm: before it
    kind: str
    about: str
    label: str = ""
    values: tuple[str, ...] = ()
    bounds: tuple[float, ...] = UP_TO_LENGTH


def _counter(name: str, about: str, label: str = "", *values: str) -> Family:
    return Family(f"{name}_total", "counter", about, label, values)


def _gauge(name: str, about: str, label: str = "", *values: str) -> Family:
    return Family(name, "gauge", about, label, values)


def _histogram(name: str, about: str, bounds: tuple[float, ...] = UP_TO_LENGTH) -> Family:
    return Family(name, "histogram", about, bounds=bounds)


def speculation(positions: int) -> tuple[Family, ...]:
    """Return the families that exist only with a speculative configuration."""
    return (
        _counter("spec_decode_num_drafts", "Drafts verified, one per request and step that had any."),
        _counter("spec_decode_num_draft_tokens", "Draft tokens verified."),
        _counter("spec_decode_num_accepted_tokens", "Draft tokens accepted, before any is cut off."),
        _counter(
            "spec_decode_num_accepted_tokens_per_pos",
            "Drafts of which the tokens up to this position were accepted.",
            "position",
            *map(str, range(positions)),
        ),
    )


FAMILIES = (
    _counter("estimated_flops_per_gpu", "Off: stays 0 without MFU metrics."),
    _counter("estimated_read_bytes_per_gpu", "Off: stays 0 without MFU metrics."),
    _counter("estimated_write_bytes_per_gpu", "Off: stays 0 without MFU metrics."),
    _gauge("num_requests_running", "Requests in the batch as of the last step."),
    _gauge("num_requests_waiting", "Requests that wait as of the last step."),
    _gauge("num_requests_waiting_by_reason", "Requests that wait, by what for.", "reason", "capacity", "deferred"),
    _gauge("engine_sleep_state", "Sleep state.", "sleep_state", "awake", "weights_offloaded", "discard_all"),
    _gauge("kv_cache_usage_perc", "Share of the KV cache in use, from 0 to 1."),
    _counter("prefix_cache_queries", "Prompt tokens looked up in the prefix cache."),
    _counter("prefix_cache_hits", "Prompt tokens found in the prefix cache."),
    _counter("external_prefix_cache_queries", "As prefix_cache_queries, of a connector."),
    _counter("external_prefix_cache_hits", "As prefix_cache_hits, of a connector."),
    _counter("mm_cache_queries", "Multimodal items looked up."),
    _counter("mm_cache_hits", "Multimodal items found."),
    _counter("num_preemptions", "Preemptions, told with the request's next output."),
    _counter("prompt_tokens", "Prompt tokens of requests that had their first output."),
    _counter(
        "prompt_tokens_by_source",
        "Prompt tokens by where their KV came from.",
        "source",
        "local_compute",
        "local_cache_hit",
        "external_kv_transfer",
    ),
    _counter("prompt_tokens_cached", "Prompt tokens that were not computed."),
    _counter("generation_tokens", "Tokens generated."),
    _counter(
        "request_success",
        "Finished requests by reason.",
        "finished_reason",
        "stop",
        "length",
        "abort",
        "error",
        "repetition",
    ),
    _histogram("request_prompt_tokens", "Prompt tokens of a finished request."),
    _histogram("request_generation_tokens", "Generated tokens of a finished request."),
    _histogram("iteration_tokens_total", "Tokens of a step with an output: prompts that ended, and new.", ITERATION),
    _histogram("request_max_num_generation_tokens", "Most tokens generated for one choice of a request."),
    _histogram("request_params_n", "Parameter n of a finished request.", FEW),
    _histogram("request_params_max_tokens", "Parameter max_tokens of a finished request."),
    _histogram("time_to_first_token_seconds", "Arrival to first token.", FIRST_TOKEN),
    _histogram("inter_token_latency_seconds", "Between two outputs of a request, once per step.", STEP),
    _histogram("request_time_per_output_token_seconds", "Decode time per token after the first.", STEP),
    _histogram("e2e_request_latency_seconds", "Arrival to end.", LONG),
    _histogram("request_queue_time_seconds", "Queued to first scheduled.", LONG),
    _histogram("request_inference_time_seconds", "First scheduled to last token.", LONG),
    _histogram("request_prefill_time_seconds", "First scheduled to first token.", LONG),
    _histogram("request_decode_time_seconds", "First to last token.", LONG),
    _histogram("request_prefill_kv_computed_tokens", "Prompt tokens computed for a finished request."),
)


def up_to(length: int) -> tuple[float, ...]:
    """Return 1, 2, 5, 10, 20, 50 and so on up to `length`."""
    steps = (digit * 10**power for power in range(len(str(length))) for digit in (1, 2, 5))
    return tuple(float(one) for one in steps if one <= length)
