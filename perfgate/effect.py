"""What two samples of one metric say about each other, and the part of it that needs no statistics.

Kept apart from `stats.py` so that a gate over exact metrics, the usual one, loads neither numpy nor
scipy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfgate.model import Sample


@dataclass(frozen=True, slots=True)
class Effect:
    """Head against base. `ratio` is head ÷ base and `low`..`high` its confidence interval.

    `difference` is head − base in the metric's unit, which keeps its sign where `ratio` is None
    (base is 0). `low` and `high` are None together: no interval of that confidence exists.
    """

    ratio: float | None
    low: float | None
    high: float | None
    p_value: float | None
    method: str
    difference: float
    warnings: tuple[str, ...] = ()


def compare_exact(base: float, head: float) -> Effect:
    """Two exact numbers: the interval is the point, and there is no test."""
    ratio = finite(head / base) if base else None
    return Effect(ratio, ratio, ratio, None, "exact", head - base)


def centre(sample: Sample) -> float:
    """The number to show for a sample: the median of its values, or the centre its source gives."""
    if sample.summary is not None:
        return sample.summary.centre
    values = sorted(sample.values)
    # Halved before they are added, so that large values do not overflow.
    return values[(len(values) - 1) // 2] / 2 + values[len(values) // 2] / 2


def count(sample: Sample) -> int:
    """How many measurements are behind a sample."""
    return sample.summary.n if sample.summary is not None else sample.taken or len(sample.values)


def finite(value: float) -> float | None:
    """The number, or None where the arithmetic ran out of range."""
    return value if math.isfinite(value) else None
