"""Two campaigns against each other, B ÷ A, cell by cell: of other hosts, engine versions or dates.

Only like is compared with like: what was asked of the engine and of the load must be equal, where and with what it
ran may differ. A cell without a like partner is refused with the columns in which its nearest one differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from collector.analysis.noise import Judgement, Noise, noise_among
from collector.analysis.pairing import key, sortable
from collector.analysis.quantity import Quantity, mean_of, ratio_of
from collector.analysis.repeats import Kin, RepeatError, largest, repeat_errors
from collector.analysis.study import Study
from collector.analysis.unlike import TOLD, Cells, Refused, Side, cells_of, refused
from collector.core.due import made_good
from collector.core.errors import UserError
from collector.core.rows import Failure, Row, comparable
from collector.core.units import DISPLAYED

#: What may differ, and is told before any figure.
MAY_DIFFER = (
    "host_id", "cpu_model", "gpu_model", "gpu_count", "driver_version", "engine_kind", "engine_version", "image",
    "model_commit", "attention_backend", "cudagraph_mode", "all_reduce", "collector_version",
    "plan_digest",
)  # fmt: skip
METRICS = ("system_throughput_tok_s", "ttft_mean_s", "tpot_mean_s")

#: small: larger than noise, but nobody would change a setting for it. unknown: neither campaign repeated anything.
Verdict = Literal["regression", "gain", "small", "within", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One metric of a cell in both campaigns."""

    metric: str
    a: Quantity
    b: Quantity
    ratio: Quantity  # B ÷ A
    judgement: Judgement
    verdict: Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A cell that both campaigns have; `cell` is a row that stands for it."""

    cell: Row
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What two campaigns say against each other. `differs`: column to the values of A and of B, None where missing."""

    differs: Mapping[str, tuple[tuple[Any, ...], tuple[Any, ...]]]
    errors: Mapping[str, Mapping[Side, Mapping[Kin, RepeatError]]]  # by metric
    cells: tuple[Compared, ...]
    refused: tuple[Refused, ...]
    left_out: Mapping[Side, int]  # rows with a failed check
    new_failures: tuple[Failure, ...]  # of B: what ran in A and never failed there

    def count(self, verdict: Verdict) -> int:
        return sum(change.verdict == verdict for cell in self.cells for change in cell.changes)

    @property
    def broke(self) -> tuple[Refused, ...]:
        """Return the cells that A measured and whose configuration did not run in B."""
        return tuple(one for one in self.refused if one.kind == "failed" and one.side == "A")

    @property
    def missing(self) -> tuple[Refused, ...]:
        """Return the other cells that A measured and of which B has no comparable row."""
        without = ("differs", "ambiguous", "checks_there")
        return tuple(one for one in self.refused if one.side == "A" and one.kind in without)

    @property
    def worse(self) -> bool:
        return bool(self.count("regression") or self.broke or self.new_failures)


def compare(a: Study, b: Study) -> Comparison:
    """Compare two campaigns. Raises UserError where their provenances have nothing in common."""
    _same_provenance(a, b)
    studies: dict[Side, Study] = {"A": _tagged(a, "A"), "B": _tagged(b, "B")}
    cells = {side: cells_of(study.rows) for side, study in studies.items()}
    matched = _matched(cells["A"], cells["B"])
    noises = {metric: _noise(metric, matched, studies) for metric in METRICS}
    failures = {
        side: [one for one in study.failures if not made_good(one, study.rows)]
        for side, study in zip("AB", (a, b), strict=True)
    }
    return Comparison(
        differs=_differences(a.rows, b.rows),
        errors={name: {side: repeat_errors(one, name) for side, one in studies.items()} for name in METRICS},
        cells=tuple(_compared(of_a, of_b, noises) for of_a, of_b in matched),
        refused=(
            *refused("A", cells["A"], cells["B"], failures["B"]),
            *refused("B", cells["B"], cells["A"], failures["A"]),
        ),
        left_out={side: sum(not comparable(row) for row in study.rows) for side, study in studies.items()},
        new_failures=tuple(_new(failures["B"], failures["A"], studies["A"].rows)),
    )


def _new(failures: Iterable[Failure], others: Iterable[Failure], ran: Iterable[Row]) -> Iterable[Failure]:
    """Yield one failure of each configuration that ran on the other side and did not fail there."""
    before, known = {key(one, TOLD) for one in others}, {key(row, TOLD) for row in ran}
    for one in failures:
        told = key(one, TOLD)
        if told in known - before:
            before.add(told)
            yield one


def _same_provenance(a: Study, b: Study) -> None:
    if a.rows and b.rows and not {row.provenance for row in a.rows} & {row.provenance for row in b.rows}:
        kinds = [" and ".join(study.provenances) for study in (a, b)]
        raise UserError(
            f"{a.name} is {kinds[0]}, {b.name} is {kinds[1]}: the two are never compared; "
            "name two campaigns of one provenance"
        )


def _tagged(study: Study, side: Side) -> Study:
    """Give rows ids of their own side: the same plan has the same ids on every host."""
    return replace(study, rows=tuple(replace(row, campaign=side, row_id=f"{side}/{row.row_id}") for row in study.rows))


def _matched(a: Cells, b: Cells) -> list[tuple[list[Row], list[Row]]]:
    """Return the comparable rows of cells that both have, in a fixed order."""
    found = []
    for setting in sorted(set(a) & set(b), key=sortable):
        shared = set(a[setting]) & set(b[setting])
        if len(a[setting]) == len(b[setting]) == 1:
            both = [next(iter(side[setting].values())) for side in (a, b)]
            found.append((both[0], both[1]))
        else:  # the columns do not tell them apart, but what their plans say does
            found += [(a[setting][name], b[setting][name]) for name in sorted(shared)]
    usable = [([*filter(comparable, one)], [*filter(comparable, other)]) for one, other in found]
    return [(one, other) for one, other in usable if one and other]


def _known(rows: Sequence[Row], metric: str) -> list[Row]:
    return [row for row in rows if (getattr(row, metric) or 0) > 0]


def _noise(metric: str, matched: Sequence[tuple[list[Row], list[Row]]], studies: Mapping[Side, Study]) -> Noise:
    """Return the noise of both campaigns: the larger repeat error of the two, and spreads of their cells."""
    ratios = [ratio_of(_known(of_b, metric), _known(of_a, metric), metric) for of_a, of_b in matched]
    errors = [repeat_errors(study, metric) for study in studies.values()]
    rows = {row.row_id: row for study in studies.values() for row in study.rows}
    both = {kin: largest(one[kin] for one in errors if kin in one) for found in errors for kin in found}
    return noise_among([one for one in ratios if one], rows, {kin: one for kin, one in both.items() if one}, metric)


def _compared(of_a: list[Row], of_b: list[Row], noises: Mapping[str, Noise]) -> Compared:
    changes = (_change(metric, of_a, of_b, noise) for metric, noise in noises.items())
    return Compared(cell=of_a[0], changes=tuple(one for one in changes if one))


def _change(metric: str, of_a: list[Row], of_b: list[Row], noise: Noise) -> Change | None:
    kept_a, kept_b = _known(of_a, metric), _known(of_b, metric)
    ratio, a, b = ratio_of(kept_b, kept_a, metric), mean_of(kept_a, metric), mean_of(kept_b, metric)
    if not ratio or not a or not b:
        return None
    judged = noise.judge(ratio)
    return Change(metric=metric, a=a, b=b, ratio=ratio, judgement=judged, verdict=_verdict(metric, judged))


def _verdict(metric: str, judged: Judgement) -> Verdict:
    if judged.standing != "larger":
        return judged.standing
    if not judged.side:
        return "small"
    return "gain" if (judged.side > 0) == (DISPLAYED[metric].better == "higher") else "regression"


def _differences(a: Iterable[Row], b: Iterable[Row]) -> dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Return the columns whose values are not the same in both campaigns, and when each was measured."""
    sides = [list(a), list(b)]
    found = {}
    for name in MAY_DIFFER:
        values = [
            tuple(sorted({getattr(row, name) for row in rows}, key=lambda one: sortable([one]))) for rows in sides
        ]
        if values[0] != values[1]:
            found[name] = (values[0], values[1])
    days = [tuple(sorted({row.measured_at[:10] for row in rows})) for rows in sides]
    if days[0] != days[1]:
        found["measured_at"] = (_ends(days[0]), _ends(days[1]))
    return found


def _ends(days: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*days[:1], *days[-1:])))
