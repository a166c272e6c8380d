"""Quantities made of several columns: an expression in which each column stands for its mean over the rows.

The text of the expression is what is evaluated and what a page states in `data-of`, so the two cannot differ. With
means, a product of ratios stays exactly a ratio, over any number of repeats; `a/b` is the ratio of sums.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import fsum

from collector.analysis.figures import Figure
from collector.analysis.quantity import Quantity, usable
from collector.core.rows import Row

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@cache
def columns_of(expression: str) -> tuple[str, ...]:
    """Return the names that an expression reads, in order of appearance."""
    found = [node.id for node in ast.walk(ast.parse(expression, mode="eval")) if isinstance(node, ast.Name)]
    return tuple(dict.fromkeys(found))


def evaluated(expression: str, values: Mapping[str, float]) -> float | None:
    """Evaluate +, −, ×, ÷ over names and numbers; None where it divides by zero."""
    try:
        return _value(_parsed(expression), values)
    except ZeroDivisionError:
        return None


def formula_of(rows: Iterable[Row], expression: str) -> Quantity | None:
    """Return the expression over rows whose checks held and that have every column; its range over repeats."""
    names = columns_of(expression)
    kept = usable(rows, *names)
    value = _over(kept, expression)
    if value is None:
        return None
    each = _each(kept, expression)
    low, high = (min(each), max(each)) if len(each) > 1 else (None, None)
    return Quantity(value=value, by="mean", of=expression, ids=_ids(kept), low=low, high=high)


def of_row(row: Row, expression: str) -> float | None:
    """Return the expression over one row that has every column; None where it divides by zero."""
    return _over([row], expression)


def formula_ratio(rows: Iterable[Row], base: Iterable[Row], expression: str) -> Quantity | None:
    """Return the expression ÷ the same of the base rows. The range spans any repeat over any other."""
    names = columns_of(expression)
    kept, under = usable(rows, *names), usable(base, *names)
    above, below = _over(kept, expression), _over(under, expression)
    if above is None or not below:
        return None
    over, beneath = _each(kept, expression), [one for one in _each(under, expression) if one]
    spread = min(len(over), len(beneath)) > 1
    return Quantity(
        value=above / below,
        by="ratio",
        of=expression,
        ids=_ids(kept),
        base=_ids(under),
        low=min(over) / max(beneath) if spread else None,
        high=max(over) / min(beneath) if spread else None,
    )


def printed_formula(figures: Sequence[Figure], expression: str, base: Sequence[Figure] = ()) -> Quantity | None:
    """Return the expression over published figures: each name is a metric, or a label that they share."""
    above = _of_figures(figures, expression)
    below = _of_figures(base, expression) if base else 1.0
    if above is None or not below:
        return None
    ids, under = (tuple(one.figure_id for one in some) for some in (figures, base))
    return Quantity(value=above / below, by="ratio" if base else "mean", of=expression, ids=ids, base=under)


@cache
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    raise ValueError(f"an expression has columns, numbers and + - * / only, found {ast.unparse(node)}")


def _over(rows: Sequence[Row], expression: str) -> float | None:
    if not rows:
        return None
    means = {name: fsum(float(getattr(row, name)) for row in rows) / len(rows) for name in columns_of(expression)}
    return evaluated(expression, means)


def _each(rows: Sequence[Row], expression: str) -> list[float]:
    found = [of_row(row, expression) for row in rows]
    return [one for one in found if one is not None]


def _of_figures(figures: Sequence[Figure], expression: str) -> float | None:
    known = {one.metric: one.value for one in figures}
    for name in columns_of(expression):
        if name not in known:
            labels = {label for one in figures if (label := getattr(one.labels, name, None)) is not None}
            if len(labels) != 1:
                return None
            known[name] = float(labels.pop())
    return evaluated(expression, known)


def _ids(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(row.row_id for row in rows)
