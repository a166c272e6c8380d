"""/metrics: the series of vLLM 0.27.0 with their types, labels and buckets."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from tests.fakes.engine import faults
from tests.fakes.engine.arguments import BLOCK

STARTED = time.time()
#: Each line: a type, or for histograms the name of their buckets; then names, with |label=value,value.
SERIES = """\
counter estimated_flops_per_gpu_total estimated_read_bytes_per_gpu_total estimated_write_bytes_per_gpu_total
counter prefix_cache_queries_total prefix_cache_hits_total mm_cache_queries_total mm_cache_hits_total
counter external_prefix_cache_queries_total external_prefix_cache_hits_total num_preemptions_total
counter generation_tokens_total prompt_tokens_total prompt_tokens_cached_total
counter prompt_tokens_by_source_total|source=local_compute,local_cache_hit,external_kv_transfer
counter request_success_total|finished_reason=stop,length,abort,error,repetition
gauge num_requests_running num_requests_waiting num_requests_waiting_by_reason|reason=capacity,deferred
gauge kv_cache_usage_perc engine_sleep_state|sleep_state=awake,weights_offloaded,discard_all
first time_to_first_token_seconds
step inter_token_latency_seconds request_time_per_output_token_seconds
long e2e_request_latency_seconds request_queue_time_seconds request_inference_time_seconds
long request_prefill_time_seconds request_decode_time_seconds
tokens request_prompt_tokens request_generation_tokens request_max_num_generation_tokens
tokens request_params_max_tokens request_prefill_kv_computed_tokens
few request_params_n
iteration iteration_tokens_total"""
SPEC_SERIES = """
counter spec_decode_num_drafts_total spec_decode_num_draft_tokens_total spec_decode_num_accepted_tokens_total
counter spec_decode_num_accepted_tokens_per_pos_total|position="""
TAIL = (0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
BUCKETS = {
    "first": (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, *TAIL, 160, 640, 2560),
    "step": (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, *TAIL),
    "long": (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680),
    "tokens": tuple(digit * 10**power for power in range(6) for digit in (1, 2, 5)),  # up to max_model_len
    "few": (1, 2, 5, 10, 20),
    "iteration": (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
}


def bare(name: str) -> str:
    return name.strip().removeprefix("vllm:").removesuffix("_total")


class Metrics:
    """A number for each name and value of its label (of a histogram, the sum), and what fell into each bucket."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.common = f'engine="0",model_name="{args.names[0]}"'
        self.dropped = {bare(name) for name in faults.text("DROP_SERIES").split(",")}
        self.reset()

    def reset(self) -> None:
        self.created = time.time()
        self.kinds: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.values: dict[str, dict[str, float]] = {}
        self.buckets: dict[str, dict[float, int]] = {}
        spec, table = self.args.speculative_config, SERIES
        if spec:
            table += SPEC_SERIES + ",".join(map(str, range(spec["num_speculative_tokens"])))
        for kind, *names in map(str.split, table.splitlines()):
            for each in names:
                name, _, label = each.partition("|")
                self.kinds[name] = "histogram" if kind in BUCKETS else kind
                self.labels[name], _, values = label.partition("=")
                self.values[name] = dict.fromkeys(values.split(","), 0.0)
                if kind in BUCKETS:
                    limit = self.args.max_model_len if kind == "tokens" else BUCKETS[kind][-1]
                    bounds = [bound for bound in BUCKETS[kind] if bound <= limit]
                    self.buckets[name] = dict.fromkeys([*bounds, float("inf")], 0)
        self.set("engine_sleep_state", 1, "awake")

    def add(self, name: str, number: float = 1, label: str = "") -> None:
        self.values[name][label] += number

    def set(self, name: str, number: float, label: str = "") -> None:
        self.values[name][label] = number

    def observe(self, name: str, number: float) -> None:
        self.values[name][""] += number
        self.buckets[name][next(bound for bound in self.buckets[name] if number <= bound)] += 1

    def text(self) -> str:
        lines = [f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {STARTED}"]
        lines += [f"# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total {time.process_time()}"]
        if "cache_config_info" not in self.dropped:
            lines += [f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{self.cache()}}} 1.0"]
        for name, kind in self.kinds.items():
            if bare(name) not in self.dropped:
                lines += self.family(f"vllm:{name}", kind, self.labels[name], self.values[name])
        return "\n".join([*lines, ""])

    def family(self, name: str, kind: str, label: str, values: dict[str, float]) -> Iterator[str]:
        own = {f',{label}="{value}"' if label else "": number for value, number in values.items()}
        yield f"# HELP {name} {name}\n# TYPE {name} {kind}"
        if kind == "histogram":
            count = 0.0
            for bound, here in self.buckets[name.removeprefix("vllm:")].items():
                count += here
                le = str(float(bound)).replace("inf", "+Inf")
                yield f'{name}_bucket{{{self.common},le="{le}"}} {count}'
            yield f"{name}_count{{{self.common}}} {count}\n{name}_sum{{{self.common}}} {values['']}"
        else:
            yield from (f"{name}{{{self.common}{one}}} {number}" for one, number in own.items())
        if kind != "gauge":
            created = f"{name.removesuffix('_total') if kind == 'counter' else name}_created"
            yield f"# HELP {created} {name}\n# TYPE {created} gauge"
            yield from (f"{created}{{{self.common}{one}}} {self.created}" for one in own)

    def cache(self) -> str:
        """Return what the engine says of its cache, as labels."""
        args, tokens, caching = self.args, self.args.kv_tokens, not self.args.no_enable_prefix_caching
        text = f"""engine=0 block_size={BLOCK} cache_dtype={args.kv_cache_dtype} enable_prefix_caching={caching}
        num_gpu_blocks={args.blocks} num_gpu_blocks_override={args.num_gpu_blocks_override}
        kv_cache_size_tokens={tokens} kv_cache_max_concurrency={tokens / args.max_model_len}
        gpu_memory_utilization={args.gpu_memory_utilization}"""
        return ",".join('{}="{}"'.format(*pair.split("=")) for pair in text.split())
