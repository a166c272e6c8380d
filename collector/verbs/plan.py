"""`collector plan PLAN`: what would run, in which order, with which commands, and about how long."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from collector.core.command import shown_command
from collector.core.configuration import Plan, Run, row_id
from collector.core.container import shown_run
from collector.core.errors import UserError
from collector.core.estimate import ASSUMPTIONS, plan_seconds, run_seconds
from collector.core.plan import parse_plan
from collector.core.plan_schema import json_schema
from collector.verbs.files import read_text


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("plan", help="list what a plan would run, with commands and an estimate")
    parser.add_argument("plan", type=Path, nargs="?", help="plan file (YAML)")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of plan files and end")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.schema:
        print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        return 0
    if args.plan is None:
        raise UserError("plan: name a plan file, or give --schema")
    plan = parse_plan(read_text(args.plan), str(args.plan))
    if args.json:
        print(json.dumps(as_json(plan), indent=2, ensure_ascii=False))
    else:
        print("\n".join(lines(plan)))
    return 0


def lines(plan: Plan) -> list[str]:
    """Return the plan as a person reads it."""
    told = [f"{plan.campaign}: {plan.about}".rstrip(": ")]
    for number, one in enumerate(plan.runs, start=1):
        c = one.configuration
        repeat = f" · repeat {one.repeat}" if one.repeat > 1 else ""
        told += ["", f"[{number}/{len(plan.runs)}] {c.configuration_id}  {c.label}{repeat}"]
        told += [f"    {_command(plan, one)}"]
        told += [f"    {row_id(c, stage, one.repeat)}  {stage.label}" for stage in one.stages]
    rows = sum(len(one.stages) for one in plan.runs)
    told += ["", f"{len(plan.configurations)} configurations, {len(plan.runs)} engine starts, {rows} rows"]
    return [*told, f"about {plan_seconds(plan) / 60:.0f} minutes ({ASSUMPTIONS})"]


def _command(plan: Plan, one: Run) -> str:
    if plan.engine.kind == "url":
        return f"the engine at {plan.engine.url}, as somebody else runs it"
    kind = plan.engine.kind
    if kind == "docker" or (kind == "auto" and one.configuration.image):
        return shown_run(one.configuration, plan.engine)
    return shown_command(one.configuration, list(plan.engine.command), plan.engine.port)


def as_json(plan: Plan) -> dict[str, Any]:
    return {
        "campaign": plan.campaign,
        "plan_digest": plan.digest,
        "estimate_s": round(plan_seconds(plan)),
        "runs": [
            {
                "configuration_id": one.configuration.configuration_id,
                "label": one.configuration.label,
                "repeat": one.repeat,
                "command": _command(plan, one),
                "estimate_s": round(run_seconds(one)),
                "stages": [
                    {"row_id": row_id(one.configuration, stage, one.repeat), "label": stage.label}
                    for stage in one.stages
                ],
            }
            for one in plan.runs
        ],
    }
