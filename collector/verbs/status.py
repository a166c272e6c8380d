"""`collector status CAMPAIGN`: what is measured, what failed, what is left."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from collector.core.configuration import row_id
from collector.core.sound import check_tables
from collector.measure.campaign import find_campaign, read_plans, read_tables


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("status", help="what a campaign has, what failed, what is left")
    parser.add_argument("campaign", type=Path, help="folder or name of a campaign, such as data/NAME")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    states = run_states(find_campaign(args.campaign))
    if args.json:
        print(json.dumps(states, indent=2, ensure_ascii=False))
    else:
        for one in states:
            print(_told(one))
    return 0


def run_states(folder: Path) -> list[dict[str, Any]]:
    """Return, per engine start of the campaign's plans, how many rows it has of how many, and its failure."""
    rows, failures, _ = read_tables(folder)
    check_tables(folder, rows, failures)
    marks = {row.row_id: row.checks for row in rows}
    failed = {(one.configuration_id, one.repeat): one.category for one in failures}
    states = []
    for one in (run for plan in read_plans(folder) for run in plan.runs):
        configuration = one.configuration
        cells = [row_id(configuration, stage, one.repeat) for stage in one.stages]
        have = [cell for cell in cells if cell in marks]
        category = failed.get((configuration.configuration_id, one.repeat))
        states.append(
            {
                "configuration_id": configuration.configuration_id,
                "label": configuration.label,
                "repeat": one.repeat,
                "rows": len(have),
                "cells": len(cells),
                "rows_with_failed_checks": sum(bool(marks[cell]) for cell in have),
                "failed": category if len(have) < len(cells) else None,
            }
        )
    return states


def _told(state: dict[str, Any]) -> str:
    notes = [f"{state['rows']}/{state['cells']} rows"]
    notes += [f"{state['rows_with_failed_checks']} with failed checks"] if state["rows_with_failed_checks"] else []
    notes += [f"failed: {state['failed']}"] if state["failed"] else []
    repeat = f" · repeat {state['repeat']}" if state["repeat"] > 1 else ""
    return f"{state['configuration_id']}  {state['label']}{repeat}: {', '.join(notes)}"
