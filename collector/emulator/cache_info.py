"""The labels of vllm:cache_config_info: the engine's own statement of its KV cache."""

from __future__ import annotations

from collector.emulator.memory import KvPlan, utilization
from collector.emulator.profile import Profile
from collector.emulator.setup import Setup

#: What every engine of ours says, as vLLM 0.27.0 does for a model without state-space layers.
_FIXED = {
    "_block_size_resolved": "True",
    "calculate_kv_scales": "False",
    "engine": "0",
    "is_attention_free": "False",
    "kv_cache_dtype_skip_layers": "[]",
    "kv_offloading_backend": "native",
    "kv_offloading_size": "None",
    "kv_sharing_fast_prefill": "False",
    "mamba_block_size": "None",
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_page_size_padded": "None",
    "mamba_ssm_cache_dtype": "auto",
    "num_cpu_blocks": "None",
    "prefix_caching_hash_algo": "sha256",
    "prefix_match_unit": "None",
    "replayssm_buffer_len": "16",
    "skip_page_size_padded": "None",
    "use_replayssm": "False",
    "user_specified_mamba_block_size": "False",
}


def cache_info(profile: Profile, setup: Setup, plan: KvPlan) -> dict[str, str]:
    window = profile.model(setup.model).sliding_window
    own = {
        "block_size": plan.block_size,
        "cache_dtype": setup.kv_cache_dtype,
        "enable_prefix_caching": setup.enable_prefix_caching,
        "gpu_memory_utilization": utilization(profile, setup),
        "kv_cache_max_concurrency": plan.max_concurrency,
        "kv_cache_memory_bytes": setup.kv_cache_memory_bytes,
        "kv_cache_size_tokens": plan.tokens,
        "num_gpu_blocks": plan.blocks,
        "num_gpu_blocks_override": setup.num_gpu_blocks_override,
        "sliding_window": window,
        "user_specified_block_size": setup.block_size is not None,
    }
    return _FIXED | {name: str(value) for name, value in own.items()}
