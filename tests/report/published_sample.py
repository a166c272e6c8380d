"""Invented published figures of the small sample, with a profile and a calibration to go with them."""

from __future__ import annotations

from typing import Any

from collector.report.published_files import Published, parse_published

SOURCE = '"A. Author, A title, example.org, measured 2026-08-20"'

#: What was "published" of the sample's configurations: a right ratio, one that does not add up, one without rows.
FIGURES = f"""\
figure_id,section,model,kv_cache_dtype,speculation,num_speculative_tokens,nvlink,concurrency,prompt_set,series,metric,value,unit,resolution,note,provenance,source
F1,setup,,,,,,,,main,max_num_seqs,32,sequences,1,,published,{SOURCE}
F2,speculation_gain,alpha-30b,auto,off,,on,1,synthetic,main,system_throughput,57.7,tok/s,0.1,,published,{SOURCE}
F3,speculation_gain,alpha-30b,auto,dflash,15,on,1,synthetic,main,system_throughput,101.0,tok/s,0.1,,published,{SOURCE}
F4,speculation_gain,alpha-30b,auto,dflash,15,on,1,synthetic,main,speculation_ratio,1.77,x,0.01,,published,{SOURCE}
F5,speculation_gain,alpha-30b,auto,dflash,15,on,32,synthetic,main,speculation_ratio,0.69,x,0.01,,published,{SOURCE}
F6,speculation_gain,beta-31b,auto,mtp,4,on,32,synthetic,main,speculation_ratio,1.19,x,0.01,,published,{SOURCE}
F7,kv_cache,alpha-30b,fp8_e5m2,off,,on,32,synthetic,main,kv_fp8_gain,19.6,%,0.1,,published,{SOURCE}
"""
FAILURES = f"""\
model,kv_cache_dtype,speculation,num_speculative_tokens,nvlink,series,category,gpu,free_mib,total_gib,engine_message,provenance,source
gamma-33b,auto,mtp,1,on,main,oom_unknown,0,6.38,23.56,CUDA out of memory,published,{SOURCE}
beta-31b,fp8_e5m2,off,,,main,kv_dtype,,,,ValueError: FP8 KV cache is not supported,published,{SOURCE}
"""
CALIBRATION = """\
{"speculation_ratio": {"summary": {"median": 0.016, "worst": 0.09, "figures": 3}, "figures": []},
 "parameters": [],
 "leave_one_model_out": {"alpha-30b": {"nvlink_gain_points": {"median": 2.76, "worst": 4.5, "figures": 2}}}}
"""
PROFILE: dict[str, Any] = {
    "hardware": {
        "gpu": {"source": "data sheet"},
        "links": {"on": {"efficiency": 0.87, "latency_s": 6.8e-06}},
        "efficiencies": {"w4_bandwidth": 0.93, "step_host_s": 0.0048, "overlap_norm": 4.48,
                         "kv_read": {"FLASH_ATTN": 0.29, "FLASHINFER": 0.9}},
    },
    "models": {"alpha-30b": {"dimensions": {"target": {"source": "its configuration"}, "drafters": {},
                                            "prompt_tokens": 640}}},
    "outcomes": [{"match": {"model": "gamma-33b", "speculation": "mtp", "nvlink": "on"}}],
}  # fmt: skip


def published(calibrated: bool = True) -> Published:
    texts = {"figures.csv": FIGURES, "failures.csv": FAILURES}
    return parse_published(texts | ({"calibration.json": CALIBRATION} if calibrated else {}), str, PROFILE)
