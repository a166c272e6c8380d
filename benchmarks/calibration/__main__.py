"""Fit the free parameters to the published figures; write profile and report; print the report.

`python -m benchmarks.calibration` fits (needs scipy, takes about a minute); `--check` only evaluates what is
committed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.calibration import known
from benchmarks.calibration.evaluate import Evaluation, summary
from benchmarks.calibration.figures import Figure, read
from benchmarks.calibration.fit import fit
from benchmarks.calibration.profile import PROFILE, assemble
from benchmarks.calibration.report import REPORT, lines, report


def left_out(figures: Sequence[Figure]) -> dict[str, Any]:
    """Return the errors of each model under the hardware parameters that the other two give."""
    found = {}
    for model in known.MODELS:
        others = [one for one in known.MODELS if one != model]
        judged = Evaluation(assemble(fit(figures, others), figures), figures)
        mine = {
            "system_throughput": [one.error for one in judged.throughputs() if one.cell.model == model],
            "speculation_ratio": [
                one.error for one in judged.relations("speculation_ratio") if one.cell.model == model
            ],
            "nvlink_gain_points": [one.error for one in judged.nvlink_gains() if one.cell.model == model],
        }
        found[model] = {name: summary(errors) for name, errors in mine.items()}
    return found


def write(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    figures = read()
    if "--check" in arguments:
        document = report(Evaluation(json.loads(PROFILE.read_text(encoding="utf-8")), figures))
    else:
        profile = assemble(fit(figures, list(known.MODELS)), figures)
        document = report(Evaluation(profile, figures)) | {"leave_one_model_out": left_out(figures)}
        write(PROFILE, profile)
        write(REPORT, document)
    sys.stdout.write("\n".join(lines(document)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
