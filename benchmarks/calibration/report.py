"""The report of a profile: every figure with its error, the parameters, the leave-one-model-out errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.calibration.evaluate import Compared, Evaluation, summary, within
from benchmarks.calibration.parameters import PARAMETERS

REPORT = Path(__file__).parents[2] / "data" / "published" / "calibration.json"


def report(judged: Evaluation) -> dict[str, Any]:
    """Return every figure with its error; a relative error is a fraction, that of an NVLink gain is in points."""
    throughputs, ratios = judged.throughputs(), judged.relations("speculation_ratio")
    ttft = judged.ttft()
    return {
        "system_throughput": _group(throughputs),
        "speculation_ratio": _group(ratios) | {"within": sum(map(within, ratios))},
        "kv_fp8_gain": _group(judged.relations("kv_fp8_gain")),
        "nvlink_gain_points": _group(judged.nvlink_gains()),
        "nvlink_traffic": _group(judged.traffic()),
        "request_decode_rate": _group(judged.decode_rates()),
        "accepted_per_forward": _group(judged.acceptance()),
        "ttft_at_32_s": {
            "lowest": round(min(ttft.values()), 3),
            "highest": round(max(ttft.values()), 3),
            "configurations": {cell.label(): round(seconds, 3) for cell, seconds in ttft.items()},
        },
        "preemptions_at_32": {cell.label(): judged.walked(cell).preemptions for cell in ttft},
        "parameters": parameters(judged.profile),
    }


def _group(compared: Sequence[Compared]) -> dict[str, Any]:
    lines = [
        {
            "figure": one.figure,
            "what": one.what,
            "cell": one.cell.label(),
            "published": round(one.published, 4),
            "emulated": round(one.emulated, 4),
            "error": round(one.error, 4),
        }
        for one in compared
    ]
    return {"summary": summary([one.error for one in compared]), "figures": lines}


def parameters(profile: Mapping[str, Any]) -> list[dict[str, Any]]:
    hardware = profile["hardware"]
    values = dict(hardware["efficiencies"])
    values |= {f"kv_read_{backend}": value for backend, value in values.pop("kv_read").items()}
    for state, link in hardware["links"].items():
        values |= {f"link_{state}_efficiency": link["efficiency"], f"link_{state}_latency_s": link["latency_s"]}
    return [
        {
            "name": one.name,
            "value": values[one.name],
            "unit": one.unit,
            "meaning": one.meaning,
            "bounds": [one.low, one.high],
        }
        for one in PARAMETERS
    ]


def lines(document: Mapping[str, Any]) -> list[str]:
    """Return the report as a table to print."""
    found = []
    for name, group in document.items():
        if isinstance(group, dict) and "summary" in group:
            found.append(f"\n{name}: {group['summary']}")
            for one in group["figures"]:
                scale, sign = (1, " pt") if name.endswith("points") else (100, " %")
                error = f"{one['error'] * scale:+7.1f}{sign}"
                found.append(f"  {one['cell']:62} {one['published']:9.2f} {one['emulated']:9.2f} {error}")
    ttft = document["ttft_at_32_s"]
    found.append(f"\nTTFT at 32: {ttft['lowest']} to {ttft['highest']} s")
    found += [
        f"  {one['name']:22} {one['value']:<10} {one['unit']:16} {one['meaning']}" for one in document["parameters"]
    ]
    for name, left_out in document.get("leave_one_model_out", {}).items():
        found.append(f"without {name}: {left_out['system_throughput']}, ratios {left_out['speculation_ratio']}")
    return found
