"""How a page says things: words of one language, and the only ways in which a number gets onto a page.

A figure carries the rows that prove it (`<data class="f">`), a setting its column, a count what was counted; so
a test can make every printed number again, and a template cannot type one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, log10
from typing import Any

from markupsafe import Markup

from collector.analysis.figures import Figure
from collector.analysis.noise import Noise
from collector.analysis.quantity import Quantity
from collector.core.units import DISPLAYED, fixed, unit_name
from collector.report.text import escaped, one_line

LANGUAGES = ("ko", "en")

#: A figure states its unrounded value to this many significant digits, for sorting and for readers who want it.
VALUE_DIGITS = 6
#: From here on a multiple of the noise is printed without decimals; nearer to 1 than this with two.
WHOLE_MULTIPLES, NEAR_MULTIPLES = 10, 0.05


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one language."""

    language: str

    def t(self, ko: str, en: str, **values: object) -> Markup:
        """Return the words of this language with values put in; values are escaped, markup of ours is kept."""
        text = ko if self.language == "ko" else en
        return Markup(text).format(**{name: shown(value) for name, value in values.items()})  # noqa: S704

    def fig(self, quantity: Quantity, metric: str, *, unit: bool = False, sign: bool = False) -> Markup:
        """Print a number that rows prove, to the digits of its metric."""
        shape = DISPLAYED[metric]
        text = shape.text(quantity.value)
        signed = f"+{text}" if sign and float(text) > 0 else text
        base = Markup(' data-base="{}"').format(" ".join(quantity.base)) if quantity.base else ""
        number = Markup(
            '<data class="f" value="{}" data-by="{}" data-of="{}" data-rows="{}"{} data-as="{}">{}</data>'
        ).format(
            f"{quantity.value:.{VALUE_DIGITS}g}",
            quantity.by,
            quantity.of,
            " ".join(quantity.ids),
            base,
            metric,
            signed.replace("-", "−"),
        )
        return number + self._unit(shape.unit) if unit else number

    def printed(self, figure: Figure) -> Markup:
        """Print a published figure to the digits it was printed with, and its unit."""
        text = fixed(figure.value, max(0, -floor(log10(figure.resolution))))
        number = Markup('<data class="f" data-by="published" data-of="{}" data-rows="{}">{}</data>').format(
            figure.metric, figure.figure_id, text.replace("-", "−")
        )
        return number + self._unit(figure.unit)

    def spread(self, quantity: Quantity, metric: str) -> Markup:
        """Print the range over repeats, or say that none was measured."""
        if quantity.low is None or quantity.high is None:
            return self.t("반복 없음", "no spread measured")
        ends = (DISPLAYED[metric].text(one).replace("-", "−") for one in (quantity.low, quantity.high))
        return Markup(
            '<data class="r" data-by="{}" data-of="{}" data-rows="{}" data-base="{}" data-as="{}">{}–{}</data>'
        ).format(quantity.by, quantity.of, " ".join(quantity.ids), " ".join(quantity.base), metric, *ends)

    def against(self, ratio: Quantity, noise: Noise, metric: str) -> Markup:
        """Print a ratio's difference as a multiple of what decides, and its interval where it has one."""
        ends, multiple = noise.interval(ratio), self.multiple(ratio, noise)
        return Markup("{}<br>{}").format(multiple, self._interval(ratio, noise, metric, ends)) if ends else multiple

    @staticmethod
    def _interval(ratio: Quantity, noise: Noise, metric: str, ends: tuple[float, float]) -> Markup:
        shown = (100 * (end - 1) if DISPLAYED[metric].unit == "%" else end for end in ends)
        texts = (DISPLAYED[metric].text(end).replace("-", "−") for end in shown)
        return Markup('<data class="i" data-rows="{}" data-base="{}" data-as="{}"{}>{}–{}</data>').format(
            " ".join(ratio.ids), " ".join(ratio.base), metric, _family(noise), *texts
        )

    def multiple(self, ratio: Quantity, noise: Noise) -> Markup:
        """Print how many times the noise that judges a ratio its difference is, and whether it is within."""
        judged = noise.judge(ratio)
        if judged.standing == "unknown":
            return self.t("반복 없음", "no spread measured")
        within = self.t("(오차 안)", " (within noise)") if judged.standing == "within" else ""
        if judged.multiple is None:
            return self.t("오차 안", "within noise") if within else self.t("오차 밖", "larger than noise")
        digits = 2 if abs(judged.multiple - 1) < NEAR_MULTIPLES else 1 if judged.multiple < WHOLE_MULTIPLES else 0
        number = Markup('<data class="m"{}>{}</data>').format(_family(noise), fixed(judged.multiple, digits))
        return self.t("{n}배{within}", "{n}×{within}", n=number, within=within)

    def setting(self, value: object, column: str) -> Markup:
        """Print a value that a column of the rows holds."""
        return Markup('<data class="s" data-of="{}">{}</data>').format(column, value)

    def count(self, number: int, what: str) -> Markup:
        """Print how many of something there are."""
        return Markup('<data class="n" data-of="{}">{}</data>').format(what, number)

    def threshold(self, value: object, constant: str) -> Markup:
        """Print a named constant of the code; `constant` is its module and name."""
        return Markup('<data class="c" data-of="{}">{}</data>').format(constant, value)

    def name(self, text: object) -> Markup:
        """Print a name that data give: of a model, a dtype, a file."""
        return Markup('<span class="name">{}</span>').format(shown(text))

    def date(self, text: str) -> Markup:
        """Print a day or a time of the data (ISO 8601)."""
        return Markup('<time datetime="{0}">{0}</time>').format(text)

    def metric(self, name: str) -> str:
        return DISPLAYED[name].name(self.language)

    def unit(self, name: str) -> str:
        """Return the unit of a metric, as this language prints it."""
        return unit_name(DISPLAYED[name].unit, self.language)

    def unit_of(self, unit: str) -> str:
        """Return a unit as this language prints it."""
        return unit_name(unit, self.language)

    def _unit(self, unit: str) -> Markup:
        name = {"x": "×"}.get(unit, unit_name(unit, self.language))
        close = name in ("%", "×") or (self.language == "ko" and name != unit)
        return Markup("{}{}").format("" if close else "\u00a0", name) if name else Markup("")

    @property
    def filters(self) -> Mapping[str, Any]:
        """Return what templates call these by."""
        return {
            "fig": self.fig,
            "spread": self.spread,
            "against": self.against,
            "multiple": self.multiple,
            "setting": self.setting,
            "count": self.count,
            "threshold": self.threshold,
            "name": self.name,
            "date": self.date,
            "printed": self.printed,
        }


def _family(noise: Noise) -> Markup:
    """Return which effects a level was made for, where these are not all of the study's."""
    return Markup(' data-family="{}" data-of="{}"').format(noise.family, noise.column) if noise.family else Markup("")


def shown(value: object) -> object:
    """Every value that a template prints passes here; what is no markup of ours becomes one visible line."""
    if isinstance(value, Markup):
        return value
    if value is None:
        raise TypeError("a template printed a missing value; it must say what is missing")
    return escaped(one_line(str(value)))


def counted_only(value: object) -> object:
    """As `shown`, and refuse a bare number: it must say what rows, setting or constant it is from."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise TypeError(f"a template printed the bare number {value}; use fig, setting, count or threshold")
    return shown(value)


def plain(text: str) -> str:
    """Return text without markup, for titles and descriptions inside an SVG; it is escaped where it is printed."""
    return text.striptags() if isinstance(text, Markup) else text
