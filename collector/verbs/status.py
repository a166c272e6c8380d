"""`collector status CAMPAIGN`: what is measured, what failed, what is left."""

from __future__ import annotations

import argparse
from pathlib import Path

from collector.core.configuration import row_id
from collector.core.plan import parse_plan
from collector.measure.campaign import find_campaign, read_tables
from collector.verbs.files import read_text


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("status", help="what a campaign has, what failed, what is left")
    parser.add_argument("campaign", type=Path, help="folder of a campaign, such as data/NAME")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    folder = find_campaign(args.campaign)
    rows, failures, _ = read_tables(folder)
    path = folder / "plan.yaml"
    plan = parse_plan(read_text(path), str(path))
    marks = {row.row_id: row.checks for row in rows}
    failed = {(one.configuration_id, one.repeat): one.category for one in failures}
    for one in plan.runs:
        cells = [row_id(one.configuration, stage, one.repeat) for stage in one.stages]
        have = [cell for cell in cells if cell in marks]
        bad = sum(bool(marks[cell]) for cell in have)
        category = failed.get((one.configuration.configuration_id, one.repeat))
        notes = [f"{len(have)}/{len(cells)} rows"]
        notes += [f"{bad} with failed checks"] if bad else []
        notes += [f"failed: {category}"] if category and len(have) < len(cells) else []
        repeat = f" · repeat {one.repeat}" if one.repeat > 1 else ""
        print(f"{one.configuration.configuration_id}  {one.configuration.label}{repeat}: {', '.join(notes)}")
    return 0
