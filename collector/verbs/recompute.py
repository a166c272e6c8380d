"""`collector recompute CAMPAIGN`: make every row again from the stored scrapes."""

from __future__ import annotations

import argparse
from pathlib import Path

from collector.core.codec import to_csv
from collector.core.rows import Position, Row
from collector.measure.campaign import find_campaign, read_tables, recomputed
from collector.measure.files import write_atomically


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("recompute", help="make all rows again from the raw scrapes")
    parser.add_argument("campaign", type=Path, help="folder of a campaign, such as data/NAME")
    parser.add_argument("--write", action="store_true", help="replace rows.csv and positions.csv where they differ")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    folder = find_campaign(args.campaign)
    rows, _, _ = read_tables(folder)
    made_rows, made_positions = recomputed(folder, rows)
    tables = {"rows.csv": to_csv(Row, made_rows), "positions.csv": to_csv(Position, made_positions)}
    differing = [name for name, text in tables.items() if (folder / name).read_bytes() != text.encode()]
    if not differing:
        print(f"{folder}: {len(rows)} rows follow from their evidence, byte for byte")
        return 0
    for name in differing:
        if args.write:
            write_atomically(folder / name, tables[name].encode())
        print(f"{folder / name}: {'replaced' if args.write else 'differs; --write replaces it'}")
    return 0 if args.write else 1
