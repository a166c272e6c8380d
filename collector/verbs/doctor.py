"""`collector doctor [PLAN]`: is this host fit to measure? What would spoil a measurement, why, and what mends it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from textwrap import indent
from typing import Any

from collector.core.doctor import examine
from collector.core.doctor.facts import Needs, needs_of
from collector.core.doctor.finding import LEVELS, Finding
from collector.core.plan import parse_plan
from collector.core.plan_schema import ENGINE_KINDS
from collector.verbs.files import read_text

#: A sweep would choose containers where a GPU is; whether one is there is what is asked here.
MEASURED_BY_AUTO = "docker"
WORDS = {"spoils": "would spoil a measurement", "note": "to note", "unknown": "unknown", "ok": "fine"}
_WIDTH = 24


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("doctor", help="say what on this host would spoil a measurement, and how to mend it")
    parser.add_argument("plan", type=Path, nargs="?", help="plan file (YAML): look also at what it needs")
    parser.add_argument("--engine", choices=ENGINE_KINDS, help="engine kind instead of the plan's")
    parser.add_argument("--out", type=Path, default=Path("data"), help="folder of campaigns (default: data)")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run, root=Path("/"))  # where the kernel's files are


def run(args: argparse.Namespace) -> int:
    from collector.measure.gather import gather  # no other command loads the Docker client for this

    plan = parse_plan(read_text(args.plan), str(args.plan)) if args.plan else None
    kind = args.engine or (plan.engine.kind if plan else None)
    kind = MEASURED_BY_AUTO if kind == "auto" else kind
    needs = needs_of(plan, kind) if plan and kind else Needs(kind=kind)
    found = examine(gather(plan, kind, os.environ, data=args.out, root=args.root), needs)
    print(json.dumps(as_json(found), indent=2, ensure_ascii=False) if args.json else "\n".join(lines(found)))
    return 1 if any(one.level == "spoils" for one in found.values()) else 0


def as_json(found: Mapping[str, Finding]) -> dict[str, Any]:
    fit = all(one.level != "spoils" for one in found.values())
    return {"fit": fit, "checks": [{"name": name} | asdict(one) for name, one in found.items()]}


def lines(found: Mapping[str, Finding]) -> list[str]:
    """Return the findings as a person reads them, the worst first."""
    told = []
    for level in LEVELS:
        for name, one in found.items():
            if one.level == level:
                told.append(f"{level:<8} {name:<{_WIDTH}} {one.found}")
                told += _more("why: ", one.reason) + _more("fix: ", one.fix)
    counts = {level: sum(one.level == level for one in found.values()) for level in LEVELS}
    return [*told, "", ", ".join(f"{counts[level]} {WORDS[level]}" for level in LEVELS)]


def _more(label: str, text: str) -> list[str]:
    return [indent(label + text, " " * 9)] if text else []
