"""What `collector next` does: the few measurements that would decide most, and the plan that makes them."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from collector.analysis.outcomes import Blocked, blocked
from collector.analysis.proposal import Proposal
from collector.analysis.proposals import proposals
from collector.analysis.study import Study
from collector.core.errors import UserError
from collector.core.follow_up import Wanted, follow_up_plan
from collector.measure import telling
from collector.measure.campaign import find_campaign, read_plans
from collector.report.build import read_campaign
from collector.report.proposal_words import label, minutes, reason
from collector.report.sections.parts.pair_labels import plain_label
from collector.report.words import Words, plain
from collector.verbs.files import read_text

LINE = 110
ENGLISH = Words("en")


def run(args: argparse.Namespace) -> int:
    if args.most < 1:
        raise UserError(f"--most {args.most}: expected 1 or more")
    for folder in (args.campaign, args.data / args.campaign):
        if (folder / "figures.csv").is_file():
            raise UserError(f"{folder}: figures that others printed, with no plan to add to; name a measured campaign")
    folder = find_campaign(args.campaign, args.data)
    stored = read_text(folder / "plan.yaml")
    study = read_campaign(folder)
    every = proposals(study, read_plans(folder), _beside(folder))
    found = [one for one in every if not one.measured_in][: args.most]
    if args.out and found:
        _write(args.out, follow_up_plan(stored, wanted(found), _comment(folder, found)))
    if args.json:
        print(json.dumps([as_json(one) for one in found], indent=2, ensure_ascii=False))
    else:
        print("\n".join([*lines(found, blocked(study.rows, study.failures)), *elsewhere(every)]))
        if args.out and found:
            print(f"\n{args.out}: `collector sweep {args.out} --out {folder.parent}` measures these into {folder}")
    return 0


def _beside(folder: Path) -> list[Study]:
    """Return the campaigns in the same folder as this one; what cannot be read settles nothing."""
    found = []
    for path in sorted(folder.resolve().parent.glob("*/rows.csv")):
        if path.parent != folder.resolve():
            try:
                found.append(read_campaign(path.parent))
            except UserError as error:
                print(f"{path.parent.name}: left aside, {error}", file=sys.stderr)
    return found


def wanted(found: Iterable[Proposal]) -> list[Wanted]:
    """Return the cells of all proposals, each once, with the most repeats that any of them asks for."""
    cells: dict[Any, Wanted] = {}
    for one in (cell for proposal in found for cell in proposal.cells):
        key = one.configuration.configuration_id, one.stage
        if key not in cells or cells[key].repeats < one.repeats:
            cells[key] = one
    return list(cells.values())


def lines(found: Sequence[Proposal], failing: Sequence[Blocked] = ()) -> list[str]:
    """Return the proposals as a person reads them, and what no further measurement gives."""
    told = []
    for number, one in enumerate(found, start=1):
        told += ["", f"{number}. {plain_label(label(one), ENGLISH)}: {plain(minutes(one, ENGLISH))}"]
        told += textwrap.wrap(plain(reason(one, ENGLISH)), LINE, initial_indent="   ", subsequent_indent="   ")
        rest = len(one.row_ids) - len(shown := one.row_ids[:SHOWN_ROWS])
        told += [f"   rests on {', '.join(shown)}{f' and {rest} more rows' if rest else ''}"]
    for each in failing:
        told += ["", *textwrap.wrap(telling.blocked(each), LINE, subsequent_indent="   ")]
    return told[1:] if told else ["nothing left to measure that would decide anything"]


def elsewhere(every: Sequence[Proposal]) -> list[str]:
    """Return what is not proposed because another campaign beside it has measured it."""
    names = sorted({one.measured_in for one in every if one.measured_in})
    told = []
    for name in names:
        kinds = [f"{one.kind} of {plain_label(label(one), ENGLISH)}" for one in every if one.measured_in == name]
        told += ["", *textwrap.wrap(f"measured in {name} already: {'; '.join(kinds)}", LINE, subsequent_indent="   ")]
    return told


#: Row ids that a person is shown of each proposal; --json has them all.
SHOWN_ROWS = 6


def as_json(one: Proposal) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "model": one.pair["model"],
        "label": plain_label(label(one), ENGLISH),
        "reason": plain(reason(one, ENGLISH)),
        "concurrencies": list(one.concurrencies),
        "prompt_sets": list(one.prompt_sets) or [one.pair["prompt_set"]],
        "cost_s": round(one.cost.seconds),
        "cost_from": one.cost.source,
        "engine_starts": one.cost.starts,
        "rows": list(one.row_ids),
        "cells": [
            {
                "configuration_id": cell.configuration.configuration_id,
                "stage": cell.stage.label,
                "repeats": cell.repeats,
            }
            for cell in one.cells
        ],
    }


def _comment(folder: Path, found: Sequence[Proposal]) -> list[str]:
    head = [f"What `collector next {folder.name}` proposes; `collector sweep` measures it into the same campaign."]
    each = [
        f"{number}. {plain_label(label(one), ENGLISH)}: {plain(reason(one, ENGLISH))}"
        for number, one in enumerate(found, 1)
    ]
    return [line for text in (*head, *each) for line in textwrap.wrap(text, LINE)]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}; choose another file with --out") from error
