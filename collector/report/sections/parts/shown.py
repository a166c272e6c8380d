"""Numbers as well as they are known: computed ones to the digits of their metric, printed ones as printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from markupsafe import Markup

from collector.analysis.quantity import Quantity
from collector.analysis.study import Study
from collector.report.words import Words

#: Units that a page does not print.
_SILENT = {"fraction": ""}


def number(study: Study, words: Words) -> Callable[..., Markup]:
    """Return what prints a quantity: number(quantity, metric, unit=False)."""
    figures = {one.figure_id: one for one in study.figures}

    def show(quantity: Quantity, metric: str, *, unit: bool = False) -> Markup:
        if quantity.by != "published":
            return words.fig(quantity, metric, unit=unit)
        figure = figures[quantity.ids[0]]
        return words.printed(replace(figure, unit=_SILENT.get(figure.unit, figure.unit) if unit else ""))

    return show
