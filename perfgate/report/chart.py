"""One metric over many runs as an SVG picture, made from numbers alone.

In: `Dot`s in run order and the unit of their values. Out: SVG text with real axes (round ticks,
commits and dates) and no data per point beyond one path: a chart of 200 runs is about 5 kB. Colours
come from the page's style sheet through class names, so light and dark need one picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from perfgate.figures import format_number, scale_for

WIDTH, HEIGHT = 760, 240
LEFT, RIGHT, TOP, BOTTOM = 92, 60, 30, 50
SPARK_WIDTH, SPARK_HEIGHT = 110, 22
GROUPS = 5
X_TICKS = 6

# A flat exact series fills the middle; without a floor its last digit would fill the picture.
_SMALLEST_SPAN = 0.02


@dataclass(frozen=True, slots=True)
class Dot:
    """One run: its value with the range most values lie in, its labels, and its environment's
    place in the legend, counted from 0. Only dots of one environment are joined by a line. A dot
    that is `hollow` is drawn so: of a tree with uncommitted changes."""

    value: float
    low: float
    high: float
    commit: str
    date: str
    group: int = 0
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class _Frame:
    """From run numbers and values to picture coordinates."""

    count: int
    low: float
    high: float

    def x(self, index: int) -> float:
        inner = WIDTH - LEFT - RIGHT
        return LEFT + (inner / 2 if self.count == 1 else inner * index / (self.count - 1))

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def nice_ticks(low: float, high: float, wanted: int = 5) -> tuple[float, ...]:
    """About `wanted` multiples of 1, 2, 2.5 or 5 times a power of ten that lie in low..high."""
    if not high > low:
        return (low,)
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    steps = (power * multiple for multiple in (1, 2, 2.5, 5, 10))
    step = min(steps, key=lambda step: abs(math.log(step / rough)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(_rounded(index * step, step) for index in range(first, last + 1))


def _rounded(value: float, step: float) -> float:
    return round(value, max(0, 2 - math.floor(math.log10(step))))


def value_range(dots: Sequence[Dot], reference: float | None = None) -> tuple[float, float]:
    """What the y axis spans: all values, the reference if it is near, a margin, and no less than
    2 % of the value, so that noise of a flat series does not look like news. Nothing but zeros
    lies at the bottom of 0 to 1: there is no reason to show negative values."""
    low, high = min(dot.low for dot in dots), max(dot.high for dot in dots)
    if reference is not None and low / 2 <= reference <= high * 2:
        low, high = min(low, reference), max(high, reference)
    middle = (low + high) / 2
    span = max(high - low, abs(middle) * _SMALLEST_SPAN, 1e-300) * 1.16
    bottom, top = middle - span / 2, middle + span / 2
    return (0.0, 1.0) if low == high == 0 else (bottom, top)


def trend_chart(title: str, dots: Sequence[Dot], unit: str, reference: float | None = None) -> str:
    """The chart. `title` is what a screen reader says; the page's script shows more on hovering."""
    if not dots:
        return ""
    frame = _Frame(len(dots), *value_range(dots, reference))
    parts = (
        _value_axis(frame, unit),
        _run_axis(frame, dots),
        _reference_line(frame, reference),
        _ranges(frame, dots),
        *(_group_lines(frame, dots, group) for group in sorted({dot.group for dot in dots})),
        _hollows(frame, dots),
    )
    head = f'<svg class="trend" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" tabindex="0"'
    return f'{head} aria-label="{escape(title)}">{"".join(parts)}</svg>'


def _value_axis(frame: _Frame, unit: str) -> str:
    symbol, size = scale_for(max(abs(frame.low), abs(frame.high)), unit)
    ticks = nice_ticks(frame.low / size, frame.high / size)
    lines = "".join(f"M{LEFT} {frame.y(t * size):.1f}H{WIDTH - RIGHT}" for t in ticks)
    texts = "".join(
        f'<text class="y" x="{LEFT - 8}" y="{frame.y(t * size):.1f}" dy=".35em">'
        f"{_tick(t, ticks)}</text>"
        for t in ticks
    )
    name = f'<text class="unit" x="{LEFT - 8}" y="16">{escape(symbol)}</text>' if symbol else ""
    return f'<path class="grid" d="{lines}"/>{texts}{name}'


def _tick(value: float, ticks: Sequence[float]) -> str:
    """A tick with as many decimals as the step needs, so that neighbours never read the same."""
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 0.0
    if step <= 0 or abs(value) >= 1e7:
        return format_number(value)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    finer = round(step, decimals) != round(step, decimals + 1)
    return f"{value:,.{decimals + finer}f}"


def _run_axis(frame: _Frame, dots: Sequence[Dot]) -> str:
    base = HEIGHT - BOTTOM
    step = max(1, math.ceil((len(dots) - 1) / (X_TICKS - 1)))
    # Counted from the newest run, which is the one a reader looks for.
    shown = range(len(dots) - 1, -1, -step)
    texts = "".join(
        f'<text class="x{_x_class(place, len(shown))}" x="{frame.x(i):.1f}" y="{base}" dy="1.6em">'
        f"{escape(dots[i].commit)}"
        f'<tspan x="{frame.x(i):.1f}" dy="1.25em">{escape(dots[i].date)}</tspan></text>'
        for place, i in enumerate(shown)
    )
    ticks = "".join(f"M{frame.x(i):.1f} {base}v4" for i in shown)
    return f'<path class="axis" d="M{LEFT} {base}H{WIDTH - RIGHT}{ticks}"/>{texts}'


def _x_class(place: int, count: int) -> str:
    """For small screens: the outer labels grow inwards, and of the others at most one has room."""
    if count == 1 or (count % 2 and place == count // 2):
        return ""
    return {0: " newest", count - 1: " oldest"}.get(place, " minor")


def _reference_line(frame: _Frame, reference: float | None) -> str:
    if reference is None or not frame.low <= reference <= frame.high:
        return ""
    y = frame.y(reference)
    line = f'<path class="reference" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
    return f'{line}<text class="note" x="{WIDTH - RIGHT}" y="{y - 5:.1f}">published</text>'


def _ranges(frame: _Frame, dots: Sequence[Dot]) -> str:
    bars = "".join(
        f"M{frame.x(i):.1f} {frame.y(dot.low):.1f}V{frame.y(dot.high):.1f}"
        for i, dot in enumerate(dots)
        if dot.low != dot.high
    )
    return f'<path class="ranges" d="{bars}"/>' if bars else ""


def _group_lines(frame: _Frame, dots: Sequence[Dot], group: int) -> str:
    """The line through one environment's dots, and the dots as zero-length strokes."""
    places = [
        f"{frame.x(i):.1f} {frame.y(dot.value):.1f}"
        for i, dot in enumerate(dots)
        if dot.group == group
    ]
    style = f"g{group % GROUPS}"
    line = "M" + "L".join(places)
    marks = "".join(f"M{place}h0" for place in places)
    size = "dots" + _size(dots)
    return f'<path class="line {style}" d="{line}"/><path class="{size} {style}" d="{marks}"/>'


def _size(dots: Sequence[Dot]) -> str:
    return "" if len(dots) <= 80 else " small"


def _hollows(frame: _Frame, dots: Sequence[Dot]) -> str:
    """The insides of the hollow dots, on top of all lines."""
    marks = "".join(
        f"M{frame.x(i):.1f} {frame.y(dot.value):.1f}h0" for i, dot in enumerate(dots) if dot.hollow
    )
    return f'<path class="hollow{_size(dots)}" d="{marks}"/>' if marks else ""


def spark_chart(values: Sequence[float]) -> str:
    """The shape of a series in a table cell, without axes; empty for fewer than two runs."""
    if len(values) < 2:
        return ""
    low, high = value_range([Dot(v, v, v, "", "") for v in values])
    scale_x, scale_y = SPARK_WIDTH / (len(values) - 1), SPARK_HEIGHT / (high - low)
    places = [f"{i * scale_x:.1f} {(high - v) * scale_y:.1f}" for i, v in enumerate(values)]
    head = f'<svg class="spark" viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" aria-hidden="true">'
    return f'{head}<path class="line g0" d="M{"L".join(places)}"/></svg>'
