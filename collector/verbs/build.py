"""collector build: rows to pages that MkDocs renders."""

from __future__ import annotations

import argparse
from pathlib import Path

from collector.core.errors import UserError


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "build",
        help="turn the rows under data/ into the pages of the site",
        description="Write the pages of every campaign under DATA into SITE_SRC/ko and SITE_SRC/en, for MkDocs "
        "to render. A page is written only when it changed; pages of campaigns that are gone are removed.",
    )
    parser.add_argument(
        "campaigns",
        nargs="*",
        metavar="CAMPAIGN",
        help="make a site of these campaigns only (of all when none is named)",
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="where campaigns lie (default: %(default)s)")
    parser.add_argument(
        "--site-src",
        type=Path,
        default=Path("site_src"),
        help="where the site's sources lie (default: %(default)s)",
    )
    parser.add_argument(
        "--allow-empty", action="store_true", help="remove the pages of all campaigns where DATA has none any more"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from collector.report.build import build_site

    if not args.data.is_dir():
        raise UserError(f"{args.data}: no such folder; name the folder of campaigns with --data")
    report = build_site(args.data, args.site_src, args.campaigns or None, allow_empty=args.allow_empty)
    counts = f"{len(report.written)} written, {len(report.unchanged)} unchanged, {len(report.removed)} removed"
    print(f"campaigns: {', '.join(report.campaigns) or f'none under {args.data}'}")
    print(f"files: {counts} in {args.site_src / 'ko'} and {args.site_src / 'en'}")
    for fault in report.faults:
        print(f"a plan that cannot be read, so that pages do without it: {fault}")
    print("next: mkdocs build --strict && mkdocs build --strict -f mkdocs.en.yml, or mkdocs serve to look")
    return 0
