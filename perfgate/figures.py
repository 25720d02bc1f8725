"""Numbers as a person reads them: a value with a fitting unit, a change, a sparkline.

In: plain numbers and a unit symbol of `Metric.unit`. Out: text without markup. The same number
gives the same text on every machine (no locale) and in every form, reasons included, and a change
that is not zero never reads as zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

_TIME_PS = {"ps": 1.0, "ns": 1e3, "µs": 1e6, "ms": 1e9, "s": 1e12}
_BYTES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_SHOWN = {"us": "µs", "bytes": "B", "percent": "%", "1": ""}
_SPARKS = "▁▂▃▄▅▆▇█"

# Digits of a value: what is usual, and the most that are needed to tell two values apart.
DIGITS, MOST_DIGITS = 4, 17


def scale_for(value: float, unit: str) -> tuple[str, float]:
    """The symbol to show `value` in, and what one shown unit is worth in `unit`.

    Times step by 1000 and bytes by 1024, so that 1 ≤ shown < the next step where a symbol exists.
    """
    symbol = _SHOWN.get(unit, unit)
    if symbol in _TIME_PS:
        return _largest_step(_TIME_PS, abs(value), _TIME_PS[symbol])
    if symbol == "B":
        return _largest_step(_BYTES, abs(value), 1.0)
    return symbol, 1.0


def _largest_step(ladder: dict[str, float], value: float, own: float) -> tuple[str, float]:
    if value == 0:
        return next((symbol, size / own) for symbol, size in ladder.items() if size == own)
    # The margin is for sums such as 0.1 ms + 0.9 ms, which should not read as 999.9999 µs.
    fits = [(symbol, size) for symbol, size in ladder.items() if value * own >= size * (1 - 1e-9)]
    symbol, size = fits[-1] if fits else next(iter(ladder.items()))
    return symbol, size / own


def format_number(value: float, whole: bool = True, digits: int = DIGITS) -> str:
    """Significant digits, with thousands commas; whole numbers in full if `whole`."""
    if not math.isfinite(value):
        return "-"
    if value == 0 or (whole and value == int(value) and abs(value) < 1e12):
        return f"{int(value):,}"
    if abs(value) >= 1e12 or abs(value) < 1e-3:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


@functools.lru_cache(maxsize=4096)
def format_value(value: float | None, unit: str, digits: int = DIGITS) -> str:
    """1536.0, "bytes" → `1.500 KiB`; None → `-`. Only counts are shown without decimals."""
    if value is None:
        return "-"
    symbol, size = scale_for(value, unit)
    is_count = symbol not in _TIME_PS and (symbol not in _BYTES or symbol == "B")
    return f"{format_number(value / size, is_count, digits)} {symbol}".rstrip()


def format_sides(base: float | None, head: float | None, unit: str) -> tuple[str, str]:
    """Two values with as many digits as it takes to tell them apart: `100.00 µs`, `100.02 µs`."""
    texts = format_value(base, unit), format_value(head, unit)
    if base is None or head is None or base == head:
        return texts
    for digits in range(DIGITS, MOST_DIGITS):
        texts = format_value(base, unit, digits), format_value(head, unit, digits)
        if _read(texts[0]) != _read(texts[1]):
            break
    return texts


def _read(text: str) -> tuple[float, str]:
    """What a reader takes a value for: `100 B` and `100.0 B` are the same."""
    number, _, symbol = text.partition(" ")
    return float(number.replace(",", "")), symbol


def format_step(base: float, head: float, unit: str) -> str:
    """`100.0 → 102.0 µs`: the unit once where both sides have the same."""
    before, after = format_sides(base, head, unit)
    number, _, symbol = before.partition(" ")
    same = symbol and after.endswith(f" {symbol}")
    return f"{number if same else before} → {after}"


def format_change(ratio: float | None) -> str:
    """Head ÷ base as a change: 1.02 → `+2.00 %`; None → empty; from twofold on, `2.500×`."""
    if ratio is None:
        return ""
    percent = (ratio - 1) * 100
    size = abs(percent)
    if size == 0:
        return "0 %"
    if size < 0.001:
        return f"{'+' if percent > 0 else '-'}<0.001 %"
    if ratio >= 2:
        return f"{format_number(ratio, whole=False)}×"
    rounded = round(size, 6)  # 0.9 - 1 is not quite -0.1
    decimals = 3 if rounded < 0.1 else 2 if rounded < 10 else 1
    return f"{percent:+.{decimals}f} %"


def format_interval(low: float | None, high: float | None) -> str:
    """The interval of a ratio, empty where there is none or it is a single point."""
    if low is None or high is None or low == high:
        return ""
    return f"{format_change(low)} … {format_change(high)}"


def format_duration(seconds: float) -> str:
    """Wall time for people: `0.21 s`, `3.4 s`, `2 min 05 s`."""
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """The newest `width` values as bars from the smallest to the largest; equal values are low."""
    shown = list(values[-width:])
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    if high == low:
        return _SPARKS[0] * len(shown)
    top = len(_SPARKS) - 1
    return "".join(_SPARKS[round((value - low) / (high - low) * top)] for value in shown)


def plural(count: int, noun: str) -> str:
    """1, "case" → `1 case`; 2, "case" → `2 cases`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
