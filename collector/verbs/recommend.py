"""`collector recommend CAMPAIGN`: what to set for each model, how sure that is, and the files to paste."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from collector.core.errors import UserError, close_words
from collector.measure.campaign import find_campaign, read_plans

if TYPE_CHECKING:  # analysis and pages are loaded when the command runs
    from collector.analysis.study import Study
    from collector.report.advice_text import Found


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "recommend",
        help="what to set, how sure that is, and the files to paste",
        description="Print, for each model, the verdicts and the settings that follow from a campaign's rows, and "
        "what would overturn them. Exit code 2 where there is no such campaign or model.",
    )
    parser.add_argument("campaign", type=Path, help="folder or name of a campaign, such as data/NAME, or published")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of campaigns (default: %(default)s)")
    parser.add_argument("--model", metavar="M", help="this model only")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--write", type=Path, metavar="DIR", help="write a command, a compose and a config file each")
    parser.add_argument(
        "--ttft-p95",
        type=float,
        metavar="SECONDS",
        help="the setting with most throughput whose 95th percentile of time to first token stays within this",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print advice and settings. Raises UserError where there is nothing to advise on."""
    from collector.report.advice_text import as_json, lines
    from collector.report.setting_files import setting_files

    if args.ttft_p95 is not None and not args.ttft_p95 > 0:
        raise UserError(f"--ttft-p95 {args.ttft_p95:g}: expected seconds above 0")
    found = _found(args)
    if args.write:
        _write(args.write, setting_files(found.loads))
    if args.json:
        print(json.dumps(as_json(found), indent=2, ensure_ascii=False))
    else:
        print("\n".join(lines(found)))
    return 0


def _found(args: argparse.Namespace) -> Found:
    from collector.analysis.recommend import advice
    from collector.analysis.settings import loads
    from collector.report.advice_text import Found

    study = _read(args.campaign, args.data)
    noise, every = advice(study)
    settings = loads(study, noise, args.ttft_p95)
    models = sorted({one.model for one in every} | {one.model for one in settings})
    if not models:
        raise UserError(f"{args.campaign}: no comparable row yet, so there is nothing to advise; sweep its plan first")
    if args.model is not None and args.model not in models:
        close = close_words(args.model, models) or f"; there are {', '.join(models)}"
        raise UserError(f"--model {args.model}: no such model in {args.campaign}{close}")
    wanted = models if args.model is None else [args.model]
    return Found(
        study=study,
        noise=noise,
        advice=tuple(one for one in every if one.model in wanted),
        loads=tuple(one for one in settings if one.model in wanted),
    )


def _read(path: Path, data: Path) -> Study:
    """Read a campaign, or the published figures. Raises UserError where a plan of it cannot be read."""
    from collector.report.build import read_campaign, read_published
    from collector.report.pages import published_study

    for folder in (path, data / path):
        if (published := read_published(folder)) is not None:
            return published_study(published)
    folder = find_campaign(path, data)
    if (folder / "plan.yaml").is_file():
        read_plans(folder)
    return read_campaign(folder)


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}; choose another --write") from error
