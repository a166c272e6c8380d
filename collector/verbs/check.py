"""`collector check CAMPAIGN`: is a campaign whole, and do its rows still follow from their evidence?"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from collector.measure.campaign import find_campaign, problems, read_tables


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("check", help="validate campaigns: schema, keys, words, evidence")
    parser.add_argument("campaign", type=Path, nargs="+", help="folder of a campaign, such as data/NAME")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    found = 0
    for path in args.campaign:
        folder = find_campaign(path)
        told = _told(folder)
        for one in told:
            print(one)
        rows, failures, _ = read_tables(folder)
        marked = sum(bool(row.checks) for row in rows)
        verdict = f"{len(told)} problems" if told else "valid"
        print(f"{folder}: {verdict}; {len(rows)} rows ({marked} with failed checks), {len(failures)} failures")
        found += len(told)
    return 1 if found else 0


def _told(folder: Path) -> list[str]:
    """Return what is wrong with a campaign; where it has no evidence at all, that in one sentence."""
    found, raw = list(problems(folder)), folder / "raw"
    rest = [one for one in found if not one.startswith(f"{raw}{os.sep}")]
    if raw.is_dir() or rest == found:
        return found
    lost = len(found) - len(rest)
    told = f"{raw}: not there, so that {lost} rows cannot be held against their evidence; for an emulated campaign, "
    return [*rest, f"{told}a sweep of its plan into another folder makes the same rows and their evidence again"]
