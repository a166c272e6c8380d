"""`collector check CAMPAIGN`: is a campaign whole, and do its rows still follow from their evidence?"""

from __future__ import annotations

import argparse
from pathlib import Path

from collector.core.errors import UserError
from collector.measure.campaign import find_campaign, problems, read_tables


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("check", help="validate campaigns: schema, keys, words, evidence")
    parser.add_argument("campaign", type=Path, nargs="+", help="folder of a campaign, such as data/NAME")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what is wrong; 1 where anything is, 2 where a campaign cannot be read. All are looked at."""
    found, unread = 0, list[UserError]()
    for path in args.campaign:
        try:
            found += _checked(find_campaign(path))
        except UserError as error:
            unread.append(error)
    if unread:
        raise UserError("\n".join(map(str, unread)))
    return 1 if found else 0


def _checked(folder: Path) -> int:
    """Print the problems of a campaign and return how many there are."""
    told = list(problems(folder))
    for one in told:
        print(one)
    rows, failures, _ = read_tables(folder)
    marked = sum(bool(row.checks) for row in rows)
    verdict = f"{len(told)} problem{'s' if len(told) > 1 else ''}" if told else "valid"
    print(f"{folder}: {verdict}; {len(rows)} rows ({marked} with failed checks), {len(failures)} failures")
    return len(told)
