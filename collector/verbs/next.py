"""`collector next CAMPAIGN`: the few measurements that would decide most, and the plan that makes them."""

from __future__ import annotations

import argparse
from pathlib import Path

MOST = 5


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("next", help="which measurements would decide most, as a plan for `sweep`")
    parser.add_argument("campaign", type=Path, help="folder or name of a campaign, such as data/NAME")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of campaigns (default: data)")
    parser.add_argument("--out", type=Path, help="write the plan that measures them into the same campaign")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--most", type=int, default=MOST, help=f"how many, at most (default: {MOST})")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from collector.verbs.next_proposals import run as propose

    return propose(args)
