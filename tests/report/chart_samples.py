"""Charts for tests: one as an article has it, and any that could be."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from collector.report.chart import Axis, Chart, Even, Gap, Line, Point, code, style

STAGES = (1.0, 8.0, 16.0, 32.0)
CONCURRENCY = Axis(title="concurrency", scale="log2", digits=0, ticks=STAGES)
RATIO = Axis(title="throughput, on ÷ off", unit="×", from_zero=True)
EVEN = Even(value=1.0, above="gain", below="loss")


def line(index: int, values: dict[float, float | None], name: str = "Muse k=15", **point: Any) -> Line:
    points = (Point(x=x, y=y, ids=(f"{index:04x}{int(x):08x}",), **point) for x, y in values.items())
    return Line(code=code(index), name=name, points=tuple(points), style=style(index))


MUSE = dict(zip(STAGES, (1.75, 0.9, 0.62, 0.44), strict=True))


def chart(*lines: Line, **changed: Any) -> Chart:
    """A ratio chart of one line, unless told otherwise."""
    given: dict[str, Any] = {
        "id": "ratio-1",
        "title": "A gain that turns into a loss",
        "subtitle": "on ÷ off",
        "x": CONCURRENCY,
        "y": RATIO,
        "lines": lines or (line(0, dict(MUSE)),),
        "provenance": "measured",
        "alt": "A Muse k=15: 1.75× at 1, 0.90× at 8.",
        "columns": ("concurrency", "speculation_ratio"),
        "even": EVEN,
    }
    return Chart(**(given | changed))


#: What a page may show: every kind and provenance, hollow marks, whiskers, gaps, labels, a broken line.
SAMPLES = (
    chart(gaps=(Gap(low=1.0, high=8.0, text="not measured", codes=("A",)),)),
    chart(
        line(0, dict(MUSE), low=0.4, high=1.9),
        line(1, {1.0: 1.2, 8.0: None, 16.0: 1.1, 32.0: 1.3}, name="한국어 이름 <b>&amp;</b>", comparable=False),
        provenance="emulated",
        gaps=(
            Gap(low=1.0, high=8.0, text="재지 않음", codes=("A",)),
            Gap(low=1.0, high=16.0, text="재지 않음", codes=("B",)),
        ),
    ),
    chart(
        line(0, {1.0: 3.0, 2.0: -1.5}, label="TP=2", note="12.3 GiB"),
        line(1, {3.0: 0.5}, low=0.4, high=0.7, comparable=False),
        kind="bar",
        provenance="published",
        y=Axis(title="NVLink gain", unit="%", digits=1, from_zero=True),
        even=Even(value=0.0, above="gain", below="loss"),
    ),
    chart(
        line(0, {0.3: 57.7, 0.9: 280.0, 4.2: 497.2}, label="8"),
        x=Axis(title="TTFT", unit="s", scale="log2"),
        y=Axis(title="throughput", unit="tok/s", scale="log2", digits=1),
        even=None,
        in_order=True,
    ),
)

VALUES = st.floats(-1e7, 1e7, allow_nan=False).filter(lambda value: value == 0 or abs(value) > 1e-6)
NAMES = st.text(st.characters(codec="utf-8"), max_size=20)


@st.composite
def points(draw: st.DrawFn) -> Point:
    y = draw(st.none() | VALUES)
    spread = draw(st.none() | st.floats(0, 10))
    low, high = (None, None) if y is None or spread is None else (y - spread, y + spread)
    x = draw(st.sampled_from(STAGES) | st.floats(0.01, 1000))
    return Point(x=x, y=y, low=low, high=high, comparable=draw(st.booleans()), label=draw(NAMES))


@st.composite
def axes(draw: st.DrawFn, ticks: tuple[float, ...]) -> Axis:
    return Axis(
        title=draw(NAMES),
        unit=draw(st.sampled_from(("", "%", "tok/s", "토큰"))),
        scale=draw(st.sampled_from(("log2", "linear"))),
        from_zero=draw(st.booleans()),
        digits=draw(st.integers(0, 4)),
        ticks=draw(st.sampled_from(((), ticks))),
        includes=draw(st.sampled_from(((), (0.0, 1.0)))),
    )


@st.composite
def charts(draw: st.DrawFn) -> Chart:
    """Any chart that has something to draw."""
    lines = [
        Line(code=code(index), name=draw(NAMES), points=tuple(found), style=style(index))
        for index, found in enumerate(draw(st.lists(st.lists(points(), max_size=4), max_size=12)))
    ]
    certain = Line(code="Z", name="certain", points=(Point(x=1.0, y=draw(VALUES)),), style=style(25))
    return chart(
        *lines,
        certain,
        kind=draw(st.sampled_from(("line", "bar"))),
        x=draw(axes(STAGES)),
        y=draw(axes((0.5, 1.0, 2.0))),
        even=draw(st.none() | st.builds(Even, value=VALUES, above=st.just("gain"), below=st.just("loss"))),
        gaps=draw(st.sampled_from(((), (Gap(low=1.0, high=8.0, text="not measured"),)))),
        in_order=draw(st.booleans()),
        provenance=draw(st.sampled_from(("measured", "emulated", "published"))),
    )
