"""Every pair at every concurrency taken apart, gains like losses: factors, predicted steps, both hypotheses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collector.analysis.compared import compared
from collector.analysis.hypotheses import Judged, judged
from collector.analysis.noise import Noise, noise_among, noise_of
from collector.analysis.pairing import SPECULATION
from collector.analysis.predicted import Predicted, WhyNot, predicted, why_not
from collector.analysis.printed_steps import printed_cases
from collector.analysis.repeats import errors_among
from collector.analysis.step_time import DECODE, REST, STEP, TOKENS, Case, Part, cases, moved_between, part_of
from collector.analysis.study import Study
from collector.core.rows import Row

#: The factors of a ratio by their name in Part, and the expression over columns whose ratio each of them is.
FACTORS = {"tokens": TOKENS, "step": STEP, "decode": DECODE, "rest": REST}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A pair at one concurrency. `judged` is None where there is nothing to judge."""

    part: Part
    lowest: bool  # of its pair, the one that `moved` is held against
    moved: str | None  # the factor that moved the ratio most since the lowest concurrency: its name in Part
    predicted: Predicted | None
    why_not: WhyNot | None  # why nothing is predicted
    judged: Judged | None


Apart = tuple[Case, tuple[Cell, ...]]


def taken_apart(study: Study) -> list[Apart]:
    """Return every pair with and without speculation, schedules included, in the order of cases."""
    rows = {row.row_id: row for row in study.basis}
    pairs = compared(SPECULATION, rows.values(), study.failures)
    return [(case, _cells(case, study)) for case in cases(pairs, lambda _, point: part_of(point, rows))]


def factor_noises(study: Study) -> dict[str, Noise]:
    """Return what judges each factor of every pair, by its name in Part; "system" is the noise of the whole study."""
    rows = {row.row_id: row for row in study.basis}
    parts = _printed(study) if study.is_published else _parts(study, rows)
    found = {"system": noise_of(study)}
    for name, column in FACTORS.items():
        ratios = [ratio for part in parts if (ratio := getattr(part, name)) is not None]
        found[name] = noise_among(ratios, rows, errors_among(rows.values(), column), column, f"factor-{name}")
    return found


def _printed(study: Study) -> list[Part]:
    return [part for case in printed_cases(study) for part in case.parts]


def _parts(study: Study, rows: Mapping[str, Row]) -> list[Part]:
    pairs = compared(SPECULATION, rows.values(), study.failures)
    return [part_of(point, rows) for pair in pairs for point in pair.points]


def moved_most(found: Iterable[Apart]) -> list[tuple[str, int]]:
    """Return how often each factor moved a ratio most, the most frequent first."""
    names = Counter(cell.moved for _, cells in found for cell in cells if cell.moved)
    return sorted(names.items(), key=lambda one: (-one[1], one[0]))


def _cells(case: Case, study: Study) -> tuple[Cell, ...]:
    by_part = {id(one.part): one for one in judged(case)}
    first = next((part for part in case.parts if part.complete), None)
    found = []
    for part in case.parts:
        one = predicted(part, study.profile)
        found.append(
            Cell(
                part=part,
                lowest=part is first,
                moved=moved_between(first, part) if first else None,
                predicted=one,
                why_not=None if one else why_not(part, study.profile),
                judged=by_part.get(id(part)),
            )
        )
    return tuple(found)
